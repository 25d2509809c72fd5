"""Findings that somebody has looked at and accepts, each with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from makemar.archiver.codes import CODES
from makemar.errors import ArchiveError, Finding, Severity

__all__ = ["Silence", "find_fault", "judge_findings", "parse_silence"]


@dataclass(frozen=True, kw_only=True)
class Silence:
    """A code whose warnings are not to be told, and why."""

    code: str
    reason: str


def parse_silence(text: str) -> Silence:
    """Read one `CODE=REASON`. Raises ArchiveError if a side is empty or there is no such code."""
    code, _, reason = text.partition("=")
    silence = Silence(code=code.strip(), reason=reason.strip())
    if fault := find_fault(silence):
        raise ArchiveError(f"silence {text!r}: {fault}")
    return silence


def find_fault(silence: Silence) -> str:
    """Say what is wrong with a silence in itself, and what to do; nothing if it is fine."""
    code = silence.code
    if code not in CODES:
        close = difflib.get_close_matches(code, CODES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "write the one in a finding's brackets"
        return f"there is no finding {code!r}; {hint}"
    if not silence.reason.strip():
        return f"no reason to silence {code!r}; write why it is no harm here"
    if CODES[code].severities == {Severity.ERROR}:
        return (
            f"{code!r} is an error: the archive would not work, so it cannot be silenced; mend it"
        )
    return ""


def judge_findings(
    findings: Iterable[Finding], silences: Iterable[Silence], *, strict: bool
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that are left, and the warnings that are silenced.

    `strict` makes errors of the warnings that are left.
    """
    every, wanted = [*findings], {each.code: each for each in silences}
    kept: list[Finding] = []
    silenced: list[Finding] = []
    for found in every:
        quiet = found.severity is Severity.WARNING and found.code in wanted
        (silenced if quiet else kept).append(found)
    for code, silence in wanted.items():
        if fault := find_fault(silence):
            kept.append(_complain("silence", Severity.ERROR, fault, ""))
        elif any(found.code == code for found in kept):
            message = f"{code!r} is an error here, which cannot be silenced"
            kept.append(_complain("unused-silence", Severity.WARNING, message, "mend it"))
        elif all(found.code != code for found in silenced):
            message = f"there is nothing to silence with the code {code!r}"
            kept.append(_complain("unused-silence", Severity.WARNING, message, "leave it out"))
    if strict:
        kept = [replace(found, severity=Severity.ERROR) for found in kept]
    return tuple(kept), tuple(silenced)


def _complain(code: str, severity: Severity, message: str, fix: str) -> Finding:
    return Finding(code=code, severity=severity, message=message, fix=fix)
