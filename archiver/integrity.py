"""Whether an archive's bytes are those that RECORD was written for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.container import Opener, read_small, translate_damage, walk_archive
from makemar.archiver.copying import CHUNK
from makemar.archiver.member import RECORD_NAME
from makemar.archiver.record import RecordLine, encode_digest, parse_record
from makemar.errors import Finding, IntegrityError, Severity

__all__ = ["check_record"]


def check_record(path: Path) -> tuple[Finding, ...]:
    """Read every byte of an archive and return where it departs from its RECORD.

    An archive without one, such as torch-model-archiver's, gets a warning. Raises ArchiveError if
    it is no archive at all.
    """
    lines: list[RecordLine] = []
    text: bytes | None = None
    try:
        with translate_damage(path):
            for member, open_it in walk_archive(path):
                if member.name == RECORD_NAME:
                    text = read_small(member, open_it, path)
                else:
                    lines.append(_hash(member.name, open_it))
        recorded = None if text is None else parse_record(text)
    except IntegrityError as error:
        return (_error("damaged-archive", str(error), path),)
    if recorded is None:
        message = f"there is no {RECORD_NAME}, so nothing tells whether it is whole"
        fix = "pack it with make-mar"
        return (
            Finding(
                code="no-record", severity=Severity.WARNING, message=message, fix=fix, path=path
            ),
        )
    return tuple(_compare(lines, recorded, path))


def _hash(name: str, open_it: Opener) -> RecordLine:
    digest, size = hashlib.sha256(), 0
    with open_it() as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return RecordLine(name=name, digest=encode_digest(digest.digest()), size=size)


def _compare(
    found: list[RecordLine], recorded: tuple[RecordLine, ...], path: Path
) -> Iterator[Finding]:
    expected = {line.name: line for line in recorded}
    seen: set[str] = set()
    for line in found:
        if line.name in seen:
            yield _error("duplicate-member", f"{line.name!r} is in it twice", path)
        elif line.name not in expected:
            yield _error("unrecorded-member", f"{line.name!r} was added later", path)
        elif line != expected[line.name]:
            yield _error("changed-member", f"{line.name!r} is not what was packed", path)
        seen.add(line.name)
    for name in sorted(expected.keys() - seen):
        yield _error("missing-member", f"{name!r} was packed and is gone", path)


def _error(code: str, message: str, path: Path) -> Finding:
    return Finding(
        code=code,
        severity=Severity.ERROR,
        message=message,
        fix="fetch the archive again from whoever packed it",
        path=path,
    )
