"""The plan: what goes where, and everything that is wrong with it, before a byte is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, Include, plan_archive, write_archive
from makemar.errors import ArchiveError, Severity

TREE = {
    "data/labels.json": "{}",
    "data/sub/more.txt": "more",
    "data/sub/.env": "SECRET=1",
    "data/.gitignore": "*",
    "data/.git/config": "[core]",
    "data/__pycache__/x.pyc": b"\0",
    "data/stale.pyc": b"\0",
}


def members(spec: ArchiveSpec) -> list[str]:
    every = [member.name for member in plan_archive(spec).members]
    return [name for name in every if not name.startswith(("makemar/", "MAR-INF/"))]


def codes(spec: ArchiveSpec) -> list[str]:
    return [finding.code for finding in plan_archive(spec).findings]


def errors(spec: ArchiveSpec) -> list[str]:
    return [finding.code for finding in plan_archive(spec).errors]


def test_the_plan_is_sorted_with_the_manifest_first_and_the_handlers_vendored(project):
    plan = plan_archive(project({"weights.onnx": b"1234"}, serialized_file=Path("weights.onnx")))
    every = [member.name for member in plan.members]
    assert every[0] == "MAR-INF/MANIFEST.json"
    assert every[1:] == sorted(every[1:])
    assert {"makemar/__init__.py", "makemar/py.typed", "makemar/handlers/__init__.py"} < set(every)
    assert not [name for name in every if "__pycache__" in name or name.endswith(".toml")]
    assert plan.findings == ()
    assert plan.manifest.serialized_file == "weights.onnx"
    assert plan.size == sum(member.size for member in plan.members)


def test_vendoring_can_be_left_out(project):
    every = [m.name for m in plan_archive(project(vendor=False)).members]
    assert every == ["MAR-INF/MANIFEST.json", "handler.py"]


def test_a_directory_among_extra_files_puts_its_contents_at_the_root(project):
    spec = project(TREE, extra_files=("data",))
    assert members(spec) == ["handler.py", "labels.json", "sub/more.txt"]


def test_an_included_directory_keeps_its_tree_under_its_own_name(project):
    spec = project(TREE, include=(Include(source=Path("data")),))
    assert members(spec) == ["data/labels.json", "data/sub/more.txt", "handler.py"]


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ("data", "web/static", ["web/static/labels.json", "web/static/sub/more.txt"]),
        ("data", "web/", ["web/labels.json", "web/sub/more.txt"]),
        ("data", ".", ["labels.json", "sub/more.txt"]),
        ("data/sub/../../data", None, ["data/labels.json", "data/sub/more.txt"]),
        ("data/sub", None, ["sub/more.txt"]),
        ("data/sub/..", None, ["data/labels.json", "data/sub/more.txt"]),
        ("data/labels.json", None, ["labels.json"]),
        ("data/labels.json", "names.json", ["names.json"]),
        ("data/labels.json", "web/", ["web/labels.json"]),
        ("data/labels.json", ".", ["labels.json"]),
        ("data/sub/.env", None, [".env"]),
    ],
)
def test_an_include_goes_where_its_destination_says(project, source, destination, expected):
    spec = project(TREE, include=(Include(source=Path(source), destination=destination),))
    assert sorted(set(members(spec)) - {"handler.py"}) == expected


def test_only_a_hidden_file_that_somebody_might_miss_is_worth_a_warning(project):
    (finding,) = plan_archive(project(TREE, extra_files=("data",))).findings
    assert finding.code == "hidden-file"
    assert finding.severity is Severity.WARNING
    assert finding.path is not None
    assert finding.path.name == ".env"


def test_globs_are_those_of_the_old_scripts(project):
    files = {"a1.txt": "", "a2.txt": "", "x/deep/b.txt": "", "x/c.txt": "", "[1].txt": ""}
    assert members(project(files, extra_files=("a*.txt",))) == ["a1.txt", "a2.txt", "handler.py"]
    # Not recursive, and of the folders that match the contents go to the root.
    assert members(project(files, extra_files=("x/**",))) == ["b.txt", "c.txt", "handler.py"]
    assert members(project(files, extra_files=("[1].txt",))) == ["[1].txt", "handler.py"]
    assert codes(project(files, extra_files=("z*.txt",))) == ["empty-glob"]


def test_a_package_that_is_flattened_is_a_warning_that_names_include(project):
    spec = project({"pkg/__init__.py": "", "pkg/mod.py": ""}, extra_files=("pkg",))
    (finding,) = plan_archive(spec).findings
    assert (finding.code, finding.severity) == ("flattened-package", Severity.WARNING)
    assert "include (--include pkg)" in finding.fix
    assert members(spec) == ["__init__.py", "handler.py", "mod.py"]


@pytest.mark.parametrize(
    "spec",
    [
        {"extra_files": ("one/labels.json", "two/labels.json")},
        {"extra_files": ("one", "two/labels.json")},
        {"extra_files": ("one",), "include": (Include(source=Path("two/labels.json")),)},
        {"extra_files": ("other/handler.py",)},
        {"config_file": Path("one/labels.json"), "serialized_file": Path("two/labels.json")},
        {
            "include": (Include(source=Path("one"), destination="makemar"),),
            "extra_files": ("clash",),
        },
        {"include": (Include(source=Path("one/labels.json"), destination="makemar/handlers"),)},
        {"include": (Include(source=Path("one/labels.json"), destination="makemar/__init__.py"),)},
    ],
)
def test_two_members_of_one_name_are_an_error_that_names_both_sources(project, spec):
    files = {
        "one/labels.json": '{"a": 1}',
        "two/labels.json": '{"a": 1}',
        "other/handler.py": "",
        "clash/makemar/labels.json": "",
    }
    found = plan_archive(project(files, **spec)).errors
    assert {finding.code for finding in found} == {"duplicate-member"}
    for finding in found:
        assert finding.message.count(", from ") == 2


def test_one_file_that_is_named_twice_is_one_member(project):
    files = {"labels.json": "{}"}
    spec = project(files, extra_files=("labels.json", "*.json", "./labels.json", "handler.py"))
    assert codes(spec) == []
    assert members(spec) == ["handler.py", "labels.json"]


@pytest.mark.parametrize(
    ("spec", "flag", "hint"),
    [
        ({"handler": "handlr.py"}, "--handler", "did you mean 'handler.py'?"),
        (
            {"handler": "image_clasifier"},
            "--handler",
            "did you mean TorchServe's 'image_classifier'",
        ),
        ({"model_file": Path("nope.py")}, "--model-file", ""),
        ({"serialized_file": Path("weights.pt")}, "--serialized-file", "mean 'weights.pth'?"),
        ({"requirements_file": Path("nope.txt")}, "--requirements-file", ""),
        ({"config_file": Path("nope.yaml")}, "--config-file", ""),
        ({"extra_files": ("nope.txt",)}, "extra 'nope.txt' (--extra-files)", ""),
        ({"include": (Include(source=Path("nope")),)}, "include 'nope' (--include)", ""),
    ],
)
def test_a_missing_file_is_an_error_that_names_its_flag(project, spec, flag, hint):
    (finding,) = plan_archive(project({"weights.pth": b""}, **spec)).errors
    assert finding.code == "missing-file"
    assert flag in finding.message
    assert hint in finding.fix
    assert finding.path is not None


def test_a_folder_where_a_file_belongs_is_an_error(project):
    assert errors(project({"w/x": ""}, serialized_file=Path("w"))) == ["not-a-file"]


def test_links_are_followed_but_not_in_circles_and_not_into_nothing(project):
    spec = project({"data/a.txt": "a", "far/b.txt": "b"}, include=(Include(source=Path("data")),))
    (spec.base / "data/linked").symlink_to(spec.base / "far")
    assert members(spec) == ["data/a.txt", "data/linked/b.txt", "handler.py"]
    (spec.base / "far/back").symlink_to(spec.base / "data")
    (spec.base / "data/gone").symlink_to("nowhere")
    os.mkfifo(spec.base / "data/pipe")
    assert errors(spec) == ["not-a-file", "not-a-file", "not-a-file"]


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"model_name": ""}, "model-name"),
        ({"model_name": "my model"}, "model-name"),
        ({"model_name": "_x"}, "model-name"),
        ({"model_name": "x\n"}, "model-name"),
        ({"model_name": "a/b"}, "model-name"),
        ({"model_name": "a..b"}, "model-name"),
        ({"model_name": "a."}, "model-name"),
        ({"model_name": "a\0"}, "model-name"),
        ({"version": ""}, "version"),
        ({"version": "."}, "version"),
        ({"version": ".."}, "version"),
        ({"version": "1\0"}, "version"),
        ({"version": "1\x7f"}, "version"),
        ({"version": "1\u00a0"}, "version"),
        ({"version": "\ud800"}, "version"),
        ({"version": "all"}, "version"),
        ({"version": "1/2"}, "version"),
        ({"version": "1 2"}, "version"),
        ({"version": "1\n"}, "version"),
        ({"runtime": "java"}, "runtime"),
        ({"handler": ""}, "handler"),
    ],
)
def test_a_name_that_the_server_could_not_live_with_is_an_error(project, spec, code):
    assert errors(project(**spec)) == [code]


@pytest.mark.parametrize("name", ["m", "My-model.v2_x", "0"])
@pytest.mark.parametrize("version", ["1.0", "1.0.3-beta+x", "latest", "every", "...", "1..2"])
def test_ordinary_names_and_versions_pass(project, name, version):
    assert codes(project(model_name=name, version=version)) == []


def test_python3_is_a_warning(project):
    assert codes(project(runtime="python3")) == ["runtime-python3"]
    assert errors(project(runtime="python3")) == []


def test_the_cpp_backend_is_a_warning(project):
    spec = project({"libh.so": b"\x7fELF"}, runtime="LSP", handler="libh:H")
    assert codes(spec) == ["runtime-lsp"]
    assert errors(spec) == []


SHADOWS = [
    "yaml.py",
    "json.py",
    "types.py",
    "logging.so",
    "distutils.py",
    "numpy.cpython-311-x86_64-linux-gnu.so",
    "ts/__init__.py",
    "torch/__init__.py",
    "queue/__init__.py",
]


@pytest.mark.parametrize("name", SHADOWS)
def test_a_member_that_shadows_what_the_worker_imports_is_an_error(project, name):
    spec = project({f"tree/{name}": ""}, extra_files=("tree",))
    (finding,) = plan_archive(spec).errors
    assert finding.code == "shadowed-module"
    assert repr(name) in finding.message


@pytest.mark.parametrize(
    "name",
    ["requests/__init__.py", "json/data.txt", "json/mod.py", "pkg/json.py", "json.txt", "test.py"],
)
def test_a_name_that_shadows_nothing_the_worker_needs_passes(project, name):
    assert codes(project({f"tree/{name}": ""}, extra_files=("tree",))) == []


@pytest.mark.parametrize("handler", ["json.py", "numpy.py"])
def test_a_handler_named_like_a_module_of_the_worker_is_an_error(project, handler):
    files = {handler: "def handle(data, context): ..."}
    assert errors(project(files, handler=handler)) == ["shadowed-module"]


def test_a_handler_with_a_dot_in_its_name_is_an_error(project):
    files = {"my.handler.py": "def handle(data, context): ..."}
    assert errors(project(files, handler="my.handler.py")) == ["handler-name"]


def test_a_file_that_beats_the_built_in_handler_of_its_name_is_a_warning(project):
    spec = project(
        {"image_classifier.py": ""},
        handler="image_classifier",
        extra_files=("image_classifier.py",),
    )
    assert codes(spec) == ["shadowed-handler"]


@pytest.mark.parametrize(
    ("source", "line"), [("x = (\n", 1), ("\n\ndef f(:\n", 3), (b"\xff = 1\n", 1), ("a\0b", None)]
)
@pytest.mark.parametrize("role", ["handler", "model_file"])
def test_a_syntax_error_is_found_with_its_line(project, source, line, role):
    spec = {"handler": "bad.py"} if role == "handler" else {"model_file": Path("bad.py")}
    (finding,) = plan_archive(project({"bad.py": source}, **spec)).errors
    assert (finding.code, finding.line) == ("syntax-error", line)
    assert finding.path is not None
    assert finding.path.name == "bad.py"


def test_a_doubtful_escape_in_a_handler_is_no_finding(project):
    assert codes(project({"handler.py": 'P = "\\d"\ndef handle(data, context): ...\n'})) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def handle(data, context): ...", []),
        ("class A(B): ...\nclass C: ...", ["many-handler-classes"]),
        ("x = 1", ["no-handler-class"]),
    ],
)
def test_the_entry_point_of_the_handler_is_checked(project, source, expected):
    assert errors(project({"handler.py": source})) == expected


def test_every_file_is_parsed_once(project, monkeypatch):
    read = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or real(path))
    files = {
        "handler.py": "from pkg import *\nimport net\ndef handle(data, context): ...\n",
        "net.py": "import pkg.a\nclass Net: ...\n",
        "pkg/__init__.py": "__all__ = ['a']\nfrom pkg import *\n",
        "pkg/a.py": "",
        "c.yaml": "batchSize: 2\n",
    }
    spec = project(files, model_file=Path("net.py"), config_file=Path("c.yaml"))
    assert codes(spec) == []
    assert sorted(read) == ["__init__.py", "a.py", "c.yaml", "handler.py", "net.py"]


def test_built_in_handlers_have_their_model_file_checked(project):
    files = {"net.py": "class A: ...\nclass B: ..."}
    spec = {"model_file": Path("net.py")}
    assert errors(project(files, **spec)) == []
    assert errors(project(files, handler="image_classifier", **spec)) == ["model-file-classes"]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "config-empty", None),
        ("# only a comment\n", "config-empty", None),
        ("- a\n", "config-mapping", 1),
        ("words\n", "config-mapping", 1),
        ("1: 2\n", "config-key", None),
        ("a: 1\nb: [\n", "config-syntax", 3),
        ("a: !!python/object:os.system {}\n", "config-syntax", 1),
        (b"\xff\xff", "config-syntax", None),
        ("a: " + "[" * 10_000, "config-syntax", None),
        ("a: 1\n".encode("utf-16"), "config-syntax", None),
        ("a: !!bool x\n", "config-syntax", None),
        ("x: 1\nparallelType: tp\n", "config-clash", 2),
    ],
)
def test_a_config_that_breaks_the_server_is_an_error(project, text, code, line):
    (finding,) = plan_archive(project({"c.yaml": text}, config_file=Path("c.yaml"))).errors
    assert (finding.code, finding.line) == (code, line)


def test_every_fault_of_a_config_is_told_at_once(project):
    spec = project({"c.yaml": "batch_size: 8\nuseVenv: 1\n"}, config_file=Path("c.yaml"))
    assert codes(spec) == ["config-ignored", "config-ignored"]


def test_a_config_key_that_the_server_ignores_is_a_warning(project):
    spec = project(
        {"c.yaml": "minWorkers: 1\nmaxWorkers: 1\nbatch_size: 8\n"}, config_file=Path("c.yaml")
    )
    (finding,) = plan_archive(spec).findings
    assert (finding.code, finding.line) == ("config-ignored", 3)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("destination", ["../up.txt", "/etc/x", "a/../b", "a//b", "a\\b"])
def test_a_member_cannot_leave_the_archive(project, destination):
    spec = project({"a.txt": ""}, include=(Include(source=Path("a.txt"), destination=destination),))
    assert "member-name" in errors(spec)


def test_the_folder_of_the_manifest_is_makemars_own(project):
    spec = project({"old/MAR-INF/MANIFEST.json": "{}"}, extra_files=("old",))
    assert errors(spec) == ["member-name"]


@pytest.mark.parametrize("name", [b"a\nb", b"a\xff"])
def test_a_name_that_nobody_could_read_is_an_error(project, name):
    spec = project({"tree/a": ""}, extra_files=("tree",))
    Path(os.fsdecode(os.path.join(os.fsencode(spec.base), b"tree", name))).touch()  # noqa: PTH118
    assert errors(spec) == ["member-name"]


def test_names_that_a_server_in_the_c_locale_refuses_are_one_warning(project):
    spec = project({"tree/größe.txt": "", "tree/π.txt": ""}, extra_files=("tree",))
    (finding,) = plan_archive(spec).findings
    assert (finding.code, finding.severity) == ("non-ascii-name", Severity.WARNING)
    assert "'größe.txt' and 1 more names are" in finding.message


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_written(project, tmp_path):
    spec = project({"handler.py": "x = 1"}, version="all", serialized_file=Path("nope.pth"))
    plan = plan_archive(spec)
    assert {f.code for f in plan.errors} == {"version", "missing-file", "no-handler-class"}
    with pytest.raises(ArchiveError, match=r"not packed: .* \(and 2 more\)") as caught:
        write_archive(plan, tmp_path / "m.mar")
    assert caught.value.findings == plan.errors
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "m.mar").exists()


def test_a_file_that_may_not_be_read_is_one_clear_line(project, monkeypatch):
    spec = project({"secret/a.txt": ""}, extra_files=("secret",))
    real = os.scandir

    def refuse(path):
        # The tests may run as root, whom no mode stops.
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ArchiveError, match="secret: Permission denied"):
        plan_archive(spec)


def test_planning_and_writing_never_import_torch(project, tmp_path):
    spec = project(
        {
            "handler.py": "import torch\nfrom makemar.handlers import BaseHandler\n"
            "class H(BaseHandler): ...\n"
        }
    )
    code = f"""
import sys
from pathlib import Path
from makemar.archiver import ArchiveSpec, plan_archive, write_archive
spec = ArchiveSpec(model_name="m", version="1", handler="handler.py", base=Path({str(spec.base)!r}))
write_archive(plan_archive(spec), Path({str(tmp_path / "m.mar")!r}))
print([name for name in ("torch", "numpy", "ts", "makemar.handlers") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
