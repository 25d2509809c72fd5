"""The local modules that an archive's code needs, followed from import to import.

What lies beside the handler is imported from there on the author's machine; in the worker only
the archive is. So every module and package found there goes in under its package path.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makemar.archiver.imports import Import, list_imports, list_star_names
from makemar.archiver.member import Member
from makemar.archiver.modules import Module, ModuleFinder, absolute_name
from makemar.archiver.syntax import Parser
from makemar.archiver.worker_modules import is_worker_module
from makemar.errors import Finding, Severity

__all__ = ["ForeignImport", "Trace", "trace_imports"]

# Vendored, or installed on the server.
_OWN = "makemar"


@dataclass(frozen=True, kw_only=True)
class ForeignImport:
    """An import of something that is neither in the archive nor part of the worker."""

    module: str
    path: Path
    line: int


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What tracing found: members to add, imports that leave the archive, and what is wrong.

    A finding is there as often as it was met. `files` are all files that were followed.
    """

    members: tuple[Member, ...]
    files: tuple[Path, ...]
    foreign: tuple[ForeignImport, ...]
    findings: tuple[Finding, ...]


def trace_imports(
    starts: Mapping[str, Path], modules: Iterable[str], finder: ModuleFinder, parse: Parser
) -> Trace:
    """Follow the imports of some files, transitively, without running any of them.

    `starts` are member names at the archive's root and their files, `modules` the dotted names of
    more to start from. Raises OSError if a file that was found cannot be read.
    """
    tracer = _Tracer(finder=finder, parse=parse)
    for member, file in starts.items():
        dotted = member.removesuffix(".py")
        tracer.enqueue(Module(dotted=dotted, member=member, file=file), origin="")
    for name in modules:
        for found in finder.resolve(name):
            tracer.enqueue(found, origin="handler (--handler)")
    tracer.run()
    return Trace(
        members=tuple(m for m in tracer.members.values() if m.name not in finder.provided),
        files=tuple(tracer.files),
        foreign=tuple(tracer.foreign),
        findings=(*tracer.findings, *finder.findings),
    )


@dataclass(kw_only=True)
class _Tracer:
    finder: ModuleFinder
    parse: Parser
    members: dict[str, Member] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    foreign: list[ForeignImport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    queue: deque[Module] = field(default_factory=deque)

    def enqueue(self, module: Module, origin: str) -> None:
        if module.member in self.members:
            return
        self.members[module.member] = Member.of_file(module.member, module.file, origin=origin)
        if module.file.suffix == ".py":
            self.queue.append(module)
            self.files.append(module.file)

    def run(self) -> None:
        while self.queue:
            module = self.queue.popleft()
            tree = self.parse(module.file)
            if isinstance(tree, Finding):
                self.findings.append(tree)
                continue
            for statement in list_imports(tree):
                self.follow(module, statement)

    def follow(self, module: Module, statement: Import) -> None:
        target = absolute_name(module, statement)
        if target is None:
            self.report_relative(module, statement)
            return
        top = target.partition(".")[0]
        if top == _OWN or (not module.package and top == module.dotted):
            return
        if is_worker_module(top):
            self.report_worker_module(module, statement, top)
            return
        origin = f"imported by {module.member}:{statement.line}"
        chain = self.finder.resolve(target)
        there = bool(chain) and chain[-1].dotted == target
        names: tuple[str, ...] = ()
        if there:
            names = self.submodules(chain[-1], statement.names)
        elif self.finder.is_namespace(target):
            there, names = bool(chain), statement.names
        inside = [m for name in names for m in self.finder.resolve(f"{target}.{name}")]
        for found in (*chain, *inside):
            self.enqueue(found, origin)
        if not (there or inside or statement.guarded):
            self.report_missing(module, statement, target, foreign=not chain)

    def submodules(self, package: Module, names: tuple[str, ...]) -> tuple[str, ...]:
        if "*" not in names or not package.is_package or package.file.suffix != ".py":
            return names
        tree = self.parse(package.file)
        return list_star_names(tree) if isinstance(tree, ast.Module) else ()

    def report_relative(self, module: Module, statement: Import) -> None:
        if statement.guarded:
            return
        name = f"{'.' * statement.level}{statement.module}"
        self.findings.append(
            Finding(
                code="relative-import",
                severity=Severity.ERROR,
                message=f"import from {name!r}: {module.member} has no such parent package in the "
                "archive, so the worker cannot import it",
                fix="import by the module's own name, without the leading dots, or name a handler "
                "that is in a package as package.module or package.module:Class",
                path=module.file,
                line=statement.line,
            )
        )

    def report_worker_module(self, module: Module, statement: Import, top: str) -> None:
        for file in self.finder.has(top):
            message = f"{file} is not packed: in the worker {top!r} is not yours"
            fix = "rename it if you meant your own"
            self.warn("shadowed-import", message, fix, module.file, statement.line)

    def report_missing(
        self, module: Module, statement: Import, target: str, *, foreign: bool
    ) -> None:
        if foreign:
            top = target.partition(".")[0]
            self.foreign.append(ForeignImport(module=top, path=module.file, line=statement.line))
            return
        message = f"import of {target!r}: the package is beside the handler, that module is not"
        fix = "correct the name or add the file"
        self.warn("missing-module", message, fix, module.file, statement.line)

    def warn(self, code: str, message: str, fix: str, path: Path, line: int) -> None:
        self.findings.append(
            Finding(
                code=code,
                severity=Severity.WARNING,
                message=message,
                fix=fix,
                path=path,
                line=line,
            )
        )
