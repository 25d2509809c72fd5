"""What `make-mar pack` prints of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from makemar.cli.findings import finding_data
from makemar.cli.output import write_json, write_table

if TYPE_CHECKING:
    from makemar.archiver import ArchivePlan

__all__ = ["list_findings", "print_plan"]


def print_plan(plan: ArchivePlan, target: Path, *, as_json: bool) -> None:
    """Print the members that an archive at `target` would have."""
    if not as_json:
        rows = [(member.name, member.size, member.origin, member.place) for member in plan.members]
        write_table(("member", "bytes", "because of", "source"), rows)
        return
    members = [
        {"name": m.name, "size": m.size, "origin": m.origin, "source": m.place}
        for m in plan.members
    ]
    data = {"path": str(target), "size": plan.size, "members": members}
    write_json({**data, **list_findings(plan)})


def list_findings(plan: ArchivePlan) -> dict[str, object]:
    """Return a plan's findings, and those that are silenced, as JSON has them."""
    return {
        "findings": [finding_data(finding) for finding in plan.findings],
        "silenced": [finding_data(finding) for finding in plan.silenced],
    }
