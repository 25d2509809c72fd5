"""Code that is newer than the server's Python is found on whatever Python packs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from makemar.archiver import plan_archive
from makemar.archiver.python_history import NEW_NAMES
from makemar.archiver.target import check_target, parse_target
from makemar.errors import Severity

SERVE = "def handle(data, context): ...\n"
FUTURE = "from __future__ import annotations\n"


def find(source: str, target: tuple[int, int] = (3, 9)) -> list[tuple[str, int | None]]:
    found = check_target(ast.parse(source), Path("h.py"), target)
    return [(finding.message.partition(" needs")[0], finding.line) for finding in found]


NEWER = [
    ("match x:\n    case 1: ...", "a match statement", (3, 10)),
    ("def f(a: int | None): ...", "X | Y as a type at run time", (3, 10)),
    ("def f() -> list[int | None]: ...", "X | Y as a type at run time", (3, 10)),
    ("class A:\n    x: int | None = None", "X | Y as a type at run time", (3, 10)),
    ("isinstance(x, int | str)", "X | Y as a type at run time", (3, 10)),
    ("@dataclass(kw_only=True)\nclass A: ...", "dataclass(kw_only=...)", (3, 10)),
    ("@dataclasses.dataclass(slots=True)\nclass A: ...", "dataclass(slots=...)", (3, 10)),
    ("for a, b in zip(x, y, strict=True): ...", "zip(strict=...)", (3, 10)),
    ("from itertools import pairwise", "itertools.pairwise", (3, 10)),
    ("import itertools as it\nit.pairwise(x)", "itertools.pairwise", (3, 10)),
    ("anext(x)", "anext", (3, 10)),
    ("import tomllib", "the module 'tomllib'", (3, 11)),
    ("def f():\n    from typing import Self", "typing.Self", (3, 11)),
    ("from enum import StrEnum", "enum.StrEnum", (3, 11)),
    ("import datetime\ndatetime.UTC", "datetime.UTC", (3, 11)),
    ("raise ExceptionGroup('x', [])", "ExceptionGroup", (3, 11)),
]
SYNTAX = [
    ((3, 11), "try: ...\nexcept* E: ...", "except*", (3, 11)),
    ((3, 11), "x[*a]", "a starred index", (3, 11)),
    ((3, 11), "def f(*a: *T): ...", "a starred annotation", (3, 11)),
    ((3, 12), "type A = int", "a type statement", (3, 12)),
    ((3, 12), "def f[T](x: T): ...", "a type parameter list", (3, 12)),
    ((3, 12), "class A[T]: ...", "a type parameter list", (3, 12)),
    ((3, 13), "class A[T = int]: ...", "a default of a type parameter", (3, 13)),
    ((3, 14), "t'{x}'", "a t-string", (3, 14)),
]
READABLE = [case[1:] for case in SYNTAX if sys.version_info >= case[0]]


@pytest.mark.parametrize(("source", "what", "since"), NEWER + READABLE)
def test_what_is_newer_is_named_once_and_fine_from_its_version_on(source, what, since):
    before = (since[0], since[1] - 1)
    assert [found for found, _ in find(source, before)][-1:] == [what]
    assert [found for found, _ in find(f"{source}\n{source}", before)].count(what) == 1
    assert find(source, since) == []


@pytest.mark.parametrize(
    "source",
    [
        "(a := 1)",
        "def f(x, /): ...",
        FUTURE + "def f(a: int | None) -> int | None: ...",
        FUTURE + "class A:\n    x: int | None",
        "def f():\n    x: int | None = None",
        "x = a | b",
        "try:\n    import tomllib\nexcept ImportError:\n    import tomli as tomllib",
        "import sys\nif sys.version_info >= (3, 11):\n    import tomllib\nelse:\n    import tomli",
        "if sys.version_info >= (3, 10):\n    pairs = itertools.pairwise(x)",
        "from exceptiongroup import ExceptionGroup\nExceptionGroup('', [])",
        "if TYPE_CHECKING:\n    from typing import Self",
        "from .typing import Self",
        "Self = 1\nself.pairwise()",
    ],
)
def test_what_the_server_can_run_is_no_finding(source):
    assert find(source) == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="older Pythons cannot parse them")
@pytest.mark.parametrize(
    ("source", "newer"),
    [
        ('f"{x["a"]}"', True),
        ("f\"{'\\n'.join(x)}\"", True),
        ('f"""{\n  x  # why\n}"""', True),
        ('f"{f"{x}"}"', True),
        ("f\"{x['a']} \\n\"", False),
        ('f"""{x["a"]}"""', False),
        ("f'{x:>{width}}' 'plain'", False),
    ],
)
def test_an_f_string_of_the_new_grammar_is_found(tmp_path, source, newer):
    path = tmp_path / "h.py"
    path.write_text(source)
    found = [f.message for f in check_target(ast.parse(source), path, (3, 11))]
    assert bool(found) is newer, found
    assert list(check_target(ast.parse(source), path, (3, 12))) == []


@pytest.mark.parametrize(("module", "since"), [("imp", (3, 12)), ("cgi", (3, 13))])
def test_a_module_that_is_gone_from_the_servers_python_is_found(module, since):
    assert find(f"import {module}", (since[0], since[1] - 1)) == []
    (finding,) = check_target(ast.parse(f"import {module}"), Path("h.py"), since)
    assert "is gone since" in finding.message
    guarded = f"try:\n    import {module}\nexcept ImportError: ..."
    assert find(guarded, since) == []


def test_the_table_of_new_names_agrees_with_a_tool_that_knows_all():
    """vermin's rules are the reference; what it does not know is not compared."""
    vermin = pytest.importorskip("vermin")
    rules = vermin.rules.MOD_MEM_REQS(vermin.Config())
    compared = 0
    for (module, name), version in NEW_NAMES.items():
        reference = rules.get(f"{module}.{name}")
        if reference is not None:
            compared += 1
            assert reference[1] == version, (module, name)
    assert compared > len(NEW_NAMES) * 0.8


@pytest.mark.parametrize("text", ["3.8", "3.9", "3.13"])
def test_a_target_is_a_version_of_python_3(text):
    version = parse_target(text)
    assert version is not None
    assert f"{version[0]}.{version[1]}" == text


@pytest.mark.parametrize("text", ["", "3", "3.7", "2.7", "3.9.1", "4.0", "x", "3.٩", "3.999"])
def test_a_target_that_is_none_is_an_error(project, text):
    assert parse_target(text) is None
    assert [f.code for f in plan_archive(project(target_python=text)).errors] == ["target"]


def test_every_packed_file_of_yours_is_looked_at_and_none_of_makemars(project):
    files = {
        "handler.py": "import near\nfrom makemar.handlers import ImageClassifier\n" + SERVE,
        "near.py": "\nimport tomllib\n",
        "tools/late.py": "x: int | None = 1\n",
    }
    plan = plan_archive(project(files, extra_files=("tools",)))
    found = [(f.code, f.path.name, f.line, f.severity) for f in plan.findings if f.path]
    assert sorted(found) == [
        ("target-python", "late.py", 1, Severity.WARNING),
        ("target-python", "near.py", 2, Severity.WARNING),
    ]
    newer = project(files, extra_files=("tools",), target_python="3.11")
    assert plan_archive(newer).findings == ()
