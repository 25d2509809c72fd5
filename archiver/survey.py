"""One pass over an archive's bytes: hashes, sizes, the texts that say what it is, and faults."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from makemar.archiver.bomb import BombGuard
from makemar.archiver.content import Content, ContentKind
from makemar.archiver.contents import read_contents
from makemar.archiver.fault import make_error
from makemar.archiver.member import META_FOLDER
from makemar.archiver.record import RecordLine, encode_digest
from makemar.archiver.stored_names import check_name, check_names, settle_name
from makemar.errors import ArchiveError, Finding

__all__ = ["Survey", "survey_archive"]

# Code, manifests and configurations are far smaller; all together they stay in memory.
_TEXT, _META_TEXT, _ALL_TEXTS = 1 << 20, 16 << 20, 64 << 20


@dataclass(kw_only=True)
class Survey:
    """What one pass found.

    `lines` has the file members as RECORD would, of two duplicates the last; `texts` the contents
    of the small ones, `kept` bytes of them. `whole` is False if the pass ended early: then what is
    missing here may be in the archive.
    """

    path: Path
    contents: list[Content] = field(default_factory=list)
    lines: dict[str, RecordLine] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    whole: bool = True
    kept: int = 0


def survey_archive(path: Path) -> Survey:
    """Read every byte of an archive once; nothing is unpacked or run.

    What is wrong is in the findings. Raises ArchiveError if the path cannot be read at all.
    """
    survey = Survey(path=path)
    guard: BombGuard | None = None
    try:
        for found in read_contents(path):
            guard = guard or BombGuard(path)
            if isinstance(found, Finding):
                survey.findings.append(found)
            else:
                survey.findings += check_name(found, path)
                _take(found, survey, guard)
    except ArchiveError as error:
        if not error.findings:
            raise
        survey.findings += error.findings
        survey.whole = False
    survey.findings += check_names(survey.contents, path)
    return survey


def _take(content: Content, survey: Survey, guard: BombGuard) -> None:
    """Hash a file and keep it if it is small; note the rest."""
    name = settle_name(content.name)
    survey.contents.append(replace(content, chunks=()))
    if content.kind in (ContentKind.LINK, ContentKind.SPECIAL):
        message = f"{content.name!r} is a {content.kind.value}; on the server it is an empty file"
        survey.findings.append(make_error("link-member", message, survey.path))
    if content.kind is ContentKind.FOLDER:
        return
    digest, size, kept = hashlib.sha256(), 0, bytearray()
    limit = _META_TEXT if name.startswith(f"{META_FOLDER}/") else _TEXT
    for chunk in content.chunks:
        guard.count(len(chunk))
        digest.update(chunk)
        size += len(chunk)
        if size <= limit:
            kept += chunk
    line = RecordLine(name=name, digest=encode_digest(digest.digest()), size=size)
    survey.lines[name] = line
    survey.kept -= len(survey.texts.pop(name, b""))
    if size <= limit and survey.kept + size <= _ALL_TEXTS:
        survey.texts[name] = bytes(kept)
        survey.kept += size
