"""Where the modules of a project lie, and which members of an archive they become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from makemar.archiver.imports import Import
from makemar.errors import Finding, Severity

__all__ = ["Module", "ModuleFinder", "absolute_name", "find_package_root"]

_SUFFIXES = (".py", *EXTENSION_SUFFIXES)


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module: its dotted name, its member name, its file."""

    dotted: str
    member: str
    file: Path

    @property
    def is_package(self) -> bool:
        """Tell whether it is the `__init__` of a package."""
        return self.member.rpartition("/")[2].startswith("__init__.")

    @property
    def package(self) -> str:
        """Return the package that relative imports start from; empty at the top."""
        return self.dotted if self.is_package else self.dotted.rpartition(".")[0]


@dataclass(kw_only=True)
class ModuleFinder:
    """Finds modules by name in some folders, the first one first.

    `provided` are the members that the spec names itself: they win over a file in a folder, and
    `findings` tells so.
    """

    roots: Sequence[Path]
    provided: Mapping[str, Path]
    findings: list[Finding] = field(default_factory=list)

    def resolve(self, dotted: str) -> list[Module]:
        """Return the packages on the way to a module, and the module, as far as they exist."""
        parts = dotted.split(".")
        if not all(map(_is_name, parts)):
            return []
        home = self.find_home(parts[0])
        found = []
        for count in range(1, len(parts) + 1):
            here = parts[:count]
            for member in _candidates("/".join(here)):
                file = self.find(member, home)
                if file is not None:
                    found.append(Module(dotted=".".join(here), member=member, file=file))
                    break
        return found

    def find_home(self, top: str) -> Sequence[Path]:
        """Return the root that holds a top-level module, or all for a namespace package.

        Python's own rule: a real package or module anywhere on the path beats a namespace.
        """
        for root in self.roots:
            if any((root / member).is_file() for member in _candidates(top)):
                return (root,)
        return self.roots

    def find(self, member: str, home: Sequence[Path]) -> Path | None:
        """Return the file that becomes a member: the spec's own, else the first in a folder."""
        beside = next((p for root in home if (p := root / member).is_file()), None)
        given = self.provided.get(member)
        if given is not None and beside is not None and not given.samefile(beside):
            self.findings.append(
                Finding(
                    code="import-replaced",
                    severity=Severity.WARNING,
                    message=f"{given} is packed as {member}, {beside} is not",
                    fix="leave one of them out",
                )
            )
        return given or beside

    def is_namespace(self, dotted: str) -> bool:
        """Tell whether there is a folder of that name, which imports without an `__init__`."""
        if not all(map(_is_name, dotted.split("."))):
            return False
        folder = dotted.replace(".", "/")
        given = any(member.startswith(f"{folder}/") for member in self.provided)
        return given or any((root / folder).is_dir() for root in self.roots)

    def has(self, top: str) -> Iterator[Path]:
        """Yield the files that a top-level module of this name has in the folders."""
        for root in self.roots:
            for member in _candidates(top):
                if (root / member).is_file():
                    yield root / member


def absolute_name(module: Module, statement: Import) -> str | None:
    """Return the absolute name of what an import asks for; None if it leaves its package."""
    if not statement.level:
        return statement.module
    package = module.package.split(".") if module.package else []
    if statement.level > len(package):
        return None
    kept = package[: len(package) - statement.level + 1]
    return ".".join([*kept, statement.module] if statement.module else kept)


def _is_name(part: str) -> bool:
    """Tell whether a text, perhaps one given to `import_module`, can be looked for as a file."""
    return 0 < len(part) <= 200 and not set("/\\\0") & set(part)


def _candidates(path: str) -> Iterator[str]:
    """List the members that can be a module: a package before a file, portable source first."""
    for suffix in _SUFFIXES:
        yield f"{path}/__init__{suffix}"
    for suffix in _SUFFIXES:
        yield f"{path}{suffix}"


def find_package_root(file: Path) -> Path:
    """Return the folder from which a file is imported: the first above it that is no package."""
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder
