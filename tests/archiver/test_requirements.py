"""What the code imports, compared with what pip is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.archiver import Include, plan_archive
from makemar.archiver.requirements import normalize_name, read_requirements
from makemar.errors import Severity

SERVE = "\ndef handle(data, context): ...\n"


def missing(spec) -> list[tuple[str, int | None]]:
    found = plan_archive(spec).findings
    return [(f.message, f.line) for f in found if f.code == "missing-requirement"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("transformers", {"transformers"}),
        ("Foo_Bar==1.0  # why\n# no\n\nb.c", {"foo-bar", "b-c"}),
        ("a[x, y] >= 1, < 2 ; python_version < '3.9'", {"a"}),
        ("a @ https://example.org/a.zip", {"a"}),
        ("a(>=1.0)", {"a"}),
        ("a==1.0 \\\n  --hash=sha256:00 \\\n  --hash=sha256:11\nb", {"a", "b"}),
        ("a~=1.0;python_version>'3'", {"a"}),
        ("-e git+https://example.org/x/tool.git@main#egg=Tool_Kit", {"tool-kit"}),
        ("git+https://example.org/x/tool.git@main", {"tool"}),
        ("./wheels/foo_bar-1.0-py3-none-any.whl", {"foo-bar"}),
        ("https://example.org/foo-bar-1.0.tar.gz", {"foo-bar"}),
        ("--index-url https://example.org\n--no-deps\na", {"a"}),
        ("\ufeffa", {"a"}),
        ("a===1.0+local", {"a"}),
    ],
)
def test_the_names_are_those_that_pip_would_install(tmp_path, text, names):
    path = tmp_path / "requirements.txt"
    path.write_text(text, encoding="utf-8")
    found = read_requirements(path)
    assert found.names == names
    assert found.findings == []


def test_included_files_are_read_and_constraints_are_not(tmp_path):
    (tmp_path / "requirements.txt").write_text("-r more.txt\n-c limits.txt\na\n-rround.txt\n")
    (tmp_path / "more.txt").write_text("--requirement=requirements.txt\nb\n")
    (tmp_path / "limits.txt").write_text("c==1\n")
    (tmp_path / "round.txt").write_text("d\n-r round.txt\n")
    found = read_requirements(tmp_path / "requirements.txt")
    assert found.names == {"a", "b", "d"}
    assert {name for name, _, _ in found.files} >= {"more.txt", "limits.txt", "round.txt"}


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb = 1\n", 2), ("a 1.0", 1), ("a==", 1), ("!x", 1), ("a > > 1", 1)]
)
def test_a_line_that_pip_cannot_read_is_a_warning(project, text, line):
    spec = project({"r.txt": text}, requirements_file=Path("r.txt"))
    (finding,) = plan_archive(spec).findings
    assert (finding.code, finding.line, finding.severity) == (
        *("requirement-syntax", line),
        Severity.WARNING,
    )


def test_a_file_that_is_no_text_is_a_warning(project):
    spec = project({"r.txt": b"\xff\xfe"}, requirements_file=Path("r.txt"))
    assert [f.code for f in plan_archive(spec).findings] == ["requirement-syntax"]


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any-requirements.txt"
    path.write_text(text.encode(errors="replace").decode(), encoding="utf-8")
    for name in read_requirements(path).names:
        assert normalize_name(name) == name


@pytest.mark.parametrize(
    ("statement", "requirements", "line"),
    [
        ("import transformers", "", "transformers"),
        ("import transformers", "torch\n", "transformers"),
        ("from sklearn import svm", "", "scikit-learn"),
        ("import cv2", "", "opencv-python-headless"),
        ("import google.protobuf.message", "", "protobuf"),
        ("import skimage.io", "", "scikit-image"),
        ("def f():\n    import torchvision", "", "torchvision"),
        ("import near", "", "tokenizers"),
        # Known only because it is installed here.
        ("import yarl, _pytest", "yarl\n", "pytest"),
    ],
)
def test_an_import_that_nothing_brings_is_a_warning_with_the_line_to_add(
    project, statement, requirements, line
):
    files = {"handler.py": statement + SERVE, "near.py": "import tokenizers\n"}
    spec = {}
    if requirements:
        files["r.txt"], spec = requirements, {"requirements_file": Path("r.txt")}
    plan = plan_archive(project(files, **spec))
    (finding,) = plan.findings
    assert (finding.code, finding.severity) == ("missing-requirement", Severity.WARNING)
    assert f"write the line {line!r} into" in finding.fix
    assert "install_py_dep_per_model=true" in finding.fix
    assert finding.line is not None
    assert ("r.txt" if requirements else "no requirements file") in str(finding)


@pytest.mark.parametrize(
    ("statement", "requirements"),
    [
        ("import transformers", "Transformers[torch]>=4"),
        ("import cv2", "opencv-python==4.9.0.80"),
        ("import google.protobuf.message", "protobuf"),
        ("from sklearn import svm", "scikit_learn"),
        ("import foo_bar", "./wheels/foo_bar-1.0-py3-none-any.whl"),
        ("import _pytest", "pytest>=8"),
        ("import onnxruntime", "onnxruntime-gpu"),
    ],
)
def test_an_import_that_a_requirement_brings_is_no_finding(project, statement, requirements):
    files = {"handler.py": statement + SERVE, "r.txt": requirements + "\n"}
    files["wheels/foo_bar-1.0-py3-none-any.whl"] = ""
    spec = project(
        files, requirements_file=Path("r.txt"), include=(Include(source=Path("wheels")),)
    )
    assert plan_archive(spec).findings == ()


@pytest.mark.parametrize(
    "statement",
    [
        "import torch, torch.nn.functional, numpy, PIL.Image, yaml, psutil, packaging.version",
        "import ts.torch_handler, json, sympy, filelock, typing_extensions",
        "from makemar.handlers import BaseHandler",
        "import near",
        "try:\n    import transformers\nexcept ImportError:\n    transformers = None",
        "if TYPE_CHECKING:\n    import transformers",
    ],
)
def test_what_the_server_or_the_archive_has_needs_no_requirement(project, statement):
    files = {"handler.py": statement + SERVE, "near.py": "import os\n"}
    assert plan_archive(project(files)).findings == ()


def test_a_package_is_named_once_however_often_it_is_imported(project):
    files = {
        "handler.py": "import near\nimport transformers\nfrom transformers import x\n" + SERVE,
        "near.py": "import transformers.models\n",
    }
    assert missing(project(files)) == [
        ("import of 'transformers': the archive has no requirements file", 2)
    ]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("./x.whl", ["requirement-file"]),
        ("./wheels/y-1-py3-none-any.whl", []),
        ("-r more.txt", ["requirement-file"]),
        ("-r packed.txt", []),
    ],
)
def test_a_local_file_that_pip_is_told_to_read_has_to_be_packed(project, text, codes):
    files = {"r.txt": f"\n{text}\n", "wheels/y-1-py3-none-any.whl": "", "packed.txt": ""}
    spec = project(
        files,
        requirements_file=Path("r.txt"),
        include=(Include(source=Path("wheels")),),
        extra_files=("packed.txt",),
    )
    found = plan_archive(spec).findings
    assert [finding.code for finding in found] == codes
    assert all(finding.line == 2 for finding in found)
