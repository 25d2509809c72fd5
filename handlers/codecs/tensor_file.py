"""Several named tensors in one body: the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from makemar.handlers.codecs.numbers import check_shape
from makemar.handlers.errors import BadRequestError, ReplyError, UnsupportedTypeError

__all__ = ["SAFETENSORS_TYPES", "is_safetensors", "read_safetensors", "write_safetensors"]

SAFETENSORS_TYPES = (
    "application/safetensors",
    "application/x-safetensors",
    "application/vnd.safetensors",
)


def is_safetensors(data: bytes | bytearray) -> bool:
    """Tell a safetensors file: eight bytes of header length that fit, then a JSON object.

    No text and no picture starts so: their first eight bytes make an enormous number.
    """
    return len(data) > 9 and data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data)


def read_safetensors(data: bytes | bytearray) -> dict[str, torch.Tensor]:
    """Return the tensors by name.

    Raises `BadRequestError` for a damaged file and `UnsupportedTypeError` (415) where the
    package safetensors is not installed.
    """
    try:
        from safetensors.torch import load
    except ImportError as error:
        raise UnsupportedTypeError(
            "this server reads no safetensors; send .npy or JSON (package safetensors is missing)"
        ) from error
    try:
        tensors = load(bytes(data))
    except Exception as error:
        raise BadRequestError(f"the safetensors file cannot be read: {error}") from error
    for tensor in tensors.values():
        check_shape(tensor.shape)
    return tensors


def write_safetensors(arrays: Mapping[str, torch.Tensor]) -> bytes:
    """Return the tensors as a safetensors file."""
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise ReplyError("the package safetensors is missing on this server") from error
    # Tensors that share memory are refused; copies share none.
    copies = {name: a.detach().cpu().clone().contiguous() for name, a in arrays.items()}
    try:
        return save(copies)
    except Exception as error:
        raise ReplyError(f"the arrays cannot be written as safetensors: {error}") from error
