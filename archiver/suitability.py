"""Whether what goes into an archive suits the server: all checks of members that are known."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from makemar.archiver.code_plan import CodePlan
from makemar.archiver.envelope import check_envelope
from makemar.archiver.handler import Handler
from makemar.archiver.member import Member
from makemar.archiver.model_config import read_config
from makemar.archiver.requirements import Requirements, read_requirements
from makemar.archiver.rows import check_rows
from makemar.archiver.spec import ArchiveSpec
from makemar.archiver.syntax import Parser
from makemar.archiver.target import check_target, parse_target
from makemar.archiver.third_party import check_requirement_files, check_third_party
from makemar.archiver.unpacked import check_unpacked
from makemar.archiver.weights import check_weight_file, check_weight_members
from makemar.configs import check_model_config
from makemar.errors import Finding, Severity

__all__ = ["check_suitability"]


def check_suitability(
    spec: ArchiveSpec,
    handler: Handler | None,
    code: CodePlan,
    members: Sequence[Member],
    parse: Parser,
) -> Iterator[Finding]:
    """Yield what the server, its Python or a batch would make of the members.

    `handler` is None if it could not be resolved. Raises OSError if a file cannot be read.
    """
    names = {member.name for member in members}
    config = _file(spec.base, spec.config_file)
    settings: Mapping[str, object] = {}
    if config is not None:
        text = config.read_bytes()
        yield from check_model_config(text, path=config)
        settings = read_config(text) or {}
    if handler is not None:
        tree = None if code.handler_file is None else parse(code.handler_file)
        source = None
        if isinstance(tree, ast.Module) and code.handler_file is not None:
            source = (code.handler_file, tree)
            yield from check_rows(tree, code.handler_file, handler.name, settings)
        yield from check_envelope(spec, handler, source, settings, config)
        if f"{handler.entry}.py" not in names:  # else that file is the handler
            yield from check_weight_file(spec, handler)
    yield from _check_target(spec, code, members, parse)
    yield from _check_requirements(spec, code, names)
    yield from check_weight_members(members)
    yield from check_unpacked(members)


def _file(base: Path, path: Path | None) -> Path | None:
    """Return a file that the spec names, if it is there; that it is not has been found already."""
    return base / path if path is not None and (base / path).is_file() else None


def _check_target(
    spec: ArchiveSpec, code: CodePlan, members: Sequence[Member], parse: Parser
) -> Iterator[Finding]:
    target = parse_target(spec.target_python)
    if target is None:
        yield Finding(
            code="target",
            severity=Severity.ERROR,
            message=f"target python {spec.target_python!r} is no Python that TorchServe runs in",
            fix="write one like 3.9 (--target-python)",
        )
        return
    for path in dict.fromkeys([*code.files, *_python_files(members)]):
        tree = parse(path)
        if isinstance(tree, ast.Module):
            yield from check_target(tree, path, target)


def _python_files(members: Sequence[Member]) -> Iterator[Path]:
    """Yield the Python files of a spec's own: makemar's are written for every server."""
    for member in members:
        if (
            member.name.endswith(".py")
            and isinstance(member.source, Path)
            and member.origin != "vendored"
        ):
            yield member.source


def _check_requirements(
    spec: ArchiveSpec, code: CodePlan, names: Collection[str]
) -> Iterator[Finding]:
    file = _file(spec.base, spec.requirements_file)
    requirements: Requirements | None = None
    if file is not None:
        requirements = read_requirements(file)
        yield from requirements.findings
        yield from check_requirement_files(requirements, names)
    if spec.requirements_file is None or file is not None:
        yield from check_third_party(code.foreign, requirements, file)
