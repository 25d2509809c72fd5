"""Handlers named by module and class: what TorchServe cannot find gets an entry module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat, ArchiveSpec, Include, plan_archive, write_archive
from makemar.archiver.handler import BUILT_IN_HANDLERS, FAMILIES

SERVICE = """
from {base} import Base


class Helper:
    def __init__(self, needed): ...


class {name}(Base):
    WORD = "{name}"
"""
FILES = {
    "pkg/__init__.py": "from .service import Service\n",
    "pkg/base.py": """
from .words import WORDS


class Base:
    def initialize(self, context):
        self.context = context

    def handle(self, data, context):
        return [WORDS[self.WORD] for _ in data]
""",
    "pkg/words.py": "WORDS = {'Service': 'of the package', 'Other': 'the other', 'One': 'one'}\n",
    "pkg/service.py": SERVICE.format(base=".base", name="Service"),
    "pkg/one.py": "from .base import Base\n\n\nclass One(Base):\n    WORD = 'One'\n",
    "pkg/serve.py": "from .words import WORDS\n\n\ndef serve(data, context):\n"
    "    if data is None:\n        return None\n    return [WORDS['One'] for _ in data]\n",
    "pkg/again.py": "from .one import One as Renamed\n",
    "pkg/beside.py": "from .one import One\nfrom .serve import serve as handle\n\n\n"
    "class Two(One):\n    WORD = 'Other'\n",
    "pkg/deleted.py": "from .one import One\n\n\nclass Gone: ...\n\n\nclass Two(One):\n"
    "    WORD = 'Other'\n\n\ndel Gone\n",
    "src/lib/__init__.py": "",
    "src/lib/deep/__init__.py": "",
    "src/lib/deep/h.py": "from ..far import answer\n\n\nclass Helper: ...\n\n\nclass H:\n"
    "    def initialize(self, context): ...\n\n"
    "    def handle(self, data, context):\n        return [answer() for _ in data]\n",
    "src/lib/far.py": "def answer():\n    return 'far'\n",
    "two.py": SERVICE.format(base="pkg.base", name="Service")
    + "\n\nclass Other(Base):\n    WORD = 'Other'\n",
    "my-two.py": SERVICE.format(base="pkg.base", name="Service"),
    "space/mod.py": "class A: ...\n\n\nclass H:\n    def initialize(self, context): ...\n\n"
    "    def handle(self, data, context):\n        return ['space'] * len(data)\n",
    "checked.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    class A: ...\n"
    "else:\n    A = None\n\n\nclass H:\n    def initialize(self, context): ...\n\n"
    "    def handle(self, data, context):\n        return [str(A)] * len(data)\n\n\n"
    "if __name__ == '__main__':\n    class Tried: ...\n",
    "walrus.py": "import pkg.serve\n\n\nclass A: ...\n\n\nclass B: ...\n\n\n"
    "(handle := pkg.serve.serve)\n",
}
# Handler → the one in the manifest, and what the server answers.
HANDLERS = {
    "pkg.service:Service": ("m_entry.py", "of the package"),
    "pkg:Service": ("m_entry.py", "of the package"),
    "pkg/service.py:Service": ("m_entry.py", "of the package"),
    "pkg.again:Renamed": ("m_entry.py", "one"),
    "pkg.beside:Two": ("m_entry.py", "the other"),
    "pkg.one:One": ("pkg.one", "one"),
    "pkg.one": ("pkg.one", "one"),
    "pkg/one.py:One": ("pkg.one", "one"),
    "pkg.serve:serve": ("pkg.serve:serve", "one"),
    "pkg.deleted:Two": ("pkg.deleted", "the other"),
    "src/lib/deep/h.py:H": ("m_entry.py", "far"),
    "two.py:Other": ("m_entry.py", "the other"),
    "two:Service": ("m_entry.py", "of the package"),
    "my-two.py:Service": ("m_entry.py", "of the package"),
    "space.mod:H": ("m_entry.py", "space"),
    "checked.py": ("checked.py", "None"),
    "checked.py:H": ("checked.py", "None"),
    "walrus.py": ("walrus.py", "one"),
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def answers(
    ask_torchserve, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, object]]:
    """Pack every handler as a directory, and let TorchServe's loader answer from each."""
    base = write(tmp_path_factory.mktemp("project"), FILES)
    out = tmp_path_factory.mktemp("out")
    folders, entries = [], []
    for number, handler in enumerate(HANDLERS):
        spec = ArchiveSpec(model_name="m", version="1", handler=handler, base=base)
        plan = plan_archive(spec)
        assert not plan.errors, (handler, plan.errors)
        target = out / str(number)
        folders.append(write_archive(plan, target, archive_format=ArchiveFormat.DIRECTORY))
        entries.append(plan.manifest.handler)
    return dict(zip(HANDLERS, zip(entries, ask_torchserve(folders), strict=True), strict=True))


@pytest.mark.parametrize("handler", HANDLERS)
def test_torchserve_loads_and_calls_every_kind_of_handler(answers, handler):
    entry, reply = HANDLERS[handler]
    assert answers[handler] == (entry, [reply])


def find_entry(spec: ArchiveSpec) -> tuple[str, str]:
    plan = plan_archive(spec)
    assert not plan.errors, plan.errors
    (member,) = [m for m in plan.members if m.name == plan.manifest.handler]
    assert isinstance(member.source, bytes)
    return member.name, member.source.decode()


