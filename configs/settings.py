"""Settings as fields of a dataclass: one way to declare, find and judge them for every file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from makemar.configs.quoting import quote
from makemar.configs.values import Kind
from makemar.errors import ConfigError

__all__ = ["Setting", "find_problems", "setting", "settings_of"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A field of a configuration: its name in Python, its key in the file, its kind.

    The value of a `secret` one is in no message.
    """

    name: str
    key: str
    kind: Kind
    secret: bool

    def refuse(self, problem: str, value: object, more: str = "") -> ConfigError:
        """Make the error for a value; `problem` is a phrase of the kind."""
        shown = "what it is" if self.secret else quote(value)
        return ConfigError(f"{self.key} {problem}, not {shown}{more}", key=self.key)


# The annotation beside each call says the type.
def setting(
    kind: Kind,
    *,
    key: str = "",
    secret: bool = False,
    default_factory: Callable[[], object] | None = None,
) -> Any:
    """Declare a field of a kind; None is its default. `key` is its name in the file, if another."""
    metadata = {"kind": kind, "key": key, "secret": secret}
    if default_factory is not None:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=None, repr=not secret, metadata=metadata)


def settings_of(config: type[Any]) -> dict[str, Setting]:
    """List the settings of a dataclass, by their keys, in the order of the fields."""
    found = (
        Setting(
            name=item.name,
            key=item.metadata["key"] or item.name,
            kind=item.metadata["kind"],
            secret=item.metadata["secret"],
        )
        for item in fields(config)
        if "kind" in item.metadata
    )
    return {each.key: each for each in found}


def find_problems(
    settings: Mapping[str, Setting], values: Mapping[str, object]
) -> Iterator[ConfigError]:
    """Yield an error for each value that is not of its kind; None, or no value, is unset.

    `values` are by the fields' names.
    """
    for each in settings.values():
        value = values.get(each.name)
        problem = "" if value is None else each.kind.problem(value)
        if problem:
            yield each.refuse(problem, value)
