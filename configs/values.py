"""The kinds of values in a configuration: each one reads, writes and judges.

TorchServe 0.12 parses values lazily with Java's parsers: a number with a trailing space lets the
server start and then turns every registration into a 403, and a boolean `yes` is silently false.
Here both are errors.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from makemar.configs.quoting import quote
from makemar.configs.spelling import near_match

__all__ = [
    "ADDRESS",
    "HOST",
    "INDICES",
    "LISTING",
    "NUMBER",
    "SECTION",
    "TEXT",
    "Kind",
    "choice",
    "flag",
    "table",
    "whole",
]

# No limit is near that many digits, and Python itself refuses thousands of them.
_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")
_DIGITS = re.compile(r"[0-9]{1,100}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ADDRESS = re.compile(r"https?://[^:^/\s]+(?::(?P<port>[0-9]+))?|unix:/.*")


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of value.

    `problem` says what a value should have been, or nothing if it is right; a phrase that follows
    the setting's name. `read` turns a property's text into a value or raises ValueError with such
    a phrase, `write` turns a value without a problem back. `load` and `dump` do the same with what
    YAML and JSON hold; `load` leaves what it does not know for `problem` to judge.
    """

    problem: Callable[[object], str]
    read: Callable[[str], object] = str
    write: Callable[[object], str] = str
    load: Callable[[object], object] = _same
    dump: Callable[[object], object] = _same


def choice(*words: str, any_case: bool = False) -> Kind:
    """Accept one of a few words."""
    wanted = f"must be one of {', '.join(words)}"

    def problem(value: object) -> str:
        word = value.lower() if any_case and isinstance(value, str) else value
        return "" if word in words else wanted

    return Kind(problem=problem)


def flag(*, lower_case: bool = False) -> Kind:
    """Accept true or false. Java takes every other word, and `true ` with a space, for false."""
    wanted = "must be true or false"

    def read(text: str) -> bool:
        word = text if lower_case else text.lower()
        if word not in ("true", "false"):
            raise ValueError(wanted + ", in lower case" * lower_case)
        return word == "true"

    return Kind(
        read=read,
        problem=lambda value: "" if isinstance(value, bool) else wanted,
        write=lambda value: "true" if value else "false",
    )


def whole(least: int = 0, most: int = 2**31 - 1, *, why: str = "", quoted: bool = False) -> Kind:
    """Accept a whole number in a range; Java's int, unless told otherwise.

    `why` tells what the server does with others; `quoted` ones are numbers in JSON too.
    """
    limits = f"must be between {least} and {most}" + (f" ({why})" if why else "")

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError("must be a whole number")
        return int(text)

    def problem(value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number" + " without quotes" * isinstance(value, str)
        return "" if least <= value <= most else limits

    def load(value: object) -> object:
        return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value

    return Kind(read=read, problem=problem, load=load if quoted else _same)


def table(parts: Mapping[str, Kind]) -> Kind:
    """Accept a mapping with settings of its own, each of its kind."""

    def problem(value: object) -> str:
        if not isinstance(value, Mapping):
            return "must be a mapping of settings"
        for key, setting in value.items():
            if key not in parts:
                hint = near_match(key, parts) if isinstance(key, str) else None
                fix = f"did you mean {hint}?" if hint else f"known are {', '.join(parts)}"
                return f"must have no setting {quote(key)} ({fix})"
            if wrong := parts[key].problem(setting):
                return f"must be right in {key}, which {wrong}"
        return ""

    return Kind(problem=problem, dump=_to_dict)


def _to_dict(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _is_text(value: object) -> str:
    return "" if isinstance(value, str) else "must be text"


def _is_address(value: object) -> str:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        return "must be http(s)://host[:port] or unix:/path"
    return ""


def _is_host(value: object) -> str:
    good = isinstance(value, str) and re.fullmatch(r"[^\s/]+", value)
    return "" if good else "must be a host alone, without http:// and port"


def _read_number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("must be a positive number")
    return float(text)


def _is_number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "must be a positive number"
    finite = isinstance(value, int) or math.isfinite(value)
    return "" if finite and value > 0 else "must be a positive number"


def _is_listing(value: object) -> str:
    if not isinstance(value, tuple) or not all(isinstance(word, str) for word in value):
        return "must be a tuple of texts"
    if any("," in word for word in value):
        return "cannot hold a comma inside one of its parts: the server splits there"
    # The server trims nothing: a space beside a comma becomes part of a file name or pattern.
    if any(not word or word != word.strip() for word in value):
        return "must have no empty part and no space around a comma"
    return ""


def _write_listing(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_indices(value: object) -> str:
    item = whole().problem
    good = isinstance(value, tuple) and not any(map(item, value))
    return "" if good else "must be a list of whole numbers"


TEXT = Kind(read=str, problem=_is_text)
ADDRESS = Kind(read=str, problem=_is_address)
HOST = Kind(read=str, problem=_is_host)
NUMBER = Kind(read=_read_number, problem=_is_number, write=json.dumps)
LISTING = Kind(
    read=lambda text: tuple(text.split(",")) if text else (),
    problem=_is_listing,
    write=_write_listing,
)
SECTION = Kind(
    problem=lambda value: "" if isinstance(value, Mapping) else "must be a mapping of settings",
    dump=_to_dict,
)
INDICES = Kind(
    problem=_is_indices,
    load=lambda value: tuple(value) if isinstance(value, list) else value,
    dump=lambda value: list(value) if isinstance(value, tuple) else value,
)
