"""Arrays of numbers in, arrays of numbers out: any network, with its input checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional

import torch

from makemar.handlers.base import BaseHandler
from makemar.handlers.codecs import to_tensor
from makemar.handlers.dtypes import DTYPES
from makemar.handlers.errors import BadRequestError, LoadError
from makemar.handlers.limits import limited
from makemar.handlers.settings import HandlerSettings

__all__ = ["TensorHandler", "TensorHandlerSettings"]

# One number as JSON Schema sees it.
_ITEM: Mapping[str, object] = {"type": ["number", "boolean"]}


@dataclasses.dataclass(frozen=True)
class TensorHandlerSettings(HandlerSettings):
    """`handler:` settings of `TensorHandler`.

    `shape`: of one sample, without the batch's dimension; -1 leaves a size free; default: any.
    `input_dtype`: what the network takes (`float32`, `int64`, `uint8`, `bool` …).
    """

    shape: Optional[tuple[int, ...]] = None  # noqa: UP045  (read at run time, on Python 3.9 too)
    input_dtype: str = limited("float32", one_of=tuple(DTYPES))

    def __post_init__(self) -> None:
        """Refuse a size that no array has."""
        super().__post_init__()
        if any(size < -1 or size == 0 for size in self.shape or ()):
            raise LoadError(
                f"handler.shape is {list(self.shape or ())}; a size is at least 1, or -1 for any"
            )


class TensorHandler(BaseHandler):
    """Answer an array of numbers with the network's output for it.

    Input: numbers in nested lists, `.npy`, safetensors or a protocol's tensors. Samples of one
    shape share a forward. Without `shape` an object of several arrays is taken too: its names are
    the network's arguments.
    """

    settings_type: ClassVar[type[HandlerSettings]] = TensorHandlerSettings
    settings: TensorHandlerSettings

    def read(self, value: object) -> Any:
        """Turn numbers or an array into a tensor of the shape and dtype in the settings.

        Raises `BadRequestError` for anything else, and for numbers that an integer dtype cannot
        hold.
        """
        shape, dtype = self.settings.shape, DTYPES[self.settings.input_dtype]
        if isinstance(value, Mapping) and len(value) > 1 and shape is None:
            return {str(name): to_tensor(part, dtype=dtype) for name, part in value.items()}
        sizes = None if shape is None else [None if size == -1 else size for size in shape]
        tensor = to_tensor(value, dtype=dtype, shape=sizes)
        if not tensor.numel():
            raise BadRequestError("the array sent is empty")
        return tensor

    def examples(self) -> Sequence[torch.Tensor]:
        """Return zeros of the shape in the settings, free sizes being 1."""
        if self.settings.shape is None:
            return ()
        dtype = DTYPES[self.settings.input_dtype]
        return [torch.zeros([max(1, size) for size in self.settings.shape], dtype=dtype)]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        same = {"$ref": "#/$defs/numbers"}
        lists = {"type": "array", "items": same}
        # A network may give, and without a shape also take, several arrays by name.
        named = {"type": "object", "additionalProperties": same, "minProperties": 1}
        free = {**same, "$defs": {"numbers": {"anyOf": [_ITEM, lists, named]}}}
        return {
            "handler": type(self).__name__,
            "input": self._input_schema() if self.settings.shape is not None else free,
            "output": free,
        }

    def _input_schema(self) -> Mapping[str, object]:
        schema: dict[str, object] = dict(_ITEM)
        if self.settings.input_dtype == "bool":
            schema = {"enum": [True, False, 0, 1]}
        elif not DTYPES[self.settings.input_dtype].is_floating_point:
            schema = {"type": "integer"}
        for size in reversed(self.settings.shape or ()):
            limits = {"minItems": 1} if size == -1 else {"minItems": size, "maxItems": size}
            schema = {"type": "array", "items": schema, **limits}
        return schema
