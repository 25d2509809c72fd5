"""Which values a setting may have, said where the setting is declared.

    top_k: int = limited(5, at_least=1)

A subclass that gives a setting another default keeps its limits, unless it states its own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional, TypeVar, Union

from makemar.handlers.errors import LoadError

__all__ = ["Limits", "check_limits", "limited"]

Value = TypeVar("Value")
Number = Union[int, float]
_KEY = "makemar.limits"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is allowed: a range of finite numbers, or one of some texts.

    `at_least` and `at_most` belong to the range, `above` does not. Of a list every item is held
    to it, and there must be `count` of them. None, where a setting may be left out, is allowed.
    """

    at_least: Optional[Number] = None  # noqa: UP045  (Python 3.9)
    above: Optional[Number] = None  # noqa: UP045
    at_most: Optional[Number] = None  # noqa: UP045
    count: Optional[int] = None  # noqa: UP045
    one_of: tuple[str, ...] = ()

    def allow(self, value: object) -> bool:
        """Tell whether a value of the right type is within these limits."""
        if isinstance(value, (list, tuple)):
            return self.count in (None, len(value)) and all(map(self.allow, value))
        if isinstance(value, str):
            return not self.one_of or value in self.one_of
        if not isinstance(value, (int, float)):
            return value is None
        return (
            math.isfinite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
        )

    def __str__(self) -> str:
        """Say what is allowed, as the end of a sentence: `… is 0, it must be at least 1`."""
        if self.one_of:
            return f"not one of {', '.join(self.one_of)}"
        ends = [
            f"{words} {limit}"
            for words, limit in (("at least", self.at_least), ("above", self.above))
            if limit is not None
        ]
        ends += [f"at most {self.at_most}"] if self.at_most is not None else []
        told = " and ".join(ends) or "finite"
        return f"it must be {told}" if self.count is None else self._list(" and ".join(ends))

    def _list(self, ends: str) -> str:
        return f"it must be {self.count} numbers" + (f", each {ends}" if ends else "")


def limited(
    default: Value,
    *,
    at_least: Number | None = None,
    above: Number | None = None,
    at_most: Number | None = None,
    count: int | None = None,
    one_of: Sequence[str] = (),
) -> Value:
    """Declare a field of a settings dataclass: its default, and the values it may have."""
    limits = Limits(at_least, above, at_most, count, tuple(one_of))
    field: Any = dataclasses.field(default=default, metadata={_KEY: limits})
    # As dataclasses.field itself: to a type checker a default, to the decorator a description.
    return field  # type: ignore[no-any-return]


def check_limits(settings: object, *, section: str) -> None:
    """Raise `LoadError` that names setting, value and what is allowed; default values pass.

    `section` is where settings of this kind are written.
    """
    kind: Any = type(settings)  # typeshed's lru_cache takes no plain type
    for name, (limits, default) in _limits_of(kind).items():
        value = getattr(settings, name)
        if value != default and not limits.allow(value):
            shown = list(value) if isinstance(value, tuple) else value
            raise LoadError(f"{section}.{name} is {shown!r:.100}, {limits}")


@functools.lru_cache(maxsize=64)
def _limits_of(kind: type) -> Mapping[str, tuple[Limits, object]]:
    """Return each setting's limits, from the class nearest to `kind` that states some."""
    found: dict[str, tuple[Limits, object]] = {}
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    for base in kind.__mro__:
        for name, field in vars(base).get("__dataclass_fields__", {}).items():
            if name not in found and _KEY in field.metadata:
                found[name] = (field.metadata[_KEY], defaults[name])
    return found
