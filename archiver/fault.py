"""What is wrong with an archive that somebody made: findings, and the error that stops reading."""

from __future__ import annotations

from pathlib import Path

from makemar.errors import Finding, IntegrityError, Severity

__all__ = ["FETCH_AGAIN", "PACK_AGAIN", "make_error", "make_warning", "stop_reading"]

PACK_AGAIN = "pack it again with make-mar"
FETCH_AGAIN = "fetch it again from whoever packed it"


def make_error(
    code: str, message: str, path: Path, *, fix: str = PACK_AGAIN, line: int | None = None
) -> Finding:
    """Return a finding for what the server refuses, or loads as something else."""
    return Finding(
        code=code, severity=Severity.ERROR, message=message, fix=fix, path=path, line=line
    )


def make_warning(code: str, message: str, path: Path, *, fix: str = PACK_AGAIN) -> Finding:
    """Return a finding for what the server lives with."""
    return Finding(code=code, severity=Severity.WARNING, message=message, fix=fix, path=path)


def stop_reading(code: str, message: str, path: Path, *, fix: str = PACK_AGAIN) -> IntegrityError:
    """Return the error to raise where nothing more of an archive can be read; it has the finding.

    `findings` of the error is that one finding.
    """
    finding = make_error(code, message, path, fix=fix)
    return IntegrityError(f"{path}: {message}; {fix}", path=path, findings=(finding,))
