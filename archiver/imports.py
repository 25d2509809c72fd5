"""The import statements of a Python file, told from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Import", "is_type_checking", "is_version_check", "list_imports", "list_star_names"]

_CATCHES_IMPORT_ERROR = frozenset(
    {"BaseException", "Exception", "ImportError", "ModuleNotFoundError"}
)


@dataclass(frozen=True, kw_only=True)
class Import:
    """One module that a file asks for.

    `level` counts the leading dots. `names` are what `from module import ...` takes: attributes or
    submodules. A `guarded` import stands in a `try` that survives its failure, or in a block for
    some versions of Python.
    """

    module: str
    level: int = 0
    names: tuple[str, ...] = ()
    line: int
    guarded: bool = False


def list_imports(tree: ast.Module, *, calls: bool = True) -> tuple[Import, ...]:
    """Return every import of a file, those inside functions too, in the order of the file.

    `import_module("name")` and `__import__("name")` with a literal count, unless `calls` is False,
    which is ten times as fast; a block under `if TYPE_CHECKING:` never runs and does not count.
    """
    return tuple(_walk(tree, calls=calls))


def list_star_names(tree: ast.Module) -> tuple[str, ...]:
    """Return the texts of a literal `__all__`, which `from package import *` would import."""
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
            and isinstance(node.value, (ast.List, ast.Tuple))
        ):
            values = [item.value for item in node.value.elts if isinstance(item, ast.Constant)]
            return tuple(value for value in values if isinstance(value, str))
    return ()


def _walk(tree: ast.Module, *, calls: bool) -> Iterator[Import]:
    # A stack of its own: a thousand chained calls are more than Python's recursion takes.
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, guarded = waiting.pop()
        if not calls and isinstance(node, ast.expr):
            continue
        yield from _read(node, guarded=guarded)
        waiting += reversed(_parts(node, guarded=guarded))


def _read(node: ast.AST, *, guarded: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(module=alias.name, line=node.lineno, guarded=guarded)
    elif isinstance(node, ast.ImportFrom):
        names = tuple(alias.name for alias in node.names)
        yield Import(
            module=node.module or "",
            level=node.level,
            names=names,
            line=node.lineno,
            guarded=guarded,
        )
    elif isinstance(node, ast.Call) and (name := _imported_by_call(node)):
        yield Import(module=name, line=node.lineno, guarded=guarded)


def _parts(node: ast.AST, *, guarded: bool) -> list[tuple[ast.AST, bool]]:
    """Return what is inside a node, and whether an ImportError there is survived."""
    if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
        rest = (*node.handlers, *node.orelse, *node.finalbody)
        return [*((part, True) for part in node.body), *((part, guarded) for part in rest)]
    if isinstance(node, ast.If) and is_type_checking(node.test):
        return [(part, guarded) for part in node.orelse]
    guarded = guarded or is_version_check(node)
    return [(part, guarded) for part in ast.iter_child_nodes(node)]


def is_version_check(node: ast.AST) -> bool:
    """Tell whether a statement asks `sys.version_info` which of its blocks is to run."""
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Attribute) and part.attr == "version_info"
        for part in ast.walk(node.test)
    )


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(t) in _CATCHES_IMPORT_ERROR for t in types)


def is_type_checking(test: ast.expr) -> bool:
    """Tell whether a condition holds for a type checker only."""
    return _last_name(test) == "TYPE_CHECKING"


def _imported_by_call(call: ast.Call) -> str:
    if _last_name(call.func) not in ("import_module", "__import__") or not call.args:
        return ""
    first = call.args[0]
    literal = first.value if isinstance(first, ast.Constant) else ""
    # A leading dot needs the `package` argument, which is seldom a literal.
    return literal if isinstance(literal, str) and not literal.startswith(".") else ""


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
