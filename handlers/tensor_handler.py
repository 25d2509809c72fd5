"""Arrays of numbers in, arrays of numbers out: any network, with its input checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional

import torch

from makemar.handlers.base import BaseHandler
from makemar.handlers.errors import BadRequestError, LoadError
from makemar.handlers.settings import HandlerSettings

__all__ = ["TensorHandler", "TensorHandlerSettings"]

_DTYPES: Mapping[str, torch.dtype] = {
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


@dataclasses.dataclass(frozen=True)
class TensorHandlerSettings(HandlerSettings):
    """`handler:` settings of `TensorHandler`.

    `shape`: of one sample, without the batch's dimension; -1 leaves a size free; default: any.
    `input_dtype`: what the network takes (`float32`, `int64`, `uint8`, `bool` …).
    """

    shape: Optional[tuple[int, ...]] = None  # noqa: UP045  (read at run time, on Python 3.9 too)
    input_dtype: str = "float32"

    def __post_init__(self) -> None:
        """Refuse a dtype that torch does not have, or a size that no array has."""
        super().__post_init__()
        if self.input_dtype not in _DTYPES:
            told = ", ".join(_DTYPES)
            raise LoadError(f"handler.input_dtype is {self.input_dtype!r}, not one of {told}")
        if any(size < -1 or size == 0 for size in self.shape or ()):
            raise LoadError(
                f"handler.shape is {list(self.shape or ())}; a size is at least 1, or -1 for any"
            )


class TensorHandler(BaseHandler):
    """Answer an array of numbers with the network's output for it.

    Input: numbers in nested lists, or an array. Samples of one shape share a forward. Without
    `shape` an object of arrays is taken too: its names are the network's arguments.
    """

    settings_type: ClassVar[type[HandlerSettings]] = TensorHandlerSettings
    settings: TensorHandlerSettings

    def read(self, value: object) -> Any:
        """Turn numbers or an array into a tensor of the shape and dtype in the settings.

        Raises `BadRequestError` for anything else, and for numbers that the dtype cannot hold.
        """
        if isinstance(value, Mapping) and self.settings.shape is None:
            if not value:
                raise BadRequestError("the object sent names no arrays")
            return {str(name): self._tensor(part) for name, part in value.items()}
        tensor = self._tensor(value)
        self._check_shape(tensor)
        return tensor

    def examples(self) -> Sequence[torch.Tensor]:
        """Return zeros of the shape in the settings, free sizes being 1."""
        if self.settings.shape is None:
            return ()
        dtype = _DTYPES[self.settings.input_dtype]
        return [torch.zeros([max(1, size) for size in self.settings.shape], dtype=dtype)]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        numbers = {"anyOf": [_ITEM, {"type": "array", "items": {"$ref": "#/$defs/numbers"}}]}
        free = {"$ref": "#/$defs/numbers", "$defs": {"numbers": numbers}}
        return {
            "handler": type(self).__name__,
            "input": self._input_schema() if self.settings.shape is not None else free,
            "output": free,
        }

    def _tensor(self, value: object) -> torch.Tensor:
        wanted = _DTYPES[self.settings.input_dtype]
        given = _as_tensor(value, wanted)
        if given.is_complex():
            raise BadRequestError("complex numbers were sent; this model takes real ones")
        if given.dtype == wanted:
            return given
        tensor = given.to(wanted)
        # Rounding a float to a shorter one is what a client means; wrapping around 256 is not.
        lost = (
            bool((tensor.isinf() & ~given.isinf()).any())
            if wanted.is_floating_point
            else not torch.equal(tensor.to(given.dtype), given)
        )
        if lost:
            raise BadRequestError(
                f"some of the numbers sent are no {self.settings.input_dtype} values"
            )
        return tensor

    def _check_shape(self, tensor: torch.Tensor) -> None:
        shape = self.settings.shape
        if shape is None:
            return
        fits = len(shape) == tensor.dim() and all(
            wanted in (-1, size) for wanted, size in zip(shape, tensor.shape)
        )
        if not fits or tensor.numel() == 0:
            raise BadRequestError(
                f"the array sent has shape {list(tensor.shape)}, this model takes {list(shape)}"
                + (" (-1: any size)" if -1 in shape else "")
            )

    def _input_schema(self) -> Mapping[str, object]:
        schema: dict[str, object] = dict(_ITEM)
        if self.settings.input_dtype == "bool":
            schema = {"enum": [True, False, 0, 1]}
        elif not _DTYPES[self.settings.input_dtype].is_floating_point:
            schema = {"type": "integer"}
        for size in reversed(self.settings.shape or ()):
            limits = {"minItems": 1} if size == -1 else {"minItems": size, "maxItems": size}
            schema = {"type": "array", "items": schema, **limits}
        return schema


_ITEM: Mapping[str, object] = {"type": ["number", "boolean"]}


def _as_tensor(value: object, wanted: torch.dtype) -> torch.Tensor:
    """Turn numbers, lists of them or an array into a tensor, of their own type if need be."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (bool, int, float, list, tuple)):
        try:
            tensor = torch.tensor(value)
            if tensor.is_floating_point() and wanted not in (torch.float32, torch.float16):
                # float32 is torch's guess; a double, or an integer sent as 3.0, needs its digits.
                tensor = torch.tensor(value, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise BadRequestError(f"the list is not a regular array of numbers: {error}") from error
        return tensor
    if hasattr(value, "__array__"):
        array: Any = value
        try:
            # What lies in a request's own bytes is read-only, and torch warns of it.
            return torch.as_tensor(array if array.flags.writeable else array.copy())
        except (TypeError, ValueError) as error:
            raise BadRequestError(f"the array sent does not hold numbers: {error}") from error
    raise BadRequestError(
        f"expected numbers, got {type(value).__name__}; send an array, or nested lists of numbers "
        "as application/json"
    )
