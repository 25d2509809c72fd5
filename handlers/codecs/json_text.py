"""JSON as clients send it: parsed once, with limits on what could stall or crash a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from makemar.handlers.errors import BadRequestError, PayloadTooLargeError

__all__ = ["check_nesting", "is_json_type", "parse_json"]

_CONTAINERS = frozenset({list, dict})
# Turning a decimal text into an int takes quadratic time. Newer Pythons refuse long ones
# themselves (4300 digits); the first releases of 3.9 and 3.10 do not.
_MOST_DIGITS = 4300


def is_json_type(content_type: str) -> bool:
    """Tell JSON by its media type, in any of its spellings."""
    return content_type in ("application/json", "text/json") or content_type.endswith("+json")


def parse_json(text: bytes | bytearray | str, *, max_nesting: int) -> object:
    """Parse JSON text; NaN and Infinity pass, as they do in TorchServe 0.12.

    Raises `BadRequestError` that says where the text breaks, and `PayloadTooLargeError` when it
    is nested deeper than `max_nesting`.
    """
    hook = None if hasattr(sys, "get_int_max_str_digits") else _short_int
    try:
        value = json.loads(text, parse_int=hook)
    except json.JSONDecodeError as error:
        raise BadRequestError(f"the body looks like JSON but is not valid: {error}") from error
    except UnicodeDecodeError as error:
        raise BadRequestError("the JSON sent is not UTF-8") from error
    except RecursionError as error:
        raise _too_deep(max_nesting) from error
    except ValueError as error:
        raise BadRequestError("the JSON sent holds an integer with too many digits") from error
    check_nesting(value, max_nesting)
    return value


def check_nesting(value: object, limit: int) -> None:
    """Raise `PayloadTooLargeError` when lists and objects lie deeper in each other than `limit`.

    Level by level, so that depth costs no recursion; a flat list costs one pass in C.
    """
    level = [value] if type(value) in _CONTAINERS else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            raise _too_deep(limit)
        level = [inner for outer in level for inner in _inner(outer)]


def _inner(outer: object) -> Iterable[object]:
    items = outer.values() if isinstance(outer, dict) else outer
    assert isinstance(items, Iterable)  # noqa: S101  (for the type checker)
    kinds = set(map(type, items))
    if not kinds & _CONTAINERS:
        return ()
    return items if kinds <= _CONTAINERS else (i for i in items if type(i) in _CONTAINERS)


def _too_deep(limit: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"the JSON sent is nested deeper than {limit} levels")


def _short_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(digits)
