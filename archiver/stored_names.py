"""The names in an archive that somebody made: where TorchServe, and others, would put them."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from makemar.archiver.content import Content, ContentKind
from makemar.archiver.fault import make_error, make_warning
from makemar.archiver.identity import is_writable
from makemar.errors import Finding

__all__ = ["check_name", "check_names", "settle_name"]

_LONGEST = 255  # bytes of one component, on every file system in use
# What Windows keeps for itself, with any ending, and what it cannot have in a name.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ]$')


def settle_name(name: str) -> str:
    """Return the place that a name means, below the model's folder: `./a//b` is `a/b`."""
    return posixpath.normpath("/" + name).strip("/")


def check_name(content: Content, path: Path) -> Iterator[Finding]:
    """Yield what is wrong with one name; an error means that it is not, or not there, unpacked."""
    name, shown = content.name, repr(content.name)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        yield make_error("unsafe-name", f"{shown} climbs out of folders with '..'", path)
    elif name.startswith("/"):
        yield make_error("absolute-name", f"{shown} is absolute", path)
    elif "\\" in name:
        message = f"{shown} has backslashes; on the server they make no folders"
        yield make_error("backslash-name", message, path)
    elif not parts and content.kind is not ContentKind.FOLDER:
        yield make_error("member-name", f"{shown} names no file", path)
    elif "\0" in name or any(0xD800 <= ord(c) < 0xE000 for c in name):
        yield make_error("member-name", f"{shown} cannot be the name of a file", path)
    elif any(len(part.encode()) > _LONGEST for part in parts):
        message = f"{name[:40]!r}… has a part of over {_LONGEST} bytes, too long for a file"
        yield make_error("member-name", message, path)
    else:
        yield from _check_portable(name, parts, path)


def _check_portable(name: str, parts: list[str], path: Path) -> Iterator[Finding]:
    if not is_writable(name):
        yield make_warning("odd-name", f"{name!r} has a character that cannot be shown", path)
    elif unicodedata.normalize("NFC", name) != name:
        message = f"{name!r} is not in Unicode's composed form; some systems change it"
        yield make_warning("odd-name", message, path, fix="write it in NFC")
    elif any(_DEVICE.match(part) or _NOT_ON_WINDOWS.search(part) for part in parts):
        yield make_warning("odd-name", f"{name!r} cannot be unpacked on Windows", path)


def check_names(contents: Iterable[Content], path: Path) -> Iterator[Finding]:
    """Yield where names of an archive get into each other's way; `contents` need no chunks."""
    files: dict[str, int] = {}
    folders: set[str] = set()
    for content in contents:
        place = settle_name(content.name)
        above = place
        while above := posixpath.dirname(above):
            folders.add(above)
        if content.kind is ContentKind.FOLDER:
            folders.add(place)
        else:
            files[place] = files.get(place, 0) + 1
    for place, count in files.items():
        if count > 1:
            message = f"{place!r} is in it {count} times; TorchServe keeps the last"
            yield make_error("duplicate-member", message, path)
        if place in folders:
            yield make_error("file-as-folder", f"{place!r} is a file and a folder", path)
    places = sorted({*files, *folders} - {""})
    yield from _check_case(places, path)
    yield from _check_ascii(places, path)


def _check_case(places: Sequence[str], path: Path) -> Iterator[Finding]:
    alike: dict[str, list[str]] = {}
    for place in places:
        alike.setdefault(unicodedata.normalize("NFC", place).casefold(), []).append(place)
    for group in alike.values():
        if len(group) > 1:
            listed = " and ".join(map(repr, group))
            message = f"{listed} are one name on macOS and Windows"
            yield make_warning("case-clash", message, path, fix="rename one")


def _check_ascii(places: Sequence[str], path: Path) -> Iterator[Finding]:
    """TorchServe 0.12: Java writes only ASCII names where the locale is C, as in bare images."""
    if foreign := [place for place in places if not place.isascii() and is_writable(place)]:
        more = f" and {len(foreign) - 1} more names are" if len(foreign) > 1 else " is"
        message = f"{foreign[0]!r}{more} not ASCII; a server in the C locale refuses the archive"
        fix = "rename it, or start the server with LC_ALL=C.UTF-8"
        yield make_warning("non-ascii-name", message, path, fix=fix)
