"""The entry point that TorchServe would find in a handler file, told from its syntax tree.

TorchServe 0.12: if the module has an attribute of the function's name (`handle` if none was
named), that is called; else the module must define exactly one class, made without arguments, with
`initialize` and `handle`. Imported classes do not count, aliases and named tuples do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from makemar.errors import Finding, Severity

__all__ = ["check_handler_file", "check_model_file"]

# Calls that make a class whose __module__ is the caller's.
_CLASS_FACTORIES = frozenset(
    {"Enum", "Flag", "IntEnum", "IntFlag", "NamedTuple", "StrEnum", "TypedDict", "namedtuple"}
)
_FIX_CLASSES = (
    "move the others to a module beside it and import them, or write `def handle(data, context)`"
)


@dataclass(kw_only=True)
class _Surface:
    """What a module's top level binds."""

    names: set[str] = field(default_factory=set)
    classes: dict[str, int] = field(default_factory=dict)
    definitions: dict[str, ast.ClassDef] = field(default_factory=dict)
    # A star import or a module __getattr__ may bind anything.
    open_ended: bool = False


def check_handler_file(tree: ast.Module, path: Path, function: str = "") -> tuple[Finding, ...]:
    """Return what would keep TorchServe from finding its entry point in a handler file."""
    surface = _read_surface(tree)
    if function and function in surface.classes:
        message = f"{function!r} is a class; TorchServe would call it as a function"
        fix = "leave it out of the handler: the one class of the file is found by itself"
        return (_error("class-as-function", message, fix, path, surface.classes[function]),)
    if (function or "handle") in surface.names or surface.open_ended:
        return ()
    if function:
        message = f"there is no function {function!r}; TorchServe would not say so"
        return (_error("missing-function", message, "define it or correct the name", path),)
    if not surface.classes:
        message = "it defines no class and no function 'handle'; imported classes do not count"
        fix = "subclass the imported handler here: class Service(ThatHandler): ..."
        return (_error("no-handler-class", message, fix, path),)
    if len(surface.classes) > 1:
        listed = ", ".join(f"{name} (line {line})" for name, line in surface.classes.items())
        message = f"it defines {len(surface.classes)} classes, and TorchServe wants one: {listed}"
        return (_error("many-handler-classes", message, _FIX_CLASSES, path),)
    return tuple(found for cls in surface.definitions.values() for found in _check_class(cls, path))


def check_model_file(tree: ast.Module, path: Path) -> tuple[Finding, ...]:
    """Return what would keep TorchServe's built-in handlers from finding the network's class."""
    surface = _read_surface(tree)
    if surface.open_ended or len(surface.classes) == 1:
        return ()
    message = (
        f"it defines {len(surface.classes)} classes, "
        "and TorchServe's built-in handlers want exactly one in the model file"
    )
    fix = "move the others to a module beside it, or write a handler that picks the class"
    return (_error("model-file-classes", message, fix, path),)


def _check_class(cls: ast.ClassDef, path: Path) -> Iterator[Finding]:
    methods = {
        item.name: item
        for item in cls.body
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    init = methods.get("__init__")
    if init is not None and _count_required(init.args) > 1:
        message = f"{cls.name}.__init__ has required arguments, and TorchServe passes none"
        yield _error("handler-constructor", message, "read them in initialize", path, init.lineno)
    if cls.bases or cls.keywords or cls.decorator_list:
        return
    bound = set(methods) | {
        target.id
        for item in cls.body
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    for name in ("initialize", "handle"):
        if name not in bound:
            message = f"class {cls.name} has no method {name!r}, and TorchServe calls it"
            yield _error("handler-method", message, "write it or inherit it", path, cls.lineno)


def _count_required(arguments: ast.arguments) -> int:
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional + sum(default is None for default in arguments.kw_defaults)


def _read_surface(tree: ast.Module) -> _Surface:
    surface = _Surface()
    for node in _top_level(tree.body):
        if isinstance(node, ast.ClassDef):
            surface.classes[node.name] = node.lineno
            surface.definitions[node.name] = node
            surface.names.add(node.name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            surface.names.add(node.name)
            surface.open_ended |= node.name == "__getattr__"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            surface.open_ended |= "*" in bound
            surface.names |= bound
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            _read_assignment(node, surface)
    return surface


def _read_assignment(node: ast.Assign | ast.AnnAssign, surface: _Surface) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [leaf.id for t in targets for leaf in ast.walk(t) if isinstance(leaf, ast.Name)]
    surface.names.update(names)
    value = node.value
    alias = isinstance(value, ast.Name) and value.id in surface.classes
    if alias or (isinstance(value, ast.Call) and _makes_class(value)):
        surface.classes.update(dict.fromkeys(names, node.lineno))


def _makes_class(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if isinstance(call.func, ast.Name):
        name = call.func.id
    return (name == "type" and len(call.args) == 3) or (
        name in _CLASS_FACTORIES and bool(call.args) and isinstance(call.args[0], ast.Constant)
    )


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Walk the statements that run at import, through if, try, match, with and loops."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from _top_level(getattr(node, block, []))
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from _top_level(part.body)


def _error(code: str, message: str, fix: str, path: Path, line: int | None = None) -> Finding:
    return Finding(
        code=code, severity=Severity.ERROR, message=message, fix=fix, path=path, line=line
    )
