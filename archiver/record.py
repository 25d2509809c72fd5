"""`MAR-INF/RECORD`: path, SHA-256 and size of every member, as in a wheel."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from makemar.archiver.member import RECORD_NAME, Member
from makemar.errors import IntegrityError

__all__ = [
    "RecordLine",
    "decode_digest",
    "encode_digest",
    "format_record",
    "make_record_member",
    "parse_record",
]

_ALGORITHM = "sha256"
_SIZE = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, kw_only=True)
class RecordLine:
    """What RECORD says of a member: its size in bytes, its SHA-256 as `encode_digest` has it."""

    name: str
    digest: str
    size: int


def encode_digest(digest: bytes) -> str:
    """Write a hash as wheels do: base64 in the alphabet for URLs, without padding."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def decode_digest(text: str) -> bytes:
    """Read a hash that `encode_digest` wrote; raises ValueError if it is none."""
    return base64.urlsafe_b64decode(f"{text}=")


def format_record(lines: Iterable[RecordLine]) -> str:
    """Write the lines in the given order, and RECORD's own line, without hash and size, last."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((line.name, f"{_ALGORITHM}={line.digest}", line.size) for line in lines)
    writer.writerow((RECORD_NAME, "", ""))
    return text.getvalue()


def parse_record(text: str | bytes) -> tuple[RecordLine, ...]:
    """Read RECORD, without its own line.

    Raises IntegrityError if it is not UTF-8, a line is malformed, a hash is not SHA-256 or a name
    comes twice.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        rows = list(csv.reader(io.StringIO(decoded, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise IntegrityError(f"{RECORD_NAME} cannot be read: {error}; pack again") from error
    lines: dict[str, RecordLine] = {}
    for number, row in enumerate(rows, start=1):
        if row and row[0] != RECORD_NAME:
            line = _parse_row(row, number)
            if line.name in lines:
                raise IntegrityError(f"{RECORD_NAME} lists {line.name!r} twice; pack again")
            lines[line.name] = line
    return tuple(lines.values())


def _parse_row(row: list[str], number: int) -> RecordLine:
    if len(row) == 3:
        name, digest, size = row
        algorithm, _, value = digest.partition("=")
        if name and algorithm == _ALGORITHM and value and _SIZE.fullmatch(size):
            return RecordLine(name=name, digest=value, size=int(size))
    raise IntegrityError(
        f"{RECORD_NAME}, line {number}: not a path, a sha256= and a size; pack again"
    )


def make_record_member(lines: Iterable[RecordLine]) -> Member:
    """Return the member that closes an archive."""
    contents = format_record(lines).encode("utf-8")
    return Member(name=RECORD_NAME, source=contents, size=len(contents), origin="the record")
