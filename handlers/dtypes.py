"""The types that numbers have in tensors, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

__all__ = ["DTYPES", "PRECISIONS", "name_of"]

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
        "float32": torch.float32,
        "float64": torch.float64,
        "uint8": torch.uint8,
        "int8": torch.int8,
        "int16": torch.int16,
        "int32": torch.int32,
        "int64": torch.int64,
        "bool": torch.bool,
    }
)
# Those that a network may be run in.
PRECISIONS = ("float32", "bfloat16", "float16")


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type, `float32`; also of those that are none of `DTYPES`."""
    return str(dtype).partition(".")[2]
