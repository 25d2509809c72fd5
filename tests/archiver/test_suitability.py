"""Weights, envelopes and files that the server would not take as they were meant."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest

from makemar.archiver import Include, plan_archive
from makemar.errors import Severity

KSERVE_BATCH = {"c.yaml": "batchSize: 4\n"}
CONFIG = {"config_file": Path("c.yaml")}


def codes(spec) -> list[str]:
    return [finding.code for finding in plan_archive(spec).findings]


def zipped(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, pickle.dumps({}, protocol=2) if name.endswith(".pkl") else b"")
    return stream.getvalue()


SCRIPTED = zipped("m/data.pkl", "m/code/__torch__.py", "m/constants.pkl", "m/version")
STATE = zipped("m/data.pkl", "m/version")


@pytest.mark.parametrize("handler", ["image_classifier", "base_handler"])
@pytest.mark.parametrize(
    ("weights", "contents", "net", "expected"),
    [
        (None, b"", False, ["weights-missing"]),
        (None, b"", True, []),
        ("w.pth", STATE, False, ["weights-format"]),
        ("w.safetensors", b"", False, ["weights-format"]),
        ("w.pt", STATE, False, ["weights-format"]),
        ("w.pt", STATE, True, []),
        ("w.pth", STATE, True, []),
        ("w.pt", SCRIPTED, False, []),
        ("w.onnx", b"", False, []),
    ],
)
def test_torchserves_own_handlers_load_what_their_ending_says(
    project, handler, weights, contents, net, expected
):
    files = {"net.py": "class Net: ...\n", "c.yaml": "batchSize: 1\n"}
    spec = {"handler": handler, "target_envelope": "json"}
    if weights:
        files[weights], spec["serialized_file"] = contents, Path(weights)
    if net:
        spec["model_file"] = Path("net.py")
    plan = plan_archive(project(files, **spec))
    assert [finding.code for finding in plan.findings] == expected
    assert [finding.code for finding in plan.errors] == expected


def test_a_handler_of_your_own_loads_what_it_likes(project):
    spec = project({"w.weights": b"x"}, serialized_file=Path("w.weights"))
    assert codes(spec) == []


class Evil:
    def __reduce__(self):
        return (eval, ("1",))


def test_weights_that_would_run_code_are_an_error_and_are_not_unpickled(project):
    spec = project({"w.pkl": pickle.dumps(Evil())}, extra_files=("w.pkl",))
    (finding,) = plan_archive(spec).errors
    assert finding.code == "unsafe-pickle"
    assert "eval" in finding.message


def test_weights_that_need_unpickling_are_a_warning(project, tmp_path):
    torch = pytest.importorskip("torch")
    base = project().base
    torch.save(torch.nn.Linear(2, 2), base / "whole.pt")
    torch.save(torch.nn.Linear(2, 2).state_dict(), base / "state.pt")
    (finding,) = plan_archive(project(serialized_file=Path("whole.pt"))).findings
    assert (finding.code, finding.severity) == ("pickle-import", Severity.WARNING)
    assert codes(project(serialized_file=Path("state.pt"))) == []


@pytest.mark.parametrize(
    ("envelope", "config", "expected"),
    [
        ("kserve", "batchSize: 4", ["envelope-batch"]),
        ("kservev2", "batchSize: 2", ["envelope-batch"]),
        ("kserve", "batchSize: 1", []),
        ("kserve", "minWorkers: 1\nmaxWorkers: 1", []),
        ("json", "batchSize: 4", []),
        ("body", "batchSize: 4", []),
        ("", "batchSize: 4", []),
        ("kserv", "batchSize: 1", ["envelope"]),
    ],
)
def test_an_envelope_that_reads_one_request_cannot_have_batches(
    project, envelope, config, expected
):
    spec = project({"c.yaml": config}, target_envelope=envelope, **CONFIG)
    assert codes(spec) == expected


@pytest.mark.parametrize(("envelope", "expected"), [("", ["bare-base-handler"]), ("json", [])])
def test_torchserves_base_handler_needs_an_envelope(project, envelope, expected):
    spec = project(
        {"w.pt": SCRIPTED},
        handler="base_handler",
        serialized_file=Path("w.pt"),
        target_envelope=envelope,
    )
    assert codes(spec) == expected


BASE = "from ts.torch_handler.base_handler import BaseHandler\n\n\nclass H(BaseHandler):\n"


@pytest.mark.parametrize(
    ("body", "envelope", "expected"),
    [
        ("    def postprocess(self, x): ...\n", "", ["bare-base-handler"]),
        ("    def postprocess(self, x): ...\n", "body", []),
        ("    def preprocess(self, data): ...\n", "", []),
        ("    def handle(self, data, context): ...\n", "", []),
    ],
)
def test_so_does_a_subclass_that_leaves_the_requests_as_they_come(
    project, body, envelope, expected
):
    assert codes(project({"handler.py": BASE + body}, target_envelope=envelope)) == expected


def test_torchserves_loader_wants_one_class_in_the_model_file_of_a_subclass_too(project):
    handler = "from ts.torch_handler.image_classifier import ImageClassifier\n\n\n"
    files = {"net.py": "class A: ...\n\n\nclass B: ...\n"}
    net = {"model_file": Path("net.py")}
    files["handler.py"] = handler + "class H(ImageClassifier): ...\n"
    (finding,) = plan_archive(project(files, **net)).findings
    assert (finding.code, finding.severity) == ("model-file-classes", Severity.WARNING)
    files["handler.py"] = handler + "class H(ImageClassifier):\n    def initialize(self, c): ...\n"
    assert codes(project(files, **net)) == []


def test_a_program_loses_its_right_to_run(project):
    files = {
        "bin/tool": b"\x7fELF....",
        "bin/run.sh": "#!/bin/sh\n",
        "bin/lib.so": b"\x7fELF....",
        "bin/note.txt": "#!",
        "bin/x.py": "#!/usr/bin/env python\n",
        "bin/photo.jpg": b"\xff\xd8",
    }
    spec = project(files, include=(Include(source=Path("bin")),))
    assert codes(spec) == []
    for name in files:
        (spec.base / name).chmod(0o755)
    (spec.base / "bin/note.txt").chmod(0o644)
    found = plan_archive(spec).findings
    assert [f.code for f in found] == ["executable-member"] * 2
    assert sorted(f.path.name for f in found if f.path) == ["run.sh", "tool"]


def test_an_archive_packed_before_is_not_packed_again_in_silence(project):
    spec = project({"data/old.mar": b"PK"}, include=(Include(source=Path("data")),))
    assert codes(spec) == ["nested-archive"]


def test_the_model_directory_of_a_data_file_is_where_the_code_looks_for_it(project):
    files = {"static/a.json": "{}", "b.json": "{}"}
    wanted = (
        Include(source=Path("static")),
        Include(source=Path("b.json"), destination="x/c.json"),
    )
    names = {member.name for member in plan_archive(project(files, include=wanted)).members}
    assert {"static/a.json", "x/c.json"} < names


DEEP = {
    "a thousand attributes": "x = a" + ".b" * 1000,
    "a thousand calls": "x = a" + "()" * 1000,
    "a thousand terms": "x = a" + " + a" * 3000,
    "a thousand branches": "if a: ...\n" + "elif a: ...\n" * 1000,
    "a long number": "x = " + "9" * 5000,
    "deep brackets": "x = " + "[" * 3000 + "]" * 3000,
    "deep calls": "x = " + "f(" * 90 + ")" * 90,
    "deep indents": "".join(" " * i + "if a:\n" for i in range(90)) + " " * 90 + "pass",
    "a long name": "import " + "a" * 5000,
    "odd imports": "import_module('../../etc/passwd'), __import__('a\\0b'), import_module('a//b')",
}


@pytest.mark.parametrize("what", DEEP)
@pytest.mark.parametrize("role", ["handler", "model_file", "near"])
def test_no_source_is_too_wild_to_be_judged(project, what, role):
    serve = "def handle(data, context): ...\n"
    files = {
        "handler.py": serve + (DEEP[what] if role == "handler" else "import near") + "\n",
        "near.py": (DEEP[what] if role == "near" else "") + "\n",
        "net.py": "class Net: ...\n" + (DEEP[what] if role == "model_file" else "") + "\n",
    }
    plan = plan_archive(project(files, model_file=Path("net.py")))
    assert {finding.code for finding in plan.findings} <= {"syntax-error", "missing-requirement"}
