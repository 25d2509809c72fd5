"""How the values of `config.properties` are spelt: each kind reads, writes and judges one value.

TorchServe 0.12 parses values lazily with Java's parsers: a number with a trailing space lets the
server start and then turns every registration into a 403, and a boolean `yes` is silently false.
Here both are errors.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ADDRESS", "HOST", "LISTING", "NUMBER", "TEXT", "Kind", "choice", "flag", "whole"]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ADDRESS = re.compile(r"https?://[^:^/\s]+(?::(?P<port>[0-9]+))?|unix:/.*")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to spell a value.

    `read` turns a property's text into its value or raises ValueError saying what it should have
    been; `problem` says the same of a value, or nothing if it is right; `write` turns a value
    without a problem into text.
    """

    read: Callable[[str], object]
    problem: Callable[[object], str]
    write: Callable[[object], str] = str


def choice(*words: str) -> Kind:
    """Accept one of a few words."""
    wanted = f"must be one of {', '.join(words)}"
    return Kind(read=str, problem=lambda value: "" if value in words else wanted)


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


def whole(least: int = 0, most: int = 2**31 - 1) -> Kind:
    """Accept a whole number in a range; Java's int, unless told otherwise."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError("must be a whole number")
        return int(text)

    def problem(value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number"
        return "" if least <= value <= most else f"must be between {least} and {most}"

    return Kind(read=read, problem=problem)


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
    return "" if math.isfinite(value) and value > 0 else "must be a positive number"


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


TEXT = Kind(read=str, problem=_is_text)
ADDRESS = Kind(read=str, problem=_is_address)
HOST = Kind(read=str, problem=_is_host)
NUMBER = Kind(read=_read_number, problem=_is_number, write=json.dumps)
LISTING = Kind(
    read=lambda text: tuple(text.split(",")) if text else (),
    problem=_is_listing,
    write=_write_listing,
)
