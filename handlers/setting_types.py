"""The types that a setting may have, and a value from YAML as one of them."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

from makemar.handlers.errors import LoadError

__all__ = ["as_type", "types_of"]

_SCALARS = (bool, int, float, str)
_LISTS = (list, tuple)
_UNIONS = (Union, getattr(types, "UnionType", Union))  # `int | None`: Python 3.10 and newer


def types_of(kind: type) -> Mapping[str, Any]:
    """Return the type of each setting of a dataclass.

    Raises `LoadError` for one that YAML can never give: a setting is a number, a text, a boolean,
    a list of them, a mapping, or several of these (`Optional[int]`).
    """
    hashable: Any = kind  # typeshed's lru_cache takes no plain type
    return _types_of(hashable)


@functools.lru_cache(maxsize=64)
def _types_of(kind: Any) -> Mapping[str, Any]:
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError) as error:
        raise LoadError(
            f"{kind.__name__}: the type of a setting cannot be read: {error}; "
            "`int | None` is Optional[int] before Python 3.10"
        ) from error
    found = {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    for name, hint in found.items():
        if not _is_known(hint):
            raise LoadError(
                f"{kind.__name__}.{name} is declared as {hint}; settings are numbers, texts, "
                "booleans, lists of them or mappings"
            )
    return found


def as_type(value: Any, kind: Any) -> Any:
    """Return a YAML value as `kind`: lists become tuples, integers may be floats.

    Raises `TypeError` that says what the value is not: `'x', not int`.
    """
    alternatives = _alternatives(kind)
    for alternative in alternatives:
        if get_origin(alternative) in _LISTS and isinstance(value, _LISTS):
            return tuple(as_type(item, get_args(alternative)[0]) for item in value)
        if alternative is float and int not in alternatives and _is_a_float(value):
            return float(value)
        if _is_one(value, alternative):
            return value
    names = [_name(one) for one in alternatives if one is not type(None)]
    raise TypeError(f"{value!r:.100}, not {' or '.join(names)}")


def _is_one(value: Any, kind: Any) -> bool:
    if get_origin(kind) is not None:
        return False
    # bool is an int to Python, but `device: true` or `top_k: yes` is a slip.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _is_a_float(value: Any) -> bool:
    return _is_one(value, int) and abs(value) <= sys.float_info.max


def _is_known(kind: Any) -> bool:
    """Tell whether `as_type` can make something of this type."""
    if get_origin(kind) in _LISTS:
        items = [item for item in get_args(kind) if item is not Ellipsis]
        return len(items) == 1 and _is_known(items[0])
    if get_origin(kind) in _UNIONS:
        return all(one is type(None) or _is_known(one) for one in get_args(kind))
    return kind in (*_SCALARS, *_LISTS, dict)


def _alternatives(kind: Any) -> Sequence[Any]:
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


def _name(kind: Any) -> str:
    if get_origin(kind) in _LISTS or kind in _LISTS:
        return "a list"
    return "a mapping" if kind is dict else str(kind.__name__)
