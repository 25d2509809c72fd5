"""The Open Inference Protocol's data types, and the bytes of its binary tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from makemar.handlers.codecs.numbers import from_numbers
from makemar.handlers.errors import BadRequestError

__all__ = ["TYPES", "datatype_of", "elements_to_tensor", "pack", "unpack_bytes", "unpack_tensor"]

# datatype: (torch's type on the wire, the type that samples get). torch computes little with
# wider unsigned types, so these become the next signed type that holds them.
TYPES: Mapping[str, tuple[torch.dtype, torch.dtype]] = MappingProxyType(
    {
        "BOOL": (torch.bool, torch.bool),
        "UINT8": (torch.uint8, torch.uint8),
        "UINT16": (torch.uint16, torch.int32),
        "UINT32": (torch.uint32, torch.int64),
        "UINT64": (torch.uint64, torch.int64),
        "INT8": (torch.int8, torch.int8),
        "INT16": (torch.int16, torch.int16),
        "INT32": (torch.int32, torch.int32),
        "INT64": (torch.int64, torch.int64),
        "FP16": (torch.float16, torch.float16),
        "FP32": (torch.float32, torch.float32),
        "FP64": (torch.float64, torch.float64),
        "BF16": (torch.bfloat16, torch.bfloat16),
    }
)
_HIGHEST = {"UINT16": 2**16 - 1, "UINT32": 2**32 - 1, "UINT64": 2**63 - 1}
_NAMES = {wire: name for name, (wire, _) in TYPES.items()}


def datatype_of(dtype: torch.dtype) -> str | None:
    """Return the protocol's name of a torch type, or None (complex numbers)."""
    return _NAMES.get(dtype)


def elements_to_tensor(elements: Sequence[object], datatype: str) -> torch.Tensor:
    """Return the numbers of a JSON input as a 1-D tensor; raises `BadRequestError`."""
    tensor = from_numbers(elements, TYPES[datatype][1])
    if datatype not in _HIGHEST or not len(tensor):
        return tensor
    if int(tensor.min()) < 0 or int(tensor.max()) > _HIGHEST[datatype]:
        raise BadRequestError(f"a number sent lies outside of what {datatype} holds")
    return tensor


def unpack_tensor(data: memoryview, datatype: str) -> torch.Tensor:
    """Return little-endian binary data as a 1-D tensor that owns its memory."""
    wire, kept = TYPES[datatype]
    size = wire.itemsize
    if len(data) % size:
        raise BadRequestError(f"{len(data)} bytes are no whole number of {datatype} elements")
    if not data:
        return torch.empty(0, dtype=kept)
    if wire is torch.bool:
        # Any byte but 0 and 1 would be an invalid bool, on which torch computes nonsense.
        return torch.frombuffer(bytearray(data), dtype=torch.uint8) != 0
    tensor = torch.frombuffer(bytearray(data), dtype=wire).to(kept)
    if datatype == "UINT64" and bool((tensor < 0).any()):
        raise BadRequestError("a number sent lies outside of what int64 holds")
    return tensor


def unpack_bytes(data: memoryview) -> list[bytes]:
    """Return the elements of a BYTES input: each is four bytes of length, then the bytes."""
    elements, at = [], 0
    while at < len(data):
        start = at + 4
        if start > len(data):
            raise BadRequestError("a BYTES input ends inside of an element's length")
        at = start + int(struct.unpack_from("<I", data, at)[0])
        if at > len(data):
            raise BadRequestError("a BYTES input ends inside of an element")
        elements.append(bytes(data[start:at]))
    return elements


def pack(values: torch.Tensor | Sequence[bytes]) -> bytes:
    """Return an output's little-endian binary data: what `unpack_…` reads."""
    if isinstance(values, torch.Tensor):
        flat = values.detach().cpu().contiguous().reshape(-1)
        return bytes(flat.view(torch.uint8).numpy().tobytes()) if len(flat) else b""
    return b"".join(struct.pack("<I", len(value)) + value for value in values)