def test_the_entry_module_is_small_and_readable(project):
    name, source = find_entry(project({"two.py": FILES["two.py"], **pkg()}, handler="two.py:Other"))
    assert name == "pong_entry.py"
    assert "from two import Other as _Handler\n" in source
    assert source.count("\n") < 10
    assert [n.name for n in ast.parse(source).body if isinstance(n, ast.ClassDef)] == ["Service"]
    assert ast.get_docstring(ast.parse(source)) is not None


def pkg() -> dict[str, str]:
    return {name: text for name, text in FILES.items() if name.startswith("pkg/")}


@pytest.mark.parametrize(
    ("model", "taken", "expected"),
    [
        ("my-model.v2", {}, "my_model_v2_entry.py"),
        ("7", {}, "7_entry.py"),
        ("m", {"data/m_entry.py": ""}, "m_entry_.py"),
        ("m", {"data/m_entry/x.txt": "", "data/m_entry_.txt": ""}, "m_entry__.py"),
    ],
)
def test_the_entry_module_takes_no_name_of_yours(project, model, taken, expected):
    files = {**pkg(), **taken}
    extra = ("data",) if taken else ()
    spec = project(files, model_name=model, handler="pkg.service:Service", extra_files=extra)
    assert find_entry(spec)[0] == expected


def test_a_package_keeps_its_tree_and_its_neighbours_stay_out(project):
    plan = plan_archive(project(FILES, handler="src/lib/deep/h.py:H"))
    names = {m.name for m in plan.members if m.origin != "vendored"} - {"MAR-INF/MANIFEST.json"}
    assert names == {
        *("lib/__init__.py", "lib/far.py", "lib/deep/__init__.py", "lib/deep/h.py"),
        "pong_entry.py",
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_of_makemar_is_a_handler_by_its_name(project, family):
    name, source = find_entry(project(handler=f"makemar.{family}"))
    assert f"from makemar.handlers import {FAMILIES[family]} as _Handler" in source
    names = {member.name for member in plan_archive(project(handler=f"makemar.{family}")).members}
    assert f"makemar/handlers/{family}.py" in names
    assert name in names


def test_the_families_are_those_that_makemar_has():
    from makemar import handlers

    public = [name for name in handlers.__all__ if isinstance(getattr(handlers, name), type)]
    ready = {
        name
        for name in public
        if issubclass(getattr(handlers, name), handlers.BaseHandler)
        # Those that do nothing before somebody subclasses them.
        and name not in ("BaseHandler", "PipelineHandler")
    }
    assert set(FAMILIES.values()) == ready


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - set(BUILT_IN_HANDLERS)))
def test_a_family_needs_no_prefix_where_torchserve_has_no_such_name(project, family):
    assert find_entry(project(handler=family)) == find_entry(project(handler=f"makemar.{family}"))


@pytest.mark.parametrize("family", sorted(set(FAMILIES) & set(BUILT_IN_HANDLERS)))
def test_a_name_of_torchserves_keeps_its_meaning(project, family):
    assert plan_archive(project(handler=family)).manifest.handler == family


def test_a_file_of_a_familys_name_is_the_file_as_ever(project):
    files = {"text_embedder.py": "def handle(data, context): ...\n"}
    assert plan_archive(project(files, handler="text_embedder")).manifest.handler == "text_embedder"


def test_a_public_class_of_makemar_may_be_named_in_full(project):
    spec = project(handler="makemar.handlers:TextEmbedder")
    assert find_entry(spec)[1].count("import TextEmbedder as _Handler") == 1


@pytest.mark.parametrize(
    ("handler", "code", "words"),
    [
        ("pkg.nothing:Service", "handler-module", "'pkg.nothing' is not there"),
        ("elsewhere.mod:Service", "handler-module", "write a handler file that subclasses"),
        ("json.tool:Service", "handler-module", "is a module of the worker itself"),
        ("pkg.service:Nope", "missing-function", "there is no function or class 'Nope'"),
        ("pkg.service", "many-handler-classes", "name the one that is meant"),
        ("two.py", "many-handler-classes", "two.py:Other"),
        ("pkg.service:Helper", "handler-constructor", "read them in initialize"),
        ("makemar.text_embeder", "handler", "did you mean 'makemar.text_embedder'?"),
        ("makemar.zebra", "handler", "makemar.image_classifier"),
        (
            "makemar.handlers:TextEmbeder",
            "handler-module",
            "did you mean 'makemar.handlers:TextEmbedder'?",
        ),
        ("image_clasifier", "missing-file", "'image_classifier'"),
        ("image_clasifier", "missing-file", "'makemar.image_classifier'"),
        ("text_embeder", "missing-file", "did you mean makemar's 'text_embedder'?"),
        ("pkg.one:", "handler", "names nothing"),
        ("pkg/base.py", "relative-import", "package.module"),
    ],
)
def test_a_handler_that_is_not_there_is_one_clear_error(project, handler, code, words):
    files = {**pkg(), "two.py": FILES["two.py"]}
    found = [f for f in plan_archive(project(files, handler=handler)).errors if f.code == code]
    assert found, plan_archive(project(files, handler=handler)).errors
    assert words in str(found[0])


def test_a_handler_in_a_package_that_the_spec_includes_is_packed_once(project):
    spec = project(pkg(), handler="pkg.service:Service", include=(Include(source=Path("pkg")),))
    names = [member.name for member in plan_archive(spec).members]
    assert names.count("pkg/service.py") == 1
    assert not plan_archive(spec).errors
