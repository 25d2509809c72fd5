"""Java's `.properties` text, read and written the way `java.util.Properties` does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from makemar.errors import ConfigError

__all__ = ["PropertyLine", "format_properties", "parse_properties", "property_lines"]

# Java ends a line at these three only; str.splitlines() would also split at U+2028 and others.
_LINE_END = re.compile(r"\r\n|\r|\n")
_LAST_BACKSLASH = re.compile(r"(?:\A|[\r\n])[ \t\f]*\\[\r\n]?\Z")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {character: letter for letter, character in _ESCAPES.items()}
_HEX = re.compile(r"[0-9A-Fa-f]{4}")


@dataclass(frozen=True, kw_only=True)
class PropertyLine:
    """One `key=value` of a properties text; `line` is the number of its first line, from 1."""

    line: int
    key: str
    value: str


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a properties text into a dict; of a repeated key the last value wins.

    Trailing spaces belong to the value, as in Java. A `\u` without four hex digits raises
    ConfigError with its line. TorchServe 0.12: the file itself is ISO-8859-1, so a file is to
    be decoded as `latin-1`; anything beyond it is written `\uXXXX`.
    """
    return {entry.key: entry.value for entry in property_lines(text)}


def property_lines(text: str, *, path: Path | None = None) -> tuple[PropertyLine, ...]:
    r"""List every entry of a properties text in order, repeated keys included.

    Raises ConfigError, with `path` and line, for a malformed `\u` escape.
    """
    entries = []
    for line, logical in _logical_lines(text):
        raw_key, raw_value = _split(logical)
        try:
            entries.append(
                PropertyLine(line=line, key=_unescape(raw_key), value=_unescape(raw_value))
            )
        except ValueError as error:
            where = f"line {line}" if path is None else f"{path}:{line}"
            raise ConfigError(
                f"{where}: {error}; write \\u and four hex digits, or \\\\ for a backslash",
                path=path,
                line=line,
            ) from error
    return tuple(entries)


def format_properties(mapping: Mapping[str, str]) -> str:
    """Write one `key=value` line per entry, in the mapping's order, in plain ASCII.

    What an editor could lose (a trailing space) or Java could misread is escaped, so that
    `parse_properties` and Java give back exactly the same strings.
    """
    return "".join(f"{_escape_key(key)}={_escape_value(mapping[key])}\n" for key in mapping)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; skip blanks and comments; yield (first line number, joined text)."""
    start, joined, fresh = 0, "", True
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        piece = natural.lstrip(_BLANK)
        if piece:
            fresh = not joined
        if not joined:
            # A backslash alone leaves nothing behind: Java then still sees a fresh line, on
            # which a comment may start.
            if not piece or piece[0] in "#!":
                continue
            start = number
        continued = _ends_in_odd_backslashes(piece)
        joined += piece[:-1] if continued else piece
        if not continued and joined:
            yield start, joined
            joined = ""
    # Java counts a backslash alone on the very last line as an entry with no name.
    if joined or (fresh and _LAST_BACKSLASH.search(text)):
        yield start, joined


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(logical: str) -> tuple[str, str]:
    """Cut a logical line, still escaped, at its first separator that no backslash protects."""
    end = 0
    while end < len(logical) and logical[end] not in "=:" + _BLANK:
        end += 2 if logical[end] == "\\" else 1
    end = min(end, len(logical))
    rest = logical[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return logical[:end], rest


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    out, at = [], 0
    while at < len(raw):
        character = raw[at]
        at += 1
        if character == "\\" and at < len(raw):
            character = raw[at]
            at += 1
            if character == "u":
                digits = raw[at : at + 4]
                if not _HEX.fullmatch(digits):
                    raise ValueError(f"malformed escape \\u{digits}")
                character = chr(int(digits, 16))
                at += 4
            else:
                character = _ESCAPES.get(character, character)
        elif character == "\\":
            break  # a lone backslash at the end of the text vanishes
        out.append(character)
    # Java strings are UTF-16: two \u halves are one character.
    joined = "".join(out)
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escape_key(key: str) -> str:
    return "".join("\\" + c if c in " =:#!" else _escape(c) for c in key)


def _escape_value(value: str) -> str:
    body = value.rstrip(" ")
    # The first space would be skipped as padding, the last ones by the next editor.
    lead = "\\" if body.startswith(" ") else ""
    return lead + "".join(map(_escape, body)) + "\\u0020" * (len(value) - len(body))


def _escape(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character in _NAMES:
        return "\\" + _NAMES[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
