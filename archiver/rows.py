"""What a handler does with the rows of a batch, as far as its syntax tells.

TorchServe 0.12: `handle(data, context)` gets a list with one row for each request, and must return
a list as long; an entry function is called once with `None` before that, to initialize it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from makemar.archiver.surface import Function, Surface, read_surface
from makemar.errors import Finding, Severity

__all__ = ["check_rows"]

_STAGES = ("handle", "preprocess")


def check_rows(
    tree: ast.Module, path: Path, name: str, settings: Mapping[str, object]
) -> Iterator[Finding]:
    """Yield what in a handler file does not fit batches, its first call or its way of waiting.

    `name` is the class or function that was named, empty if none was; `settings` are those of the
    `model-config.yaml`.
    """
    surface = read_surface(tree)
    entry = surface.functions.get(name or "handle")
    stages = [*_list_methods(surface, name), *([(entry, 0)] if entry is not None else [])]
    for function, rows in stages:
        if settings.get("batchSize") != 1:
            yield from _check_first_row(function, rows, path)
        if function is entry or function.name == "handle":
            yield from _check_async(function, path, settings)
    if entry is not None and not entry.decorator_list:
        yield from _check_first_call(entry, path)


def _list_methods(surface: Surface, name: str) -> Iterator[tuple[Function, int]]:
    """Yield the methods that get the rows, and the place of the rows among their arguments."""
    for cls in surface.definitions.values():
        if name not in ("", cls.name) and name in surface.definitions:
            continue
        for item in cls.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name in _STAGES:
                static = any(_is_static(decorator) for decorator in item.decorator_list)
                yield item, 0 if static else 1


def _is_static(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "staticmethod"


def _argument(function: Function, index: int) -> str:
    given = [*function.args.posonlyargs, *function.args.args]
    return given[index].arg if index < len(given) else ""


def _check_first_row(function: Function, index: int, path: Path) -> Iterator[Finding]:
    rows = _argument(function, index)
    first, others = _read_uses(function, rows)
    if first and not others:
        yield Finding(
            code="first-row-only",
            severity=Severity.WARNING,
            message=f"{function.name} reads only {rows}[0]: of a batch of several requests the "
            "others get no answer",
            fix=f"make one reply for each of {rows}, or set batchSize: 1 in the model's config",
            path=path,
            line=first,
        )


def _read_uses(function: Function, rows: str) -> tuple[int, bool]:
    """Return the line of the first `rows[0]`, or 0, and whether the rows are used otherwise."""
    first, asked = 0, set[ast.AST]()
    others, renamed = list[int](), list[int]()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and _is_name(node.value, rows):
            if isinstance(node.slice, ast.Constant) and node.slice.value == 0:
                asked.add(node.value)
                first = min(first or node.lineno, node.lineno)
        elif isinstance(node, ast.Call) and _is_name(node.func, "len"):
            asked.update(node.args)
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            asked.add(node.test)
        elif isinstance(node, ast.UnaryOp):
            asked.add(node.operand)
        elif isinstance(node, ast.BoolOp):
            asked.update(node.values)
        elif isinstance(node, ast.Compare):
            asked.update((node.left, *node.comparators))
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == rows and node not in asked:
            (renamed if isinstance(node.ctx, ast.Store) else others).append(node.lineno)
    # After `data = data[0]` the name means the row.
    end = min(renamed, default=None)
    return first, any(end is None or line <= end for line in others)


def _check_first_call(function: Function, path: Path) -> Iterator[Finding]:
    """Find a function that would fail over the `None` of its first call."""
    rows = _argument(function, 0)
    taken = 0
    for node in ast.walk(function):
        if _may_have_thought_of_it(node, function, rows):
            return
        line = getattr(node, "lineno", 0)
        if isinstance(node, (ast.For, ast.comprehension)) and _is_name(node.iter, rows):
            taken = taken or node.iter.lineno
        elif isinstance(node, ast.Subscript) and _is_name(node.value, rows):
            taken = taken or line
        elif isinstance(node, ast.Call) and _is_name(node.func, "len"):
            taken = taken or (line if any(_is_name(a, rows) for a in node.args) else 0)
    if taken:
        yield Finding(
            code="initial-none",
            severity=Severity.ERROR,
            message=f"{function.name} is called once with {rows} = None, to initialize it, and "
            "would fail",
            fix=f"begin with: if {rows} is None: return None",
            path=path,
            line=taken,
        )


def _may_have_thought_of_it(node: ast.AST, function: Function, rows: str) -> bool:
    """Tell what may keep the None from doing harm: a condition, an early end, a new value."""
    if isinstance(node, ast.Return):
        return node is not function.body[-1]
    if isinstance(node, ast.Name):
        return node.id == rows and isinstance(node.ctx, ast.Store)
    return isinstance(node, (ast.Try, ast.If, ast.IfExp, ast.BoolOp, ast.Assert))


def _check_async(
    function: Function, path: Path, settings: Mapping[str, object]
) -> Iterator[Finding]:
    waits = isinstance(function, ast.AsyncFunctionDef)
    awaited = settings.get("asyncCommunication") is True
    if waits == awaited or function.decorator_list:
        return
    message = (
        f"{function.name} is async, and TorchServe does not wait for it"
        if waits
        else f"asyncCommunication makes TorchServe wait for {function.name}, which is not async"
    )
    fix = "write def without async" if waits else "write async def, or leave the setting out"
    yield Finding(
        code="async-handle",
        severity=Severity.ERROR,
        message=message,
        fix=f"{fix}, or set asyncCommunication: true in the model's config" if waits else fix,
        path=path,
        line=function.lineno,
    )


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
