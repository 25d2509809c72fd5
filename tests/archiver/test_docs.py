"""docs/packing.md promises nothing that no test shows."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "packing.md"
ROWS = [line for line in DOCS.read_text().splitlines() if line.startswith("| ")]
TRAPS = [row for row in ROWS if not row.startswith(("| trap", "| ---"))]


@cache
def definitions(file):
    """What a file of tests defines: functions, and classes with and without their methods."""
    names = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    names |= {item.name, f"{node.name}::{item.name}"}
    return names


def named_tests(row):
    shown_by = row.rstrip(" |").rpartition(" | ")[2]
    for place in shown_by.split("; "):
        file, *names = re.findall(r"`([^`]+)`", place)
        yield file, [re.sub(r"\[.*\]$", "", name) for name in names]


@pytest.mark.parametrize("row", TRAPS, ids=lambda row: row[2:60])
def test_every_test_that_is_named_exists(row):
    found = list(named_tests(row))
    assert found
    for file, names in found:
        assert (ROOT / file).is_file(), file
        assert not set(names) - definitions(file), file


def test_there_are_rows_for_every_part():
    assert len(TRAPS) > 60
