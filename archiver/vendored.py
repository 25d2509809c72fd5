"""makemar's own handlers, which travel in every archive so that a server need not have them.

Only the modules that the archive's code can reach go along: `makemar.handlers` loads its public
names when they are used, and its table `_HOMES` says from where.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from makemar.archiver.imports import Import, list_imports
from makemar.archiver.member import Member
from makemar.errors import ArchiveError

__all__ = ["list_own_imports", "list_public_names", "list_vendored"]

_PACKAGE = "makemar.handlers"
# What a handler without a visible import of makemar gets: enough to subclass from.
_DEFAULT = (Import(module=_PACKAGE, names=("BaseHandler",), line=0),)
_STATEMENT = re.compile(
    r"^[ \t]*(from makemar[\w.]* import (?:\([^)]*\)|.*)|import makemar.*)$", re.MULTILINE
)
# Such a block never runs.
_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t].*\n|\n)+", re.MULTILINE)


def list_vendored(imports: Iterable[Import]) -> tuple[Member, ...]:
    """Return `makemar/__init__.py` and the modules of `makemar.handlers` that `imports` reach.

    `import makemar.handlers` and `from makemar.handlers import *` reach all of them. The packages
    are located and read without being imported, so torch need not be installed. Raises
    ArchiveError if makemar's handlers are not installed as files.
    """
    top, handlers = _find_folder("makemar"), _find_folder(_PACKAGE)
    modules = {_dotted(path, handlers): path for path in sorted(handlers.rglob("*.py"))}
    own = [found for found in imports if found.module.partition(".")[0] == "makemar"]
    files = {f"makemar/{name}": top / name for name in ("__init__.py", "py.typed")}
    for module in sorted(_reach(own or _DEFAULT, modules)):
        path = modules[module]
        files[f"makemar/handlers/{path.relative_to(handlers).as_posix()}"] = path
    return tuple(
        Member.of_file(name, path, origin="vendored")
        for name, path in files.items()
        if path.is_file()
    )


def list_public_names() -> tuple[str, ...]:
    """Return the public names of `makemar.handlers`; raises as `list_vendored` does."""
    return tuple(_read_homes(_find_folder(_PACKAGE) / "__init__.py"))


def _reach(imports: Iterable[Import], modules: Mapping[str, Path]) -> set[str]:
    """Follow imports through makemar's own modules, each read once."""
    homes = _read_homes(modules[_PACKAGE])
    reached: set[str] = set()
    waiting = [name for found in imports for name in _targets(found, homes, modules)]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        parent = name.rpartition(".")[0]
        if parent in modules:
            waiting.append(parent)
        for found in list_own_imports(modules[name].read_text(encoding="utf-8")):
            waiting += _targets(found, homes, modules)
    return reached


def list_own_imports(text: str) -> tuple[Import, ...]:
    """Return what a module of makemar imports of makemar itself.

    Its statements are found by the way makemar's code is written, for parsing 50 modules whole
    would be a fifth of the time that a small archive takes.
    """
    statements = _STATEMENT.findall(_TYPE_CHECKING.sub("", text))
    return list_imports(ast.parse("\n".join(statements)), calls=False)


def _targets(found: Import, homes: Mapping[str, str], modules: Mapping[str, Path]) -> Iterable[str]:
    """Name the modules that one import statement runs, or all where that cannot be told."""
    if found.module == _PACKAGE or (found.module == "makemar" and "handlers" in found.names):
        names = found.names if found.module == _PACKAGE else ()
        known = [f"{_PACKAGE}.{homes.get(name, name)}" for name in names if name != "*"]
        if not known or len(known) < len(names) or not modules.keys() >= set(known):
            return modules
        return known
    inside = [f"{found.module}.{name}" for name in found.names]
    return [name for name in (found.module, *inside) if name in modules]


def _read_homes(package: Path) -> Mapping[str, str]:
    """Read the literal table of public names from the package's own source."""
    for node in ast.parse(package.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            table: Mapping[str, str] = ast.literal_eval(node.value)
            return table
    return {}


def _dotted(path: Path, handlers: Path) -> str:
    parts = path.relative_to(handlers).with_suffix("").parts
    return ".".join((_PACKAGE, *(part for part in parts if part != "__init__")))


def _find_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise ArchiveError(
            f"{package} is not installed as files, so it cannot be vendored; "
            "reinstall makemar, or pack with vendor=False (--no-vendor)"
        )
    return Path(spec.origin).parent
