"""The code of an archive: its handler, what that imports, and what makemar adds to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from makemar.archiver.entry import check_model_file
from makemar.archiver.entry_point import EntryPoint, choose_entry, make_entry_module
from makemar.archiver.handler import Handler
from makemar.archiver.imports import Import, list_imports
from makemar.archiver.member import Member
from makemar.archiver.modules import ModuleFinder
from makemar.archiver.spec import ArchiveSpec
from makemar.archiver.surface import read_surface
from makemar.archiver.syntax import Parser
from makemar.archiver.trace import ForeignImport, trace_imports
from makemar.archiver.vendored import list_vendored
from makemar.errors import Finding, Severity

__all__ = ["CodePlan", "plan_code"]


@dataclass(frozen=True, kw_only=True)
class CodePlan:
    """What the manifest calls the handler, and the members that come with it.

    `files` are the Python files that the handler and the model file reach, themselves included;
    `handler_file` is where the handler is written, None if nobody has to look at it.
    """

    handler: str
    handler_file: Path | None = None
    members: tuple[Member, ...] = ()
    files: tuple[Path, ...] = ()
    foreign: tuple[ForeignImport, ...] = ()
    findings: tuple[Finding, ...] = ()


def plan_code(
    spec: ArchiveSpec,
    handler: Handler | None,
    root: Path | None,
    named: list[Member],
    parse: Parser,
) -> CodePlan:
    """Follow the code from the members that the spec names, and choose what has to be added.

    `handler` is None if it could not be resolved; `root` is the folder it is imported from, if that
    is not the spec's own. Raises OSError if a file cannot be read, ArchiveError if makemar's own
    handlers are not there to be vendored.
    """
    starts = _list_starts(spec, handler, named)
    provided = {m.name: m.source for m in reversed(named) if isinstance(m.source, Path)}
    roots = [*([root] if root else []), *(path.parent for path in starts.values()), spec.base]
    finder = ModuleFinder(roots=tuple(dict.fromkeys(roots)), provided=provided)
    entry = EntryPoint(name=spec.handler)
    if handler is not None:
        entry = choose_entry(handler, spec.base, finder, parse)
    modules = _list_modules(handler, entry)
    trace = trace_imports(starts, modules, finder, parse)
    packed = [*named, *trace.members]
    vendored = _list_vendored(spec, packed, entry, parse)
    name, added = entry.name, []
    if entry.wrapped is not None:
        taken = [member.name for member in (*packed, *vendored)]
        added = [make_entry_module(spec.model_name, entry.wrapped, taken)]
        name = added[0].name
    return CodePlan(
        handler=name,
        handler_file=entry.file,
        members=(*trace.members, *added, *vendored),
        files=trace.files,
        foreign=trace.foreign,
        findings=(
            *entry.findings,
            *_check_model_file(spec, handler, entry, starts, parse),
            *trace.findings,
        ),
    )


def _list_starts(
    spec: ArchiveSpec, handler: Handler | None, named: list[Member]
) -> Mapping[str, Path]:
    """Return the members that TorchServe imports from the root: the handler, the model file."""
    wanted = {spec.model_file.name} if spec.model_file is not None else set()
    if handler is not None and handler.file is not None and handler.python:
        wanted.add(handler.file.name)
    files: dict[str, Path] = {}
    for member in named:
        if member.name in wanted and isinstance(member.source, Path):
            files.setdefault(member.name, member.source)
    return files


def _list_modules(handler: Handler | None, entry: EntryPoint) -> tuple[str, ...]:
    if handler is None or not handler.module or entry.file is None:
        return ()
    return (handler.module,)


def _list_vendored(
    spec: ArchiveSpec, packed: list[Member], entry: EntryPoint, parse: Parser
) -> tuple[Member, ...]:
    """Choose what of makemar goes along, by what the packed code imports of it."""
    if not spec.vendor or spec.runtime == "LSP":
        return ()
    sources = [m.source for m in packed if isinstance(m.source, Path) and m.name.endswith(".py")]
    trees = [tree for tree in map(parse, sources) if isinstance(tree, ast.Module)]
    imports = [found for tree in trees for found in list_imports(tree)]
    if entry.wrapped is not None:
        module, name = entry.wrapped
        imports.append(Import(module=module, names=(name,), line=0))
    return list_vendored(imports)


def _check_model_file(
    spec: ArchiveSpec,
    handler: Handler | None,
    entry: EntryPoint,
    starts: Mapping[str, Path],
    parse: Parser,
) -> Iterator[Finding]:
    """Check the model file where TorchServe's own code will look for the class in it."""
    path = starts.get(spec.model_file.name) if spec.model_file is not None else None
    if path is None or handler is None or path == entry.file:
        return
    tree = parse(path)
    if not isinstance(tree, ast.Module):
        yield tree
    elif handler.built_in:
        yield from check_model_file(tree, path)
    elif entry.file is not None and _uses_torchserves_loader(parse(entry.file)):
        yield from check_model_file(tree, path, Severity.WARNING)


def _uses_torchserves_loader(tree: ast.Module | Finding) -> bool:
    """Tell whether a handler's class is TorchServe's own, with TorchServe's way to load."""
    if isinstance(tree, Finding):
        return False
    surface = read_surface(tree)
    theirs = {
        name
        for name, (statement, _) in surface.imported.items()
        if statement.module.startswith("ts.torch_handler") and not statement.level
    }
    own = {"initialize", "_load_pickled_model"}
    return any(
        isinstance(base, ast.Name) and base.id in theirs
        for cls in surface.definitions.values()
        if own.isdisjoint(item.name for item in cls.body if isinstance(item, ast.FunctionDef))
        for base in cls.bases
    )
