"""Findings as data."""

from __future__ import annotations

from makemar.errors import Finding

__all__ = ["finding_data"]


def finding_data(finding: Finding) -> dict[str, object]:
    """Return a finding as texts and numbers, fit for JSON."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "fix": finding.fix,
        "path": None if finding.path is None else str(finding.path),
        "line": finding.line,
    }
