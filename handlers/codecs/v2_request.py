"""Open Inference Protocol v2, the request: named inputs whose first dimension is the batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from makemar.handlers.codecs.binary import from_base64
from makemar.handlers.codecs.envelope import Envelope, check_count
from makemar.handlers.codecs.json_text import parse_json
from makemar.handlers.codecs.numbers import check_shape, flatten
from makemar.handlers.codecs.v2_reply import V2Envelope
from makemar.handlers.codecs.v2_types import (
    TYPES,
    elements_to_tensor,
    unpack_bytes,
    unpack_tensor,
)
from makemar.handlers.errors import BadRequestError
from makemar.handlers.quoting import quote
from makemar.handlers.settings import HandlerSettings

__all__ = ["BINARY_HEADER", "is_v2", "open_v2", "open_v2_binary"]

BINARY_HEADER = "inference-header-content-length"
_MOST_DIMENSIONS = 64


def is_v2(value: Mapping[str, Any]) -> bool:
    """Tell a v2 request from other JSON with a key `inputs`: its inputs have a datatype."""
    inputs = value.get("inputs")
    return (
        isinstance(inputs, list)
        and bool(inputs)
        and isinstance(inputs[0], dict)
        and "datatype" in inputs[0]
    )


def open_v2_binary(body: object, header_length: str, settings: HandlerSettings) -> Envelope:
    """Open a body of JSON and binary data; the header says how many bytes are JSON."""
    if not isinstance(body, (bytes, bytearray)):
        raise BadRequestError(
            "a request with Inference-Header-Content-Length must be application/octet-stream"
        )
    length = int(header_length) if header_length.isascii() and header_length.isdigit() else -1
    if not 0 < length <= len(body):
        raise BadRequestError(
            f"Inference-Header-Content-Length is {header_length[:20]!r}, the body has "
            f"{len(body)} bytes"
        )
    value = parse_json(body[:length], max_nesting=settings.max_nesting)
    if not isinstance(value, dict) or not is_v2(value):
        raise BadRequestError("the JSON before the binary data has no v2 inputs")
    return open_v2(value, settings, memoryview(body)[length:])


def open_v2(
    value: Mapping[str, Any], settings: HandlerSettings, binary: memoryview | None = None
) -> Envelope:
    """Return one sample per row of the inputs; a dict by name where there are several inputs."""
    inputs: dict[str, Sequence[object]] = {}
    rest = memoryview(b"") if binary is None else binary
    for given in value["inputs"]:
        name, shape, datatype = _head(given, inputs)
        check_count(shape[0], settings)
        data, rest = _take_binary(given, rest)
        inputs[name] = _rows(name, shape, _elements(given, datatype, data))
    if len(rest):
        raise BadRequestError(f"{len(rest)} bytes of binary data belong to no input")
    counts = {len(rows) for rows in inputs.values()}
    if len(counts) > 1:
        raise BadRequestError("the inputs differ in their first dimension, the batch")
    only = next(iter(inputs.values()))
    rows = only if len(inputs) == 1 else [dict(zip(inputs, row)) for row in zip(*inputs.values())]
    return V2Envelope(rows, value)


def _head(given: object, known: Mapping[str, object]) -> tuple[str, list[int], str]:
    """Return an input's name, shape and datatype."""
    if not isinstance(given, dict):
        raise BadRequestError(f"an input is {type(given).__name__}, not an object")
    name, shape, datatype = (given.get(key) for key in ("name", "shape", "datatype"))
    if not isinstance(name, str) or not name or name in known:
        raise BadRequestError("every input needs a name of its own")
    if datatype != "BYTES" and (not isinstance(datatype, str) or datatype not in TYPES):
        told = ", ".join([*TYPES, "BYTES"])
        raise BadRequestError(
            f"input {quote(name)}: datatype is {quote(datatype)}, not one of {told}"
        )
    if not isinstance(shape, list) or not 0 < len(shape) <= _MOST_DIMENSIONS:
        raise BadRequestError(
            f"input {quote(name)}: shape must list its dimensions, the batch first"
        )
    if any(type(size) is not int or not 0 <= size < 2**31 for size in shape):
        raise BadRequestError(f"input {quote(name)}: shape must hold integers of 0 or more")
    check_shape(shape)
    return name, shape, datatype


def _take_binary(
    given: Mapping[str, Any], rest: memoryview
) -> tuple[memoryview | None, memoryview]:
    """Cut an input's own bytes off the binary data."""
    parameters = given.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    if "shared_memory_region" in parameters:
        raise BadRequestError("inputs in shared memory are not supported; send the data")
    size = parameters.get("binary_data_size")
    if size is None:
        return None, rest
    if type(size) is not int or not 0 <= size <= len(rest):
        raise BadRequestError(
            f"binary_data_size is {quote(size)}, {len(rest)} bytes of binary data are left"
        )
    return rest[:size], rest[size:]


def _elements(
    given: Mapping[str, Any], datatype: str, binary: memoryview | None
) -> torch.Tensor | list[Any]:
    """Return an input's elements in one dimension."""
    if binary is not None:
        return unpack_bytes(binary) if datatype == "BYTES" else unpack_tensor(binary, datatype)
    data = given.get("data")
    if not isinstance(data, list):
        raise BadRequestError(f"input {quote(given['name'])}: data must be a list")
    elements, _ = flatten(data)
    if datatype != "BYTES":
        return elements_to_tensor(elements, datatype)
    if not all(isinstance(element, str) for element in elements):
        raise BadRequestError(f"input {quote(given['name'])}: BYTES in JSON must be text")
    parameters = given.get("parameters")
    if isinstance(parameters, dict) and parameters.get("content_type") == "base64":
        return [from_base64(element) for element in elements]
    return elements


def _rows(name: str, shape: Sequence[int], elements: torch.Tensor | list[Any]) -> Sequence[object]:
    """Cut elements into one value per row: tensors, or BYTES alone or in lists."""
    if math.prod(shape) != len(elements):
        raise BadRequestError(
            f"input {quote(name)}: shape {quote(list(shape))} needs {math.prod(shape)} elements, "
            f"data has {len(elements)}"
        )
    if isinstance(elements, torch.Tensor):
        return elements.reshape(list(shape)).unbind()
    if len(shape) == 1:
        return elements
    width = math.prod(shape[1:])
    return [_nested(elements[i * width : (i + 1) * width], shape[1:]) for i in range(shape[0])]


def _nested(elements: list[Any], shape: Sequence[int]) -> list[Any]:
    if len(shape) == 1:
        return elements
    width = math.prod(shape[1:])
    return [_nested(elements[i * width : (i + 1) * width], shape[1:]) for i in range(shape[0])]
