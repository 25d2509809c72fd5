"""Handlers by name and by file, and the entry point that TorchServe would find in one."""

import ast
from pathlib import Path

import pytest

from makemar.archiver.entry import check_handler_file, check_model_file
from makemar.archiver.handler import BUILT_IN_HANDLERS, Handler, resolve_handler
from makemar.errors import ArchiveError


@pytest.mark.parametrize(
    ("text", "entry", "file", "function"),
    [
        ("handler.py", "handler.py", "handler.py", ""),
        ("handler", "handler", "handler.py", ""),
        ("src/my-handler.py", "my-handler.py", "src/my-handler.py", ""),
        ("src/handler", "handler", "src/handler.py", ""),
        ("src/handler:serve", "handler:serve", "src/handler.py", "serve"),
        ("/x/handler.py:serve", "handler.py:serve", "/x/handler.py", "serve"),
    ],
)
def test_a_handler_file_is_named_from_the_archives_root(text, entry, file, function):
    assert resolve_handler(text) == Handler(entry=entry, file=Path(file), name=function)


@pytest.mark.parametrize("name", BUILT_IN_HANDLERS)
def test_a_built_in_handler_needs_no_file(name):
    assert resolve_handler(name) == Handler(entry=name)
    assert resolve_handler(f"{name}.py").file == Path(f"{name}.py")


def test_the_cpp_backend_takes_shared_libraries():
    assert resolve_handler("BaseHandler", "LSP") == Handler(entry="BaseHandler", python=False)
    found = resolve_handler("build/libh:H", "LSP")
    assert found == Handler(entry="libh:H", file=Path("build/libh.so"), name="H", python=False)


@pytest.mark.parametrize("text", ["", "src/", ":f", "handler.py:"])
def test_a_handler_that_names_nothing_is_refused(text):
    with pytest.raises(ArchiveError, match="names nothing"):
        resolve_handler(text)


CLASS = "class {0}:\n    def initialize(self, c): ...\n    def handle(self, d, c): ...\n"


@pytest.mark.parametrize(
    ("source", "function", "expected"),
    [
        ("def handle(data, context): ...", "", []),
        ("from service import handle", "", []),
        ("handle = make()", "", []),
        ("if True:\n    def handle(d, c): ...", "", []),
        ("match x:\n    case 1:\n        def handle(d, c): ...", "", []),
        ("from service import *", "", []),
        ("def __getattr__(name): ...", "", []),
        (CLASS.format("A"), "", []),
        ("class A(Base): ...", "", []),
        ("from base import Base\nclass A(Base): ...", "", []),
        ("def serve(d, c): ...", "serve", []),
        ("class A(Base): ...\ndef serve(d, c): ...", "serve", []),
        ("from base import Base", "", ["no-handler-class"]),
        ("", "", ["no-handler-class"]),
        ("def f():\n    class A(Base): ...", "", ["no-handler-class"]),
        ("class A(Base): ...\nclass B: ...", "", ["many-handler-classes"]),
        ("try:\n    class A(Base): ...\nexcept E:\n    class B: ...", "", ["many-handler-classes"]),
        ("if x:\n    class A(Base): ...\nelse:\n    class A(Other): ...", "", []),
        ("class A(Base): ...\nService = A", "", ["many-handler-classes"]),
        ("class A(Base): ...\nP = namedtuple('P', 'x y')", "", ["many-handler-classes"]),
        ("class A(Base): ...\nC = enum.Enum('C', 'RED')", "", ["many-handler-classes"]),
        ("class A(Base): ...\nkind = type(A)", "", []),
        ("A = type('A', (Base,), {})", "", []),
        ("class A(Base): ...\nx: int", "", []),
        ("class A(Base): ...", "A", ["class-as-function"]),
        ("class A(Base): ...", "nope", ["missing-function"]),
        ("class A(Base):\n    def __init__(self, x): ...", "", ["handler-constructor"]),
        ("class A(Base):\n    def __init__(self, *, x): ...", "", ["handler-constructor"]),
        ("class A(Base):\n    def __init__(self, x=1, *a, y=2, **k): ...", "", []),
        ("class A:\n    def handle(self, d, c): ...", "", ["handler-method"]),
        ("class A: ...", "", ["handler-method", "handler-method"]),
        ("class A:\n    handle = f\n    initialize = g", "", []),
    ],
)
def test_the_entry_point_is_the_one_torchserve_would_take(source, function, expected):
    path = Path("handler.py")
    found = check_handler_file(ast.parse(source), path, function)
    assert [finding.code for finding in found] == expected
    assert all(finding.path == path and finding.fix for finding in found)


def test_too_many_classes_are_all_named_with_their_lines():
    source = "class A(Base): ...\n\nclass B(Base): ...\n"
    (found,) = check_handler_file(ast.parse(source), Path("handler.py"))
    assert "A (line 1), B (line 3)" in found.message


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class Net(Module): ...", []),
        ("from nets import *", []),
        ("class Block(Module): ...\nclass Net(Module): ...", ["model-file-classes"]),
        ("def net(): ...", ["model-file-classes"]),
    ],
)
def test_built_in_handlers_want_one_class_in_the_model_file(source, expected):
    found = check_model_file(ast.parse(source), Path("net.py"))
    assert [finding.code for finding in found] == expected
