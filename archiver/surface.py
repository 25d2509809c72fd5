"""What a Python file's top level binds once it has been imported, told from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from makemar.archiver.imports import Import, is_type_checking

__all__ = ["Function", "Surface", "module_scope", "read_surface"]

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Calls that make a class whose __module__ is the caller's.
_CLASS_FACTORIES = frozenset(
    {"Enum", "Flag", "IntEnum", "IntFlag", "NamedTuple", "StrEnum", "TypedDict", "namedtuple"}
)
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(kw_only=True)
class Surface:
    """The names of a module, and what is known of each.

    `classes` are those that count as the module's own, with their lines; `definitions` and
    `functions` have the syntax, `imported` the statement and the name it takes.
    """

    names: set[str] = field(default_factory=set)
    classes: dict[str, int] = field(default_factory=dict)
    definitions: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    imported: dict[str, tuple[Import, str]] = field(default_factory=dict)
    # A star import or a module __getattr__ may bind anything.
    open_ended: bool = False

    def bind(self, name: str) -> None:
        """Note that a name has a value now, of which nothing is known yet."""
        self.forget(name)
        self.names.add(name)

    def forget(self, name: str) -> None:
        """Drop what a name meant before, unless that was a class."""
        self.names.discard(name)
        for table in (self.functions, self.imported):
            table.pop(name, None)

    def delete(self, name: str) -> None:
        """Note that a name has gone, its class with it."""
        self.forget(name)
        self.classes.pop(name, None)
        self.definitions.pop(name, None)


def read_surface(tree: ast.Module) -> Surface:
    """Read what the top level binds, `:=` and `del` too, in the order of the file.

    What stands under `if TYPE_CHECKING:` or `if __name__ == "__main__":` never runs in a worker.
    """
    surface = Surface()
    for node in module_scope(tree):
        if isinstance(node, ast.ClassDef):
            surface.bind(node.name)
            surface.classes[node.name] = node.lineno
            surface.definitions[node.name] = node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            surface.bind(node.name)
            surface.functions[node.name] = node
            surface.open_ended |= node.name == "__getattr__"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            _read_import(node, surface)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            _read_assignment(node, surface)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            surface.names.add(node.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            surface.delete(node.id)
    return surface


def module_scope(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that are evaluated at import, in order; of functions and classes the head."""
    waiting: list[ast.AST] = [*reversed(tree.body)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(_parts(node))


def _parts(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, _OWN_SCOPE):
        return []
    if isinstance(node, ast.If) and _never_true(node.test):
        return [*node.orelse]
    if isinstance(node, ast.comprehension):
        return [node.iter, *node.ifs]
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return []
    return [*ast.iter_child_nodes(node)]


def _never_true(test: ast.expr) -> bool:
    return is_type_checking(test) or ast.dump(test) in _MAIN_GUARDS


_MAIN_GUARDS = frozenset(
    ast.dump(ast.parse(text, mode="eval").body)
    for text in ("__name__ == '__main__'", "'__main__' == __name__")
)


def _read_import(node: ast.Import | ast.ImportFrom, surface: Surface) -> None:
    for alias in node.names:
        if alias.name == "*":
            surface.open_ended = True
            continue
        bound = alias.asname or alias.name.partition(".")[0]
        surface.bind(bound)
        if isinstance(node, ast.ImportFrom):
            statement = Import(module=node.module or "", level=node.level, line=node.lineno)
            surface.imported[bound] = (statement, alias.name)


def _read_assignment(node: ast.Assign | ast.AnnAssign | ast.NamedExpr, surface: Surface) -> None:
    if node.value is None:
        return
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    value = node.value
    alias = isinstance(value, ast.Name) and value.id in surface.classes
    for leaf in (leaf for target in targets for leaf in ast.walk(target)):
        if not isinstance(leaf, ast.Name) or not isinstance(leaf.ctx, ast.Store):
            continue
        if isinstance(value, ast.Constant):
            surface.delete(leaf.id)
        surface.bind(leaf.id)
        if alias or (isinstance(value, ast.Call) and _makes_class(value)):
            surface.classes[leaf.id] = node.lineno


def _makes_class(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        name = call.func.id
    return (name == "type" and len(call.args) == 3) or (
        name in _CLASS_FACTORIES and bool(call.args) and isinstance(call.args[0], ast.Constant)
    )
