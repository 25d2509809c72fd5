"""Where two replies differ: JSON and `.npy` number by number, anything else byte by byte."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from makemar.serving.reply import Reply

if TYPE_CHECKING:
    import numpy

__all__ = ["TOLERANCES", "find_difference", "find_reply_difference"]

# Largest difference, relative to the larger value or absolute below 1: kernels for another batch
# size add in another order, so the last bits may differ.
TOLERANCES: Mapping[str, float] = {"float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2}

_NPY = b"\x93NUMPY"
_SHOWN = 60  # characters of a value


def find_reply_difference(expected: Reply, got: Reply, tolerance: float) -> str:
    """Say where a reply is not the expected one, '' if it is: status, content type, body."""
    if expected.status != got.status:
        return f"status {expected.status} was expected, {got.status} came"
    kinds = [reply.headers.get("content-type", "") for reply in (expected, got)]
    if kinds[0] != kinds[1]:
        return f"content type {kinds[0]!r} was expected, {kinds[1]!r} came"
    return find_difference(expected.body, got.body, tolerance)


def find_difference(expected: bytes, got: bytes, tolerance: float) -> str:
    """Say where a body is not the expected one, '' if it is.

    Floating-point numbers may differ by `tolerance`, relative to the larger one, absolute below 1,
    and as much as half precision must for an array of that; everything else is compared exactly.
    """
    if expected == got:
        return ""
    if expected.startswith(_NPY) and got.startswith(_NPY):
        return _arrays(expected, got, tolerance)
    try:
        return _values(json.loads(expected), json.loads(got), tolerance, "$")
    except (ValueError, RecursionError):
        return _bytes(expected, got)


def _values(expected: object, got: object, tolerance: float, place: str) -> str:
    if isinstance(expected, dict) and isinstance(got, dict):
        if expected.keys() != got.keys():
            return f"{place} has other keys: {_short(sorted(expected.keys() ^ got.keys()))}"
        pairs = ((f"{place}.{key}", expected[key], got[key]) for key in expected)
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return f"{place} has {len(got)} entries instead of {len(expected)}"
        pairs = ((f"{place}[{i}]", *both) for i, both in enumerate(zip(expected, got, strict=True)))
    elif _close(expected, got, tolerance):
        return ""
    else:
        return f"{place} is {_short(got)} instead of {_short(expected)}"
    return next(filter(None, (_values(a, b, tolerance, where) for where, a, b in pairs)), "")


def _close(expected: object, got: object, tolerance: float) -> bool:
    """Whether two scalars are as good as equal; whole numbers are names and counts: exactly."""
    numbers = isinstance(expected, (int, float)) and isinstance(got, (int, float))
    if numbers and float in (type(expected), type(got)):
        a, b = float(expected), float(got)  # type: ignore[arg-type]
        both_nan = math.isnan(a) and math.isnan(b)
        return both_nan or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return type(expected) is type(got) and expected == got


def _arrays(expected: bytes, got: bytes, tolerance: float) -> str:
    try:
        import numpy

        # An archive's reply is not to run code here.
        a, b = (numpy.load(io.BytesIO(body), allow_pickle=False) for body in (expected, got))
    except (ImportError, ValueError, EOFError, OSError):
        return _bytes(expected, got)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"the array is {b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
    wrong = numpy.argwhere(~_near(a, b, tolerance))
    if not len(wrong):
        return ""
    index = tuple(wrong[0].tolist())
    return f"the array at {list(index)} is {b[index]} instead of {a[index]}"


def _near(a: numpy.ndarray, b: numpy.ndarray, tolerance: float) -> numpy.ndarray:
    import numpy

    if a.dtype.kind not in "fc":
        return numpy.asarray(a == b)
    tolerance = max(tolerance, TOLERANCES.get(a.dtype.name, 0.0))
    with numpy.errstate(invalid="ignore"):  # infinities
        most = tolerance * numpy.maximum(1, numpy.maximum(abs(a), abs(b)))
        near = (abs(a - b) <= most) & numpy.isfinite(a) & numpy.isfinite(b)
    return numpy.asarray(near | (a == b) | (numpy.isnan(a) & numpy.isnan(b)))


def _bytes(expected: bytes, got: bytes) -> str:
    pairs = enumerate(zip(expected, got, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(got)))
    return f"byte {place} differs ({len(got)} bytes instead of {len(expected)})"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
