"""How TorchServe gets to a handler: what the manifest calls it, and the entry module it may need.

TorchServe 0.12 takes a class only if it is the only one that its module defines, and calls what is
named after a colon as a function. For every other class a module of a few lines is made, with a
subclass in it.
"""

from __future__ import annotations

import ast
import difflib
import keyword
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from makemar.archiver.entry import check_class, check_handler_file
from makemar.archiver.handler import FAMILY_MODULE, Handler
from makemar.archiver.member import Member
from makemar.archiver.modules import Module, ModuleFinder, absolute_name, find_package_root
from makemar.archiver.surface import Surface, read_surface
from makemar.archiver.syntax import Parser
from makemar.archiver.vendored import list_public_names
from makemar.archiver.worker_modules import is_worker_module
from makemar.errors import Finding, Severity

__all__ = ["EntryPoint", "choose_entry", "make_entry_module", "place_handler"]


@dataclass(frozen=True, kw_only=True)
class EntryPoint:
    """What the manifest names, and the class to be wrapped in an entry module, if one is needed.

    `file` is where the handler is written, None if makemar or TorchServe brings it.
    """

    name: str
    file: Path | None = None
    wrapped: tuple[str, str] | None = None
    findings: tuple[Finding, ...] = ()


def place_handler(handler: Handler, base: Path, parse: Parser) -> tuple[Handler, Path | None]:
    """Tell whether a handler's file stays a module of its package, and where that is found from.

    A class that is named in a file of a package does, so that its relative imports work. Anything
    else named by its file goes to the archive's root, as torch-model-archiver has it.
    """
    if handler.file is None or not handler.name or not handler.python:
        return handler, None
    file = base / handler.file
    if not (file.parent / "__init__.py").is_file() or not file.is_file():
        return handler, None
    tree = parse(file)
    surface = read_surface(tree) if isinstance(tree, ast.Module) else Surface()
    imported = handler.name in surface.imported and _by_spelling(handler.name) == "class"
    if handler.name not in surface.classes and not imported:
        return handler, None
    file = Path(os.path.abspath(file))  # noqa: PTH100 - links are to keep their names
    root = find_package_root(file)
    parts = file.relative_to(root).with_suffix("").parts
    dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Handler(entry=handler.entry, module=dotted, name=handler.name), root


def choose_entry(handler: Handler, base: Path, finder: ModuleFinder, parse: Parser) -> EntryPoint:
    """Choose how the handler is named, and check what TorchServe would find under that name."""
    if handler.built_in or not handler.python:
        return EntryPoint(name=handler.entry)
    if handler.module.partition(".")[0] == "makemar":
        findings = tuple(_check_own(handler))
        return EntryPoint(name="", wrapped=(handler.module, handler.name), findings=findings)
    module = _find_module(handler, base, finder)
    if isinstance(module, Finding):
        return EntryPoint(name=handler.entry, findings=(module,))
    if module is None or module.file.suffix != ".py":
        return EntryPoint(name=handler.entry)
    tree = parse(module.file)
    if isinstance(tree, Finding):
        return EntryPoint(name=handler.entry, file=module.file, findings=(tree,))
    return _choose(handler, module, tree, _Kinds(finder, parse))


def make_entry_module(model: str, target: tuple[str, str], taken: Collection[str]) -> Member:
    """Write the module whose one class is a subclass of `target`, a module and a class in it.

    `taken` are the names of the other members, none of which it takes or shadows.
    """
    module, name = target
    stem = re.sub(r"\W", "_", model, flags=re.ASCII) + "_entry"
    tops = {member.partition("/")[0].partition(".")[0] for member in taken}
    while stem in tops:
        stem += "_"
    contents = _ENTRY_SOURCE.format(target=f"{module}:{name}", taking=_import_line(module, name))
    source = contents.encode()
    return Member(name=f"{stem}.py", source=source, size=len(source), origin="handler (--handler)")


_ENTRY_SOURCE = '''"""The one class that TorchServe takes for {target}; made by make-mar."""

{taking}


class Service(_Handler):
    """The handler, under a name of this module."""
'''


def _import_line(module: str, name: str) -> str:
    if all(part.isidentifier() and not keyword.iskeyword(part) for part in module.split(".")):
        return f"from {module} import {name} as _Handler"
    return f'import importlib\n\n_Handler = importlib.import_module("{module}").{name}'


