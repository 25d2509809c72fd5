"""The entry point that TorchServe would find in a handler file, told from its syntax tree.

TorchServe 0.12: if the module has an attribute of the function's name (`handle` if none was
named), that is called; else the module must define exactly one class, made without arguments, with
`initialize` and `handle`. Imported classes do not count, aliases and named tuples do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.surface import Function, Surface, read_surface
from makemar.errors import Finding, Severity

__all__ = ["check_class", "check_function", "check_handler_file", "check_model_file"]

_ENTRY = "TorchServe calls it as"
# The methods that TorchServe calls on the one class, and with what.
_CALLS = {"initialize": ("self", "context"), "handle": ("self", "data", "context")}


def check_handler_file(tree: ast.Module, path: Path, function: str = "") -> tuple[Finding, ...]:
    """Return what would keep TorchServe from finding its entry point in a handler file."""
    surface = read_surface(tree)
    if function and function in surface.classes:
        message = f"{function!r} is a class; TorchServe would call it as a function"
        fix = "leave it out of the handler: the one class of the file is found by itself"
        return (_error("class-as-function", message, fix, path, surface.classes[function]),)
    name = function or "handle"
    if name in surface.names or surface.open_ended:
        return (*check_function(surface, name, path), *_check_imported(surface, name, path))
    if function:
        message = f"there is no function {function!r}; TorchServe would not say so"
        return (_error("missing-function", message, "define it or correct the name", path),)
    if not surface.classes:
        message = "it defines no class and no function 'handle'; imported classes do not count"
        fix = "subclass the imported handler here: class Service(ThatHandler): ..."
        return (_error("no-handler-class", message, fix, path),)
    if len(surface.classes) > 1:
        return (_many_classes(surface, path),)
    return tuple(found for cls in surface.definitions.values() for found in check_class(cls, path))


def check_model_file(
    tree: ast.Module, path: Path, severity: Severity = Severity.ERROR
) -> tuple[Finding, ...]:
    """Return what would keep TorchServe's built-in handlers from finding the network's class."""
    surface = read_surface(tree)
    if surface.open_ended or len(surface.classes) == 1:
        return ()
    message = (
        f"it defines {len(surface.classes)} classes, "
        "and TorchServe's built-in handlers want exactly one in the model file"
    )
    fix = "move the others to a module beside it, or write a handler that picks the class"
    return (
        Finding(code="model-file-classes", severity=severity, message=message, fix=fix, path=path),
    )


def check_class(cls: ast.ClassDef, path: Path) -> Iterator[Finding]:
    """Yield what would keep TorchServe from making an object of a class, and from calling it."""
    methods = {
        item.name: item
        for item in cls.body
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    init = methods.get("__init__")
    if init is not None and _count_required(init.args) > 1:
        message = f"{cls.name}.__init__ has required arguments, and TorchServe passes none"
        yield _error("handler-constructor", message, "read them in initialize", path, init.lineno)
    for name, arguments in _CALLS.items():
        if name in methods:
            yield from _check_call(methods[name], arguments, f"{cls.name}.{name}", path)
    if cls.bases or cls.keywords or cls.decorator_list:
        return
    bound = set(methods) | {
        target.id
        for item in cls.body
        if isinstance(item, ast.Assign)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    for name in _CALLS:
        if name not in bound:
            message = f"class {cls.name} has no method {name!r}, and TorchServe calls it"
            yield _error("handler-method", message, "write it or inherit it", path, cls.lineno)


def check_function(surface: Surface, name: str, path: Path) -> Iterator[Finding]:
    """Yield what would make TorchServe's call of an entry function fail."""
    if (function := surface.functions.get(name)) is not None:
        yield from _check_call(function, ("data", "context"), name, path)


def _check_call(
    function: Function, arguments: tuple[str, ...], name: str, path: Path
) -> Iterator[Finding]:
    if function.decorator_list:
        return
    count = len(arguments)
    given = function.args
    most = len(given.posonlyargs) + len(given.args)
    if _count_required(given) > count or (most < count and given.vararg is None):
        call = f"{name}({', '.join(a for a in arguments if a != 'self')})"
        message = f"{name} has other arguments: {_ENTRY} {call}"
        fix = f"write def {function.name}({', '.join(arguments)})"
        yield _error("handler-signature", message, fix, path, function.lineno)


def _check_imported(surface: Surface, name: str, path: Path) -> Iterator[Finding]:
    """Find a class that nobody will make, since a function was imported beside it."""
    if name not in surface.imported or not surface.classes:
        return
    statement, _ = surface.imported[name]
    message = (
        f"it imports a function {name!r}, so TorchServe calls that and not "
        f"class {', '.join(surface.classes)}"
    )
    yield Finding(
        code="handle-before-class",
        severity=Severity.WARNING,
        message=message,
        fix=f"import it under another name if the class is the handler (import {name} as ...)",
        path=path,
        line=statement.line,
    )


def _many_classes(surface: Surface, path: Path) -> Finding:
    listed = ", ".join(f"{name} (line {line})" for name, line in surface.classes.items())
    message = f"it defines {len(surface.classes)} classes, and TorchServe wants one: {listed}"
    fix = (
        f"name the one that is meant in the handler ({path.name}:{[*surface.classes][-1]}), "
        "move the others to a module beside it, or write `def handle(data, context)`"
    )
    return _error("many-handler-classes", message, fix, path)


def _count_required(arguments: ast.arguments) -> int:
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional + sum(default is None for default in arguments.kw_defaults)


def _error(code: str, message: str, fix: str, path: Path, line: int | None = None) -> Finding:
    return Finding(
        code=code, severity=Severity.ERROR, message=message, fix=fix, path=path, line=line
    )
