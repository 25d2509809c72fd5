"""A `requirements.txt` as pip would read it, as far as its names go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from makemar.errors import Finding, Severity

__all__ = ["Requirements", "normalize_name", "read_requirements"]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = r"(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
_REST = re.compile(
    rf"\s*(?:\[[^\]]*\])?\s*(?:@\s*\S.*|\(?(?:{_VERSION}(?:\s*,\s*{_VERSION})*,?)?\)?\s*(?:;.*)?)"
)
_COMMENT = re.compile(r"(^|\s)#.*$")
# Per line, after the requirement: hashes and build settings.
_LINE_OPTION = re.compile(r"\s--?[a-z][a-z-]*(?:[= ].*)?$")
_FILE_OPTION = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:[= ]\s*|(?=\S))(.+)")
_ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(kw_only=True)
class Requirements:
    """What a requirements file asks for.

    `names` are distributions, normalized; `files` the local files that it names, with the lines.
    """

    names: set[str] = field(default_factory=set)
    files: list[tuple[str, Path, int]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def normalize_name(name: str) -> str:
    """Write a distribution's name as package indexes compare it: `Foo_Bar` is `foo-bar`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_requirements(path: Path) -> Requirements:
    """Read a requirements file and those that it includes; raises OSError.

    What pip could not read is in the findings.
    """
    found = Requirements()
    _read(path, found, {path})
    return found


def _read(path: Path, found: Requirements, seen: set[Path]) -> None:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        found.findings.append(_broken("the file is not UTF-8", "save it as UTF-8", path))
        return
    for number, line in _join_lines(text):
        if option := _FILE_OPTION.fullmatch(line):
            name = option[1].strip()
            found.files.append((name, path, number))
            other = path.parent / name
            constraint = line.startswith(("-c", "--c"))
            if not constraint and other not in seen and other.is_file():
                seen.add(other)
                _read(other, found, seen)
        elif line.startswith(("-e", "--editable")):
            _read_place(line.removeprefix("--editable").removeprefix("-e").strip(" ="), found)
        elif not line.startswith("-"):
            _read_line(line, found, path, number)


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line, without its comment, and the number of its first."""
    start, joined = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        start = start or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            joined += line[:-1] + " "
            continue
        whole = _COMMENT.sub("", joined + line).strip()
        if whole:
            yield start, whole
        start, joined = 0, ""
    if whole := _COMMENT.sub("", joined).strip():
        yield start, whole


def _read_line(line: str, found: Requirements, path: Path, number: int) -> None:
    bare = _LINE_OPTION.sub("", line)
    while bare != line:
        line, bare = bare, _LINE_OPTION.sub("", bare)
    named = re.match(rf"{_NAME.pattern}\s*(?:\[[^\]]*\]\s*)?@\s", bare)
    if not named and (_URL.match(bare) or bare.endswith(_ARCHIVES) or bare.startswith((".", "/"))):
        _read_place(bare, found)
        if not _URL.match(bare):
            found.files.append((bare.partition("[")[0], path, number))
        return
    name = _NAME.match(bare)
    if name is None or not _REST.fullmatch(bare, name.end()):
        message = f"pip cannot read the requirement {bare[:80]!r}"
        fix = "write it as NAME, NAME==VERSION or NAME @ URL"
        found.findings.append(_broken(message, fix, path, number))
    if name is not None:
        found.names.add(normalize_name(name[0]))


def _read_place(place: str, found: Requirements) -> None:
    """Take the name out of a URL or a path: of a wheel, of a repository, after `#egg=`."""
    egg = re.search(r"#(?:.*&)?egg=([A-Za-z0-9._-]+)", place)
    last = PurePosixPath(re.split(r"[#?]", place)[0]).name.partition("@")[0].removesuffix(".git")
    name = egg[1] if egg else last.partition("-")[0] if last.endswith(_ARCHIVES) else last
    # `name-1.0.tar.gz`: of a source archive the name may have dashes itself.
    if not egg and last.endswith(_ARCHIVES[1:]):
        name = re.split(r"-\d", last)[0]
    if _NAME.fullmatch(name):
        found.names.add(normalize_name(name))


def _broken(message: str, fix: str, path: Path, line: int | None = None) -> Finding:
    return Finding(
        code="requirement-syntax",
        severity=Severity.WARNING,
        message=message,
        fix=fix,
        path=path,
        line=line,
    )
