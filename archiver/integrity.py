"""Whether an archive's bytes are those that RECORD was written for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.fault import FETCH_AGAIN, make_error, make_warning
from makemar.archiver.member import RECORD_NAME
from makemar.archiver.record import parse_record
from makemar.archiver.survey import Survey, survey_archive
from makemar.errors import Finding, IntegrityError, Severity

__all__ = ["check_record", "compare_record"]


def check_record(path: Path) -> tuple[Finding, ...]:
    """Read every byte of an archive and return where it departs from its RECORD.

    An archive without one, such as torch-model-archiver's, gets a warning. Raises ArchiveError if
    the path cannot be read.
    """
    survey = survey_archive(path)
    errors = [found for found in survey.findings if found.severity is Severity.ERROR]
    return (*errors, *(compare_record(survey) if survey.whole else ()))


def compare_record(survey: Survey) -> Iterator[Finding]:
    """Yield where an archive that was read to its end departs from its RECORD."""
    path = survey.path
    if RECORD_NAME not in survey.lines:
        message = f"there is no {RECORD_NAME}, so nothing tells whether it is what was packed"
        yield make_warning("no-record", message, path)
        return
    try:
        recorded = {line.name: line for line in parse_record(survey.texts.get(RECORD_NAME, b"?"))}
    except IntegrityError as error:
        yield _error("damaged-record", str(error), path)
        return
    for name, line in survey.lines.items():
        if name == RECORD_NAME:
            continue
        if name not in recorded:
            yield _error("unrecorded-member", f"{name!r} was added later", path)
        elif line != recorded[name]:
            yield _error("changed-member", f"{name!r} is not what was packed", path)
    for name in sorted(recorded.keys() - survey.lines.keys()):
        yield _error("missing-member", f"{name!r} was packed and is gone", path)


def _error(code: str, message: str, path: Path) -> Finding:
    return make_error(code, message, path, fix=FETCH_AGAIN)
