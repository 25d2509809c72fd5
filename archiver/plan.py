"""What an archive will hold, and all that is wrong with it, before a byte is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import makemar
from makemar.archiver.build_time import find_build_time
from makemar.archiver.entry import check_handler_file, check_model_file
from makemar.archiver.handler import Handler, resolve_handler
from makemar.archiver.identity import check_identity
from makemar.archiver.imports import list_imports
from makemar.archiver.manifest import Manifest, format_manifest, format_time
from makemar.archiver.member import MANIFEST_NAME, Member, member_order
from makemar.archiver.names import check_member_names, settle_members
from makemar.archiver.selection import select_members
from makemar.archiver.spec import ArchiveSpec
from makemar.archiver.syntax import Parser, parse_python
from makemar.archiver.trace import Trace, trace_imports
from makemar.archiver.vendored import list_vendored
from makemar.configs import check_model_config
from makemar.errors import ArchiveError, Finding, Severity

__all__ = ["ArchivePlan", "plan_archive"]


@dataclass(frozen=True, kw_only=True)
class ArchivePlan:
    """A sorted list of members, the manifest among them, and every finding.

    `MAR-INF/RECORD` is not in it: its lines are known once the members have been read. `time` is
    what the archive says of itself and all of its members.
    """

    members: tuple[Member, ...]
    manifest: Manifest
    time: datetime
    findings: tuple[Finding, ...]

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
    handler, refusal = _resolve(spec)
    chosen = [refusal, *select_members(spec, handler)]
    named = [found for found in chosen if isinstance(found, Member)]
    findings = [found for found in chosen if isinstance(found, Finding)]
    findings += check_identity(spec, handler)
    files = _code_files(spec, handler, named)
    # Every file is parsed once, whoever looks at it.
    parse = cache(parse_python)
    findings += _check_files(spec, handler, files, parse)
    trace = _trace(spec, named, files, parse)
    packed = [*named, *trace.members]
    members, clashes = settle_members([*packed, *_vendored(spec, packed, parse)])
    findings += [*trace.findings, *clashes, *check_member_names(members, handler)]
    manifest = _make_manifest(spec, handler, time)
    ordered = sorted((_manifest_member(manifest), *members), key=lambda m: member_order(m.name))
    return ArchivePlan(
        members=tuple(ordered),
        manifest=manifest,
        time=time,
        findings=tuple(dict.fromkeys(findings)),
    )


def _resolve(spec: ArchiveSpec) -> tuple[Handler | None, Finding | None]:
    try:
        return resolve_handler(spec.handler, spec.runtime), None
    except ArchiveError as error:
        finding = Finding(code="handler", severity=Severity.ERROR, message=str(error))
        return None, finding


def _code_files(
    spec: ArchiveSpec, handler: Handler | None, named: list[Member]
) -> Mapping[str, Path]:
    """Return the members that TorchServe imports by itself: the handler and the model file."""
    wanted = {spec.model_file.name} if spec.model_file is not None else set()
    if handler is not None and handler.file is not None and handler.python:
        wanted.add(handler.file.name)
    files: dict[str, Path] = {}
    for member in named:
        if member.name in wanted and isinstance(member.source, Path):
            files.setdefault(member.name, member.source)
    return files


def _check_files(
    spec: ArchiveSpec, handler: Handler | None, files: Mapping[str, Path], parse: Parser
) -> Iterator[Finding]:
    for name, path in files.items():
        tree = parse(path)
        if not isinstance(tree, ast.Module):
            yield tree
        elif handler is not None and handler.file is not None and name == handler.file.name:
            yield from check_handler_file(tree, path, handler.function)
        elif handler is not None and handler.file is None:
            yield from check_model_file(tree, path)
    if spec.config_file is not None and (config := spec.base / spec.config_file).is_file():
        yield from check_model_config(config.read_bytes(), path=config)


def _trace(
    spec: ArchiveSpec, named: list[Member], files: Mapping[str, Path], parse: Parser
) -> Trace:
    provided = {m.name: m.source for m in reversed(named) if isinstance(m.source, Path)}
    roots = [path.parent for path in files.values()]
    return trace_imports(files, [*roots, spec.base], provided, parse)


def _vendored(spec: ArchiveSpec, packed: list[Member], parse: Parser) -> tuple[Member, ...]:
    """Choose what of makemar goes along, by what the packed code imports of it."""
    if not spec.vendor or spec.runtime == "LSP":
        return ()
    sources = [m.source for m in packed if isinstance(m.source, Path) and m.name.endswith(".py")]
    trees = [tree for tree in map(parse, sources) if isinstance(tree, ast.Module)]
    return list_vendored(found for tree in trees for found in list_imports(tree))


def _make_manifest(spec: ArchiveSpec, handler: Handler | None, time: datetime) -> Manifest:
    return Manifest(
        model_name=spec.model_name,
        model_version=spec.version,
        description=spec.description,
        handler=spec.handler if handler is None else handler.entry,
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
