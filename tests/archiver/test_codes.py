"""Every code that a finding can have is in the registry, and nothing else is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from makemar.archiver import CODES
from makemar.errors import Severity

# Functions of the rooms that make a finding, or an error that becomes one: where the code stands.
_MAKERS = {"Finding", "FatalConfigError", "finding"}


def sources() -> Iterator[Path]:
    for room in ("archiver", "configs"):
        spec = find_spec(f"makemar.{room}")
        assert spec is not None
        assert spec.origin is not None
        yield from sorted(Path(spec.origin).parent.rglob("*.py"))


def makers(trees: dict[Path, ast.Module]) -> set[str]:
    """Names of functions with an argument `code`, which they hand on."""
    return _MAKERS | {
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "code" in [arg.arg for arg in node.args.args]
    }


def used() -> dict[str, str]:
    """Each code that is written out in a call, with its place."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources()}
    names = makers(trees)
    found = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in names:
                written = [k.value for k in node.keywords if k.arg == "code"] or node.args[:1]
                for value in (part for w in written for part in ast.walk(w)):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        found[value.value] = f"{path}:{node.lineno}"
    return found


def written() -> set[str]:
    """Every text in the rooms' source, apart from the registry itself."""
    return {
        node.value
        for path in sources()
        if path.name != "codes.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_that_a_finding_can_have_is_in_the_registry():
    there = used()
    assert len(there) > 60
    assert {code: place for code, place in there.items() if code not in CODES} == {}


def test_the_registry_has_no_code_that_nothing_uses():
    assert set(CODES) - written() == set()


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_described_in_one_line(code):
    info = CODES[code]
    assert code == code.lower()
    assert code.replace("-", "").isalnum()
    assert info.description.endswith(".")
    assert len(info.description) < 90
    assert info.severities
    assert info.severities <= set(Severity)
