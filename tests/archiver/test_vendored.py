"""An archive carries what its handler needs of makemar, and that imports on its own."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from makemar import handlers
from makemar.archiver.imports import Import, list_imports
from makemar.archiver.vendored import list_own_imports, list_vendored

FAMILIES = sorted(name for name in handlers.__all__ if name.endswith(("Handler", "er", "Activity")))


def vendored(*names, module="makemar.handlers"):
    return list_vendored([Import(module=module, names=names, line=1)])


def test_the_table_of_homes_tells_the_truth():
    assert sorted(handlers._HOMES) == sorted(handlers.__all__)
    for name, home in handlers._HOMES.items():
        kind = getattr(handlers, name)
        assert kind.__module__ == f"makemar.handlers.{home}", name


def test_the_statements_that_are_found_are_those_that_python_parses():
    files = sorted(Path(handlers.__file__).parent.rglob("*.py"))
    assert len(files) > 50
    for file in files:
        text = file.read_text(encoding="utf-8")
        parsed = list_imports(ast.parse(text))
        own = {(i.module, i.names) for i in parsed if i.module.partition(".")[0] == "makemar"}
        assert {(i.module, i.names) for i in list_own_imports(text)} == own, file
        assert all(i.level == 0 for i in parsed), file


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_vendored_imports_where_nothing_else_of_makemar_is(tmp_path, name):
    for member in vendored(name):
        target = tmp_path / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(member.source.read_bytes())
    code = f"""if True:
        import sys
        sys.meta_path = [f for f in sys.meta_path if "editable" not in repr(f)]
        sys.path.insert(0, {str(tmp_path)!r})
        from makemar.handlers import {name}
        import makemar
        assert makemar.__file__.startswith({str(tmp_path)!r}), makemar.__file__
        {name}()
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# The generator brings tokens, streams and sampling on top of what every handler has.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("BaseHandler", 200_000),
        ("ImageClassifier", 215_000),
        ("TextEmbedder", 215_000),
        ("TextGenerator", 240_000),
    ],
)
def test_a_handler_carries_no_more_kilobytes_than_it_needs(name, most):
    assert sum(member.size for member in vendored(name)) < most


def test_other_families_stay_behind():
    names = {member.name for member in vendored("ImageClassifier")}
    assert "makemar/handlers/image_classifier.py" in names
    assert "makemar/handlers/text_generator.py" not in names
    assert "makemar/handlers/testing.py" not in names


def test_a_handler_that_imports_nothing_visibly_still_finds_the_base_class():
    names = {member.name for member in list_vendored([])}
    assert "makemar/handlers/base.py" in names


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("makemar.handlers", ()),
        ("makemar.handlers", ("*",)),
        ("makemar.handlers", ("BaseHandler", "nobody")),
        ("makemar", ("handlers",)),
    ],
)
def test_where_it_cannot_be_told_everything_goes_along(module, names):
    members = {member.name for member in vendored(*names, module=module)}
    assert {"makemar/handlers/text_generator.py", "makemar/handlers/testing.py"} <= members


def test_a_module_can_be_imported_directly():
    names = {member.name for member in vendored("resize", module="makemar.handlers.images")}
    assert "makemar/handlers/images.py" in names
    assert "makemar/handlers/base.py" not in names