def _check_own(handler: Handler) -> Iterator[Finding]:
    """Find a class that makemar's handlers do not have."""
    names = list_public_names()
    if handler.module != FAMILY_MODULE or handler.name not in names:
        written = f"{handler.module}:{handler.name}"
        choices = [f"{FAMILY_MODULE}:{name}" for name in names]
        close = difflib.get_close_matches(written, choices, n=1)
        wanted = close[0] if close else f"{FAMILY_MODULE}:ImageClassifier"
        message = f"makemar has no public handler {written!r}"
        yield _error("handler-module", message, f"did you mean {wanted!r}?")


def _find_module(handler: Handler, base: Path, finder: ModuleFinder) -> Module | Finding | None:
    if handler.file is not None:
        file, dotted = base / handler.file, handler.file.stem
        # A file that is not there has its finding already.
        there = Module(dotted=dotted, member=handler.file.name, file=file)
        return there if file.is_file() else None
    top = handler.module.partition(".")[0]
    found = [] if is_worker_module(top) else finder.resolve(handler.module)
    if found and found[-1].dotted == handler.module:
        return found[-1]
    where = "is a module of the worker itself" if is_worker_module(top) else "is not there"
    searched = ", ".join(str(root) for root in finder.roots)
    return _error(
        "handler-module",
        f"the handler's module {handler.module!r} {where}; it is looked for in {searched}",
        "correct the name, write the path of the file instead, or write a handler file that "
        "subclasses an installed one: class Service(ThatHandler): ...",
    )


def _choose(handler: Handler, module: Module, tree: ast.Module, kinds: _Kinds) -> EntryPoint:
    plain = module.member if handler.file is not None else module.dotted
    surface = read_surface(tree)
    kind = kinds.tell(module, surface, handler.name) if handler.name else ""
    if kind != "class":
        # "module" and "module.py" are one to TorchServe; the manifest keeps what was written.
        named = handler.entry if handler.file is not None else plain
        entry = named if handler.file is not None or not kind else f"{plain}:{handler.name}"
        if kind == "missing":
            return EntryPoint(name=entry, file=module.file, findings=(_missing(handler, module),))
        found = check_handler_file(tree, module.file, handler.name)
        return EntryPoint(name=entry, file=module.file, findings=found)
    cls = surface.definitions.get(handler.name)
    findings = () if cls is None else tuple(check_class(cls, module.file))
    alone = [*surface.classes] == [handler.name]
    if alone and not surface.open_ended and "handle" not in surface.names:
        return EntryPoint(name=plain, file=module.file, findings=findings)
    wrapped = (module.dotted, handler.name)
    return EntryPoint(name="", file=module.file, wrapped=wrapped, findings=findings)


@dataclass(frozen=True)
class _Kinds:
    """Tells functions from classes, through the imports that bring them."""

    finder: ModuleFinder
    parse: Parser

    def tell(self, module: Module, surface: Surface, name: str, depth: int = 20) -> str:
        """Return "class", "function" or "missing"."""
        if name in surface.classes:
            return "class"
        if name in surface.functions:
            return "function"
        if name in surface.imported and depth:
            return self.follow(module, surface, name, depth)
        if name in surface.names or surface.open_ended:
            return _by_spelling(name)
        return "missing"

    def follow(self, module: Module, surface: Surface, name: str, depth: int) -> str:
        statement, original = surface.imported[name]
        target = absolute_name(module, statement)
        chain = self.finder.resolve(target) if target else []
        if chain and chain[-1].dotted == target and chain[-1].file.suffix == ".py":
            tree = self.parse(chain[-1].file)
            if isinstance(tree, ast.Module):
                kind = self.tell(chain[-1], read_surface(tree), original, depth - 1)
                return _by_spelling(name) if kind == "missing" else kind
        return _by_spelling(name)


def _by_spelling(name: str) -> str:
    """Guess what cannot be read, as everybody spells it: Class, function."""
    return "class" if name.lstrip("_")[:1].isupper() else "function"


def _missing(handler: Handler, module: Module) -> Finding:
    message = f"there is no function or class {handler.name!r}; TorchServe would not say so"
    return _error("missing-function", message, "define it or correct the name", module.file)


def _error(code: str, message: str, fix: str, path: Path | None = None) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, fix=fix, path=path)
