"""What a handler does with a batch, with the first call and with waiting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from makemar.archiver import plan_archive
from makemar.errors import Severity

CLASS = """
class H:
    def initialize(self, context): ...

    def handle(self, data, context):
        {}
"""


def codes(spec) -> list[str]:
    return [finding.code for finding in plan_archive(spec).findings]


FIRST_ONLY = [
    "return [data[0]]",
    "row = data[0]\n        return [row.get('body')]",
    "data = data[0]\n        return [data.get('body'), data]",
    "if not data: return []\n        return [self.model(data[0]['body'])]",
    "return [self.model(data[0])] if len(data) == 1 else None",
]
ALL_ROWS = [
    "return [row['body'] for row in data]",
    "return self.run(data)",
    "first = data[0]\n        return [first] * len(data) + [data]",
    "return [data[i] for i in range(len(data))]",
    "x = data[1]\n        return [x]",
    "return ['pong'] * len(data)",
    "first, *others = data\n        return [data[0], others]",
]


@pytest.mark.parametrize("body", FIRST_ONLY)
def test_a_handler_that_reads_only_the_first_row_is_a_warning(project, body):
    spec = project({"handler.py": CLASS.format(body)})
    (finding,) = plan_archive(spec).findings
    assert (finding.code, finding.severity) == ("first-row-only", Severity.WARNING)
    assert finding.line is not None
    assert finding.line >= 6
    assert "data[0]" in finding.message


@pytest.mark.parametrize("body", ALL_ROWS)
def test_a_handler_that_reads_every_row_is_no_finding(project, body):
    assert codes(project({"handler.py": CLASS.format(body)})) == []


@pytest.mark.parametrize(("size", "expected"), [(1, []), (8, ["first-row-only"])])
def test_reading_the_first_row_is_fine_when_there_is_but_one(project, size, expected):
    files = {"handler.py": CLASS.format("return [data[0]]"), "c.yaml": f"batchSize: {size}\n"}
    assert codes(project(files, config_file=Path("c.yaml"))) == expected


def test_preprocess_and_entry_functions_are_looked_at_too(project):
    files = {
        "handler.py": "from ts.torch_handler.base_handler import BaseHandler\n\n\n"
        "class H(BaseHandler):\n    def preprocess(self, rows):\n        return rows[0]\n",
        "fn.py": "def serve(batch, context):\n    if batch is None: return None\n"
        "    return [batch[0]]\n",
    }
    assert codes(project(files)) == ["first-row-only"]
    assert codes(project(files, handler="fn.py:serve")) == ["first-row-only"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return [row for row in data]", ["initial-none"]),
        ("for row in data: print(row)", ["initial-none"]),
        ("return ['x'] * len(data)", ["initial-none"]),
        ("if data is None: return None\n    return [row for row in data]", []),
        ("return None if data is None else [row for row in data]", []),
        ("return [row for row in data or []]", []),
        ("try: return [row for row in data]\n    except TypeError: return None", []),
        ("data = load(data)\n    return [row for row in data]", []),
        ("return serve(data)", []),
        ("...", []),
    ],
)
def test_an_entry_function_that_fails_over_its_first_call_is_an_error(project, body, expected):
    spec = project({"handler.py": f"def handle(data, context):\n    {body}\n"})
    assert codes(spec) == expected
    assert [f.code for f in plan_archive(spec).errors] == expected


@pytest.mark.parametrize(
    ("handler", "config", "expected"),
    [
        ("async def handle(data, context): ...", "batchSize: 1", ["async-handle"]),
        ("async def handle(data, context): ...", "asyncCommunication: true", []),
        ("def handle(data, context): ...", "asyncCommunication: true", ["async-handle"]),
        (
            CLASS.format("...").replace("    def handle", "    async def handle"),
            "a: 1",
            ["async-handle"],
        ),
        (
            CLASS.format("...").replace("    def handle", "    async def handle"),
            "asyncCommunication: true",
            [],
        ),
    ],
)
def test_waiting_has_to_be_agreed_with_the_server(project, handler, config, expected):
    spec = project({"handler.py": handler, "c.yaml": config}, config_file=Path("c.yaml"))
    assert codes(spec) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def handle(data): ...", ["handler-signature"]),
        ("def handle(data, context, more): ...", ["handler-signature"]),
        ("def handle(data, context, *, more): ...", ["handler-signature"]),
        ("def handle(*rows): ...", []),
        ("def handle(data, context, more=None, *rest, **named): ...", []),
        ("@wrapped\ndef handle(data): ...", []),
        (CLASS.format("...").replace("self, data, context", "self, data"), ["handler-signature"]),
        (CLASS.format("...").replace("self, context", "self"), ["handler-signature"]),
    ],
)
def test_a_function_that_cannot_be_called_as_torchserve_calls_it_is_an_error(
    project, source, expected
):
    assert codes(project({"handler.py": source})) == expected


def test_an_imported_handle_that_beats_the_class_is_a_warning(project):
    source = "from other import handle\n\n\nclass H(Base): ...\n"
    files = {"handler.py": source, "other.py": "def handle(data, context): ...\n"}
    (finding,) = plan_archive(project(files)).findings
    assert (finding.code, finding.line) == ("handle-before-class", 1)


# Handler source → what TorchServe's own loader says to it.
SERVER_SAYS = {
    "def handle(data): ...": "TypeError",
    "def handle(data, context):\n    return [row for row in data]\n": "not iterable",
    "def handle(data, context):\n    if data is None: return None\n    return ['ok']\n": "['ok']",
    "async def handle(data, context): ...": "coroutine",
    CLASS.format("return ['ok']").replace("self, data, context", "self, data"): "TypeError",
    CLASS.format("return ['ok']").replace("self, context", "self"): "TypeError",
    CLASS.format("return ['class']") + "\n\nfrom other import handle\n": "['function']",
}


def test_torchserve_agrees(tmp_path, ask_torchserve):
    folders = []
    for number, source in enumerate(SERVER_SAYS):
        folder = tmp_path / str(number)
        (folder / "MAR-INF").mkdir(parents=True)
        manifest = {"model": {"modelName": "m", "handler": "handler.py"}}
        (folder / "MAR-INF/MANIFEST.json").write_text(json.dumps(manifest))
        (folder / "handler.py").write_text(source)
        (folder / "other.py").write_text("def handle(data, context):\n    return ['function']\n")
        folders.append(folder)
    answers = ask_torchserve(folders)
    for (source, expected), answer in zip(SERVER_SAYS.items(), answers, strict=True):
        assert expected in str(answer), (source, answer)
