"""Local imports are followed without running anything, and packed so that they import."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, Include, plan_archive, write_archive

ONE = "x = 1\n"
SERVE = "def handle(data, context): ...\n"


def packed(spec: ArchiveSpec) -> list[str]:
    """What a plan without errors holds, apart from what every archive holds."""
    plan = plan_archive(spec)
    assert not plan.errors, plan.errors
    every = [member.name for member in plan.members]
    return [name for name in every if not name.startswith(("makemar/", "MAR-INF/"))]


def found(spec: ArchiveSpec) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.line) for finding in plan_archive(spec).findings]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("import helper", ["helper.py"]),
        ("import helper as h, other", ["helper.py", "other.py"]),
        ("from helper import thing", ["helper.py"]),
        ("import pkg", ["pkg/__init__.py"]),
        ("import pkg.a.deep", ["pkg/__init__.py", "pkg/a/__init__.py", "pkg/a/deep.py"]),
        ("from pkg import b", ["pkg/__init__.py", "pkg/b.py", "pkg/c.py"]),
        ("from pkg import ONE", ["pkg/__init__.py"]),
        ("from pkg.a import deep", ["pkg/__init__.py", "pkg/a/__init__.py", "pkg/a/deep.py"]),
        ("from starred import *", ["starred/__init__.py", "starred/one.py"]),
        ("import space.mod", ["space/mod.py"]),
        ("from space import mod", ["space/mod.py"]),
        ("from space.inner import mod", ["space/inner/mod.py"]),
        ("import space", []),
        ("def f():\n    import helper", ["helper.py"]),
        (
            "try:\n    import helper\nexcept ImportError:\n    import other",
            ["helper.py", "other.py"],
        ),
        ("import importlib\nimportlib.import_module('helper')", ["helper.py"]),
        ("__import__('helper')", ["helper.py"]),
        ("if TYPE_CHECKING:\n    import helper\nelse:\n    import other", ["other.py"]),
        ("import chain", ["chain.py", "helper.py", "pkg/__init__.py"]),
        ("import loop_a", ["loop_a.py", "loop_b.py"]),
        ("import native", ["native.so"]),
        ("import torch, os.path, requests, makemar.handlers", []),
    ],
)
def test_imported_modules_go_in_under_their_package_paths(project, statement, expected):
    files = {
        "handler.py": statement + "\n" + SERVE,
        "helper.py": ONE,
        "other.py": ONE,
        "pkg/__init__.py": "ONE = 1\n",
        "pkg/a/__init__.py": "",
        "pkg/a/deep.py": ONE,
        "pkg/b.py": "from .c import x\n",
        "pkg/c.py": ONE,
        "pkg/unused.py": ONE,
        "starred/__init__.py": "__all__ = ['one', 'name']\nname = 1\n",
        "starred/one.py": ONE,
        "starred/two.py": ONE,
        "space/mod.py": ONE,
        "space/inner/mod.py": ONE,
        "chain.py": "import helper\nfrom pkg import ONE\n",
        "loop_a.py": "import loop_b\n",
        "loop_b.py": "import loop_a\n",
        "native.so": b"\x7fELF",
        "makemar.py": ONE,
    }
    assert packed(project(files)) == sorted(["handler.py", *expected])


def test_what_was_traced_imports_from_the_archive_alone(project, tmp_path):
    spec = project(
        {
            "handler.py": "from pkg.a import deep\nimport helper\n" + SERVE,
            "helper.py": "import space.mod\nfrom pkg import b\n",
            "pkg/__init__.py": "",
            "pkg/a/__init__.py": "from ..b import VALUE\n",
            "pkg/a/deep.py": "from . import VALUE\nfrom ..b import VALUE as again\n",
            "pkg/b.py": "VALUE = 7\n",
            "space/mod.py": ONE,
        }
    )
    target = write_archive(plan_archive(spec), tmp_path / "pong.mar")
    with zipfile.ZipFile(target) as archive:
        archive.extractall(tmp_path / "model")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import handler, makemar; print(handler.deep.again, makemar.__file__)",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "model")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["7", str(tmp_path / "model" / "makemar" / "__init__.py")]


def test_nothing_that_is_packed_is_run(project, tmp_path):
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    plan = plan_archive(
        project({"handler.py": trap + "import helper\n" + SERVE, "helper.py": trap})
    )
    write_archive(plan, tmp_path / "pong.mar")
    assert not (tmp_path / "ran").exists()


def test_the_model_file_is_traced_as_well_and_from_its_own_folder(project):
    spec = project(
        {"nets/net.py": "from layers import x\nclass Net: ...\n", "nets/layers.py": ONE},
        model_file=Path("nets/net.py"),
    )
    assert packed(spec) == ["handler.py", "layers.py", "net.py"]


def test_modules_are_found_from_the_projects_folder_too(project):
    spec = project(
        {
            "src/h.py": "from src.pkg import mod\n" + SERVE,
            "src/pkg/mod.py": ONE,
            "src/__init__.py": "",
        },
        handler="src/h.py",
    )
    assert packed(spec) == ["h.py", "src/__init__.py", "src/pkg/mod.py"]


def test_a_file_that_the_spec_names_wins_over_its_namesake_beside_the_handler(project):
    spec = project(
        {
            "handler.py": "import helper\n" + SERVE,
            "helper.py": ONE,
            "build/helper.py": "import late\n",
            "late.py": ONE,
        },
        extra_files=("build/helper.py",),
    )
    assert found(spec) == [("import-replaced", None)]
    sources = {member.name: member.source for member in plan_archive(spec).members}
    assert sources["helper.py"] == spec.base / "build/helper.py"
    assert sources["late.py"] == spec.base / "late.py"


def test_a_package_that_the_spec_includes_is_not_packed_twice(project):
    spec = project(
        {"handler.py": "from pkg import a\n" + SERVE, "pkg/__init__.py": "", "pkg/a.py": ONE},
        include=(Include(source=Path("pkg")),),
    )
    assert packed(spec) == ["handler.py", "pkg/__init__.py", "pkg/a.py"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("from . import helper", [("relative-import", 2)]),
        ("from .helper import x", [("relative-import", 2)]),
        ("try:\n    from .helper import x\nexcept ImportError:\n    from helper import x", []),
        ("try:\n    from .helper import x\nexcept ValueError:\n    pass", [("relative-import", 3)]),
        ("import pkg.nothing", [("missing-module", 2)]),
        ("try:\n    import pkg.nothing\nexcept (OSError, ImportError):\n    pass", []),
        ("from pkg import up", [("relative-import", 1)]),
        ("import queue", [("shadowed-import", 2)]),
        ("import yaml", []),
        ("import broken", [("syntax-error", 2)]),
    ],
)
def test_an_import_that_would_fail_on_the_server_is_found_with_its_line(
    project, statement, expected
):
    spec = project(
        {
            "handler.py": f"\n{statement}\n{SERVE}",
            "helper.py": ONE,
            "pkg/__init__.py": "",
            "pkg/up.py": "from ... import x\n",
            "queue.py": ONE,
            "broken.py": "\ndef f(:\n",
        }
    )
    assert found(spec) == expected
