"""The local modules that an archive's code needs, followed from import to import.

What lies beside the handler is imported from there on the author's machine; in the worker only
the archive is. So every module and package found there goes in under its package path.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from makemar.archiver.imports import Import, list_imports, list_star_names
from makemar.archiver.member import Member
from makemar.archiver.syntax import Parser
from makemar.archiver.worker_modules import is_worker_module
from makemar.errors import Finding, Severity

__all__ = ["Trace", "trace_imports"]

_SUFFIXES = (".py", *EXTENSION_SUFFIXES)
# Vendored, or installed on the server.
_OWN = "makemar"


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What tracing found: members to add, and what is wrong with the code it read.

    A finding is there as often as it was met.
    """

    members: tuple[Member, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class _Module:
    """A module: its dotted name, its member name, its file."""

    dotted: str
    member: str
    file: Path

    @property
    def is_package(self) -> bool:
        return self.member.rpartition("/")[2].startswith("__init__.")

    @property
    def package(self) -> str:
        return self.dotted if self.is_package else self.dotted.rpartition(".")[0]


def trace_imports(
    starts: Mapping[str, Path],
    roots: Sequence[Path],
    provided: Mapping[str, Path],
    parse: Parser,
) -> Trace:
    """Follow the imports of some files, transitively, without running any of them.

    `starts` are member names at the archive's root and their files; `roots` are the folders that
    are searched, the first one first; `provided` are the members that the spec names itself: they
    win over a file beside the handler, and a finding tells so. Raises OSError if a file that was
    found cannot be read.
    """
    tracer = _Tracer(roots=tuple(dict.fromkeys(roots)), provided=dict(provided), parse=parse)
    for member, file in starts.items():
        tracer.enqueue(_Module(dotted=_stem(member), member=member, file=file), origin="")
    tracer.run()
    found = tuple(m for m in tracer.members.values() if m.name not in provided)
    return Trace(members=found, findings=tuple(tracer.findings))


@dataclass(kw_only=True)
class _Tracer:
    roots: tuple[Path, ...]
    provided: dict[str, Path]
    parse: Parser
    members: dict[str, Member] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    queue: deque[_Module] = field(default_factory=deque)

    def enqueue(self, module: _Module, origin: str) -> None:
        if module.member in self.members:
            return
        size = module.file.stat().st_size
        self.members[module.member] = Member(
            name=module.member, source=module.file, size=size, origin=origin
        )
        if module.file.suffix == ".py":
            self.queue.append(module)

    def run(self) -> None:
        while self.queue:
            module = self.queue.popleft()
            tree = self.parse(module.file)
            if isinstance(tree, Finding):
                self.findings.append(tree)
                continue
            for statement in list_imports(tree):
                self.follow(module, statement)

    def follow(self, module: _Module, statement: Import) -> None:
        target = _absolute(module, statement)
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
        chain = self.resolve(target)
        for found in chain:
            self.enqueue(found, origin)
        names: tuple[str, ...] = ()
        if chain and chain[-1].dotted == target:
            names = self.submodules(chain[-1], statement.names)
        elif self.is_namespace(target):
            names = statement.names
        elif chain and not statement.guarded:
            self.report_missing(module, statement, target)
        for name in names:
            for found in self.resolve(f"{target}.{name}"):
                self.enqueue(found, origin)

    def submodules(self, package: _Module, names: tuple[str, ...]) -> tuple[str, ...]:
        if "*" not in names or not package.is_package or package.file.suffix != ".py":
            return names
        tree = self.parse(package.file)
        return list_star_names(tree) if isinstance(tree, ast.Module) else ()

    def resolve(self, dotted: str) -> list[_Module]:
        """Return the packages on the way to a module, and the module, as far as they exist."""
        parts = dotted.split(".")
        home = self.find_home(parts[0])
        found = []
        for count in range(1, len(parts) + 1):
            here = parts[:count]
            for member in _candidates("/".join(here)):
                file = self.find(member, home)
                if file is not None:
                    found.append(_Module(dotted=".".join(here), member=member, file=file))
                    break
        return found

    def find_home(self, top: str) -> tuple[Path, ...]:
        """Return the root that holds a top-level module, or all for a namespace package.

        Python's own rule: a real package or module anywhere on the path beats a namespace.
        """
        for root in self.roots:
            if any((root / member).is_file() for member in _candidates(top)):
                return (root,)
        return self.roots

    def find(self, member: str, home: tuple[Path, ...]) -> Path | None:
        beside = next((p for root in home if (p := root / member).is_file()), None)
        given = self.provided.get(member)
        if given is not None and beside is not None and not given.samefile(beside):
            self.findings.append(
                _warning("import-replaced", f"{given} is packed as {member}, {beside} is not")
            )
        return given or beside

    def is_namespace(self, dotted: str) -> bool:
        folder = dotted.replace(".", "/")
        given = any(member.startswith(f"{folder}/") for member in self.provided)
        return given or any((root / folder).is_dir() for root in self.roots)

    def report_relative(self, module: _Module, statement: Import) -> None:
        if statement.guarded:
            return
        name = f"{'.' * statement.level}{statement.module}"
        self.findings.append(
            Finding(
                code="relative-import",
                severity=Severity.ERROR,
                message=f"import from {name!r}: {module.member} has no such parent package in the "
                "archive, so the worker cannot import it",
                fix="import by the module's own name, without the leading dots",
                path=module.file,
                line=statement.line,
            )
        )

    def report_worker_module(self, module: _Module, statement: Import, top: str) -> None:
        for root in self.roots:
            for member in _candidates(top):
                if (root / member).is_file():
                    self.findings.append(
                        _warning(
                            "shadowed-import",
                            f"{root / member} is not packed: in the worker {top!r} is not yours",
                            "rename it if you meant your own",
                            path=module.file,
                            line=statement.line,
                        )
                    )

    def report_missing(self, module: _Module, statement: Import, target: str) -> None:
        self.findings.append(
            _warning(
                "missing-module",
                f"import of {target!r}: the package is beside the handler, that module is not",
                "correct the name or add the file",
                path=module.file,
                line=statement.line,
            )
        )


def _absolute(module: _Module, statement: Import) -> str | None:
    """Return the absolute name of what an import asks for; None if it leaves its package."""
    if not statement.level:
        return statement.module
    package = module.package.split(".") if module.package else []
    if statement.level > len(package):
        return None
    kept = package[: len(package) - statement.level + 1]
    return ".".join([*kept, statement.module] if statement.module else kept)


def _candidates(path: str) -> Iterator[str]:
    """List the members that can be a module: a package before a file, portable source first."""
    for suffix in _SUFFIXES:
        yield f"{path}/__init__{suffix}"
    for suffix in _SUFFIXES:
        yield f"{path}{suffix}"


def _stem(member: str) -> str:
    return member.removesuffix(".py")


def _warning(
    code: str, message: str, fix: str = "", path: Path | None = None, line: int | None = None
) -> Finding:
    return Finding(
        code=code, severity=Severity.WARNING, message=message, fix=fix, path=path, line=line
    )
