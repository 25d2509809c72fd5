"""Code that runs in newer Pythons than the server's: TorchServe's official images have 3.9.

Told from the syntax tree. A tool that knows all of the library would find more; this one finds the
same on every machine that packs.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.imports import is_version_check, list_imports
from makemar.archiver.python_history import (
    NEW_ARGUMENTS,
    NEW_BUILTINS,
    NEW_MODULES,
    NEW_NAMES,
    OLD_MODULES,
    Version,
)
from makemar.archiver.surface import read_surface
from makemar.errors import Finding, Severity

__all__ = ["DEFAULT_TARGET", "check_target", "parse_target"]

# TorchServe 0.12: what its official images run.
DEFAULT_TARGET = "3.9"
_NODES: dict[str, tuple[Version, str]] = {
    "Match": ((3, 10), "a match statement"),
    "TryStar": ((3, 11), "except*"),
    "TypeAlias": ((3, 12), "a type statement"),
    "TemplateStr": ((3, 14), "a t-string"),
}
_TYPE_CHECKS = frozenset({"isinstance", "issubclass"})
# What is used, where, since when.
_Use = tuple[str, int, Version]


def parse_target(text: str) -> Version | None:
    """Read a version such as 3.9; None if it is none, or older than TorchServe runs in (3.8)."""
    match = re.fullmatch(r"3\.(\d{1,2})", text, re.ASCII)
    return (3, int(match[1])) if match and int(match[1]) >= 8 else None


def check_target(tree: ast.Module, path: Path, target: Version) -> Iterator[Finding]:
    """Yield a warning for each thing in a file that its server's Python has not, once a file."""
    told = set()
    for what, line, version in sorted(_list_uses(tree, path), key=lambda use: use[1]):
        if version > target and what not in told:
            told.add(what)
            since = f"{what} needs Python {_format(version)}"
            yield _warn(since, "write it for the older one", path, line, target)
    for found in list_imports(tree):
        top = found.module.partition(".")[0]
        version = OLD_MODULES.get(top, (4, 0))
        if version <= target and not found.guarded and not found.level:
            gone = f"the module {top!r} is gone since Python {_format(version)}"
            yield _warn(gone, "replace it", path, found.line, target)


def _warn(message: str, advice: str, path: Path, line: int, target: Version) -> Finding:
    version = _format(target)
    return Finding(
        code="target-python",
        severity=Severity.WARNING,
        message=f"{message}; the server's is taken to be {version}",
        fix=f"{advice}, or name the server's Python with target python (--target-python)",
        path=path,
        line=line,
    )


def _format(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _list_uses(tree: ast.Module, path: Path) -> Iterator[_Use]:
    yield from _list_imported(tree)
    future = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    f_string = 0
    for node in _walk(tree):
        yield from _list_syntax(node)
        if not future:
            yield from _list_annotations(node)
        if isinstance(node, ast.Call):
            yield from _list_arguments(node)
        if isinstance(node, ast.JoinedStr):
            f_string = f_string or node.lineno
    # Older ones cannot parse the newer f-strings, so they never get here.
    if f_string and sys.version_info >= (3, 12):
        yield from _list_f_strings(path)


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all nodes but those that ask for Python's version first."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if not is_version_check(node):
            yield node
            waiting += ast.iter_child_nodes(node)


def _list_imported(tree: ast.Module) -> Iterator[_Use]:
    bound: dict[str, str] = {}
    for found in list_imports(tree):
        top = found.module.partition(".")[0]
        if found.level or found.guarded:
            continue
        if top in NEW_MODULES:
            yield f"the module {top!r}", found.line, NEW_MODULES[top]
        for name in found.names:
            if (found.module, name) in NEW_NAMES:
                what = f"{found.module}.{name}"
                yield what, found.line, NEW_NAMES[found.module, name]
    nodes = [*_walk(tree)]
    for node in nodes:
        if isinstance(node, ast.Import):
            bound.update({a.asname or a.name: a.name for a in node.names})
    # A backport, or a class of one's own.
    own = read_surface(tree).names
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            key = (bound.get(node.value.id, ""), node.attr)
            if key in NEW_NAMES:
                yield ".".join(key), node.lineno, NEW_NAMES[key]
        elif isinstance(node, ast.Name) and node.id in NEW_BUILTINS and node.id not in own:
            yield node.id, node.lineno, NEW_BUILTINS[node.id]


def _list_syntax(node: ast.AST) -> Iterator[_Use]:
    line = getattr(node, "lineno", 0)
    kind = type(node).__name__
    if kind in _NODES:
        version, what = _NODES[kind]
        yield what, line, version
    parameters = getattr(node, "type_params", ())
    if parameters and kind != "TypeAlias":
        yield "a type parameter list", line, (3, 12)
    if any(getattr(parameter, "default_value", None) for parameter in parameters):
        yield "a default of a type parameter", line, (3, 13)
    index = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(index, ast.Tuple) and any(isinstance(i, ast.Starred) for i in index.elts):
        yield "a starred index", line, (3, 11)
    if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Starred):
        yield "a starred annotation", line, (3, 11)


def _list_annotations(node: ast.AST) -> Iterator[_Use]:
    """Find `X | Y` among what is evaluated when a function, class or module is made."""
    roots: list[ast.expr | None] = []
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        roots = [node.returns]
    elif isinstance(node, ast.arg):
        roots = [node.annotation]
    elif isinstance(node, (ast.ClassDef, ast.Module)):
        roots = [item.annotation for item in node.body if isinstance(item, ast.AnnAssign)]
    for root in roots:
        for part in ast.walk(root) if root is not None else ():
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
                yield "X | Y as a type at run time", part.lineno, (3, 10)


def _list_arguments(call: ast.Call) -> Iterator[_Use]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else ""
    name = function.id if isinstance(function, ast.Name) else name
    for keyword in call.keywords:
        if (name, keyword.arg or "") in NEW_ARGUMENTS:
            version = NEW_ARGUMENTS[name, keyword.arg or ""]
            yield f"{name}({keyword.arg}=...)", call.lineno, version
    if name in _TYPE_CHECKS and len(call.args) == 2 and _is_union(call.args[1]):
        yield "X | Y as a type at run time", call.lineno, (3, 10)


def _is_union(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _list_f_strings(path: Path) -> Iterator[_Use]:
    """Find f-strings that only the grammar since 3.12 takes: quotes, backslashes, comments in."""
    outer: list[str] = []
    kinds = {getattr(tokenize, name): name for name in ("FSTRING_START", "FSTRING_END")}
    what = "an f-string with its own quotes, a backslash or a comment inside braces"
    try:
        for token in tokenize.tokenize(io.BytesIO(path.read_bytes()).readline):
            kind = kinds.get(token.type, "")
            if kind == "FSTRING_END":
                outer.pop()
            elif outer and _breaks(token, kind, outer[-1]):
                yield what, token.start[0], (3, 12)
            if kind == "FSTRING_START":
                outer.append(token.string.lstrip("rRfFbBuU"))
    except (tokenize.TokenError, SyntaxError):
        return


def _breaks(token: tokenize.TokenInfo, kind: str, quote: str) -> bool:
    if token.type == tokenize.COMMENT:
        return True
    return (token.type == tokenize.STRING or kind == "FSTRING_START") and (
        quote in token.string or "\\" in token.string
    )
