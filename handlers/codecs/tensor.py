"""One value to a tensor: JSON numbers, `.npy`, a protocol's tensor; type and shape are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import torch

from makemar.handlers.codecs.json_text import parse_json
from makemar.handlers.codecs.npy import is_npy, read_npy
from makemar.handlers.codecs.numbers import flatten, from_numbers
from makemar.handlers.codecs.tensor_file import is_safetensors, read_safetensors
from makemar.handlers.dtypes import name_of
from makemar.handlers.errors import BadRequestError
from makemar.handlers.quoting import list_names, quote

__all__ = ["to_tensor"]

Shape = Sequence[Optional[int]]
_JSON_NESTING = 64


def to_tensor(
    value: object, *, dtype: torch.dtype | None = None, shape: Shape | None = None
) -> torch.Tensor:
    """Return a value as a tensor of `dtype` and `shape` (None: that dimension may be anything).

    Without a `dtype`, JSON numbers and all floats become float32; integers and booleans whose
    type the client named (`.npy`, safetensors, protocol v2) keep it. With one, no value may
    change by it. Raises `BadRequestError`.
    """
    # Lists of numbers are what most requests hold.
    tensor = _typed(value if type(value) is list else _unwrapped(value), dtype)
    if shape is not None and not _matches(tensor.shape, shape):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise BadRequestError(
            f"expected an array of shape ({wanted}), got {quote(tuple(tensor.shape))}"
        )
    return tensor


def _unwrapped(value: object) -> object:
    """Turn files and JSON text into what they hold."""
    if isinstance(value, (bytes, bytearray)):
        if is_npy(value):
            return read_npy(value)
        if is_safetensors(value):
            return _unwrapped(read_safetensors(value))
    if isinstance(value, (bytes, bytearray)) or (isinstance(value, str) and value[:1] == "["):
        return _parsed(value)
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _parsed(text: bytes | bytearray | str) -> object:
    """Read numbers sent as bytes or text; a JSON string with a number in it is no number."""
    try:
        return parse_json(text, max_nesting=_JSON_NESTING)
    except BadRequestError as error:
        raise BadRequestError(
            f"expected numbers, got {len(text)} bytes that are none; "
            "send a JSON list, a .npy file or safetensors"
        ) from error


def _typed(value: object, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(value, (list, int, float)):
        elements, shape = flatten(value)
        tensor = from_numbers(elements, dtype or torch.float32)
        return tensor if len(shape) == 1 else tensor.reshape(shape)
    if isinstance(value, torch.Tensor):
        if dtype is None:
            return value.float() if value.is_floating_point() else value
        return _cast(value, dtype)
    if isinstance(value, dict):
        raise BadRequestError(f"expected one array, got several fields: {list_names(value)}")
    raise BadRequestError(
        f"expected JSON numbers, got {type(value).__name__}; "
        "send a list of numbers as application/json"
    )


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Change the type; rounding is what floats are for, but an integer must stay itself."""
    cast = tensor.to(dtype)
    if cast.dtype == tensor.dtype or dtype.is_floating_point or dtype.is_complex:
        return cast
    if not torch.equal(cast.to(tensor.dtype), tensor):
        raise BadRequestError(f"the array holds values that {name_of(dtype)} cannot hold")
    return cast


def _matches(actual: Sequence[int], wanted: Shape) -> bool:
    return len(actual) == len(wanted) and all(
        known is None or known == size for size, known in zip(actual, wanted)
    )
