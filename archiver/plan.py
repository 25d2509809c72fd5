"""What an archive will hold, and all that is wrong with it, before a byte is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import makemar
from makemar.archiver.build_time import find_build_time
from makemar.archiver.code_plan import plan_code
from makemar.archiver.entry_point import place_handler
from makemar.archiver.handler import Handler, resolve_handler
from makemar.archiver.identity import check_identity
from makemar.archiver.manifest import Manifest, format_manifest, format_time
from makemar.archiver.member import MANIFEST_NAME, Member, member_order
from makemar.archiver.names import check_member_names, settle_members
from makemar.archiver.selection import select_members
from makemar.archiver.silence import judge_findings
from makemar.archiver.spec import ArchiveSpec
from makemar.archiver.suitability import check_suitability
from makemar.archiver.syntax import Parser, parse_python
from makemar.errors import ArchiveError, Finding, Severity

__all__ = ["ArchivePlan", "plan_archive"]


@dataclass(frozen=True, kw_only=True)
class ArchivePlan:
    """A sorted list of members, the manifest among them, and every finding.

    `MAR-INF/RECORD` is not in it: its lines are known once the members have been read. `time` is
    what the archive says of itself and all of its members. `silenced` are the warnings that the
    spec accepts.
    """

    members: tuple[Member, ...]
    manifest: Manifest
    time: datetime
    findings: tuple[Finding, ...]
    silenced: tuple[Finding, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings that keep the archive from being written."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    @property
    def size(self) -> int:
        """Return the bytes of all members together."""
        return sum(member.size for member in self.members)


def plan_archive(spec: ArchiveSpec) -> ArchivePlan:
    """Choose an archive's members and check them; nothing is written and no code is run.

    What is wrong with the inputs is in the plan's findings, all at once. Raises ArchiveError if
    makemar itself cannot be vendored, a file cannot be read, or `SOURCE_DATE_EPOCH` is no number.
    """
    try:
        return _plan(spec)
    except OSError as error:
        place = error.filename or spec.base
        raise ArchiveError(
            f"{place}: {error.strerror or error}; make it readable or leave it out",
            path=Path(str(place)),
        ) from error


def _plan(spec: ArchiveSpec) -> ArchivePlan:
    time = find_build_time()
    # Every file is parsed once, whoever looks at it.
    parse = cache(parse_python)
    handler, root, refusals = _resolve(spec, parse)
    chosen = [*select_members(spec, handler)]
    named = [found for found in chosen if isinstance(found, Member)]
    findings = [*refusals, *(found for found in chosen if isinstance(found, Finding))]
    findings += check_identity(spec, handler)
    code = plan_code(spec, handler, root, named, parse)
    members, clashes = settle_members([*named, *code.members])
    findings += [*code.findings, *clashes, *check_member_names(members, handler)]
    findings += check_suitability(spec, handler, code, members, parse)
    manifest = _make_manifest(spec, code.handler, time)
    ordered = sorted((_manifest_member(manifest), *members), key=lambda m: member_order(m.name))
    kept, silenced = judge_findings(dict.fromkeys(findings), spec.silence, strict=spec.strict)
    return ArchivePlan(
        members=tuple(ordered), manifest=manifest, time=time, findings=kept, silenced=silenced
    )


def _resolve(
    spec: ArchiveSpec, parse: Parser
) -> tuple[Handler | None, Path | None, tuple[Finding, ...]]:
    try:
        handler = resolve_handler(spec.handler, spec.runtime, spec.base)
    except ArchiveError as error:
        finding = Finding(code="handler", severity=Severity.ERROR, message=str(error))
        return None, None, (finding,)
    return *place_handler(handler, spec.base, parse), ()


def _make_manifest(spec: ArchiveSpec, handler: str, time: datetime) -> Manifest:
    return Manifest(
        model_name=spec.model_name,
        model_version=spec.version,
        description=spec.description,
        handler=handler,
        serialized_file=_name(spec.serialized_file),
        model_file=_name(spec.model_file),
        requirements_file=_name(spec.requirements_file),
        config_file=_name(spec.config_file),
        runtime=spec.runtime,
        created_on=format_time(time),
        archiver_version=makemar.__version__,
    )


def _name(path: Path | None) -> str | None:
    return None if path is None else path.name


def _manifest_member(manifest: Manifest) -> Member:
    contents = format_manifest(manifest).encode()
    return Member(name=MANIFEST_NAME, source=contents, size=len(contents), origin="the manifest")
