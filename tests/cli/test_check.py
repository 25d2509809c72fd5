"""`make-mar check`, with real workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")
QUIET = {"OMP_NUM_THREADS": "1"}
# Every request is its own matter.
GOOD = """\
import json
import os


class Adder:
    def initialize(self, context):
        self.bias = float(os.environ.get("BIAS", "0"))

    def handle(self, data, context):
        return [self.answer(row["body"], index, context) for index, row in enumerate(data)]

    def answer(self, body, index, context):
        if isinstance(body, list):
            return json.dumps({"sum": sum(float(number) for number in body) + self.bias})
        context.set_response_status(400, "Bad Request", index)
        return json.dumps({"message": "not a list of numbers"})
"""


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[str, ...]:
    """The flags that name two inputs."""
    (tmp_path / "a.json").write_text("[1, 2.5]")
    (tmp_path / "b.json").write_text("[3]")
    return "-i", str(tmp_path / "a.json"), "--input", str(tmp_path / "b.json")


@pytest.fixture
def archive(make_mar, model: Path) -> Path:
    """An archive that is right, with batches of up to four."""
    (model / "handler.py").write_text(GOOD)
    (model / "conf.yaml").write_text("batchSize: 4\nmaxBatchDelay: 50\n")
    done = make_mar(*FLAGS, "--config-file", "conf.yaml", "--no-vendor", cwd=model)
    assert done.code == 0, done
    return model / "echo.mar"


@pytest.mark.server
def test_a_right_archive_gets_tables_and_exit_0(make_mar, archive: Path, inputs) -> None:
    done = make_mar("check", archive, *inputs, env=QUIET | {"PATH": "/nowhere"})  # no Java
    assert (done.code, done.err) == (0, "")
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert lines[0][0].endswith("echo 1.0, batch size 4, tolerance 0.0001")
    assert ["batch size", "T(B) ms", "ms each"] in lines
    assert [line[0] for line in lines if len(line) == 3][1:] == ["1", "2", "4"]
    verdicts = dict(line for line in lines if len(line) == 2)
    assert verdicts["batch changes no answer"] == "held"
    assert verdicts["bad input fails alone"] == "held"
    assert verdicts["answers are the golden ones"] == "not looked at"
    assert float(verdicts["start (Python, TorchServe, torch)"]) > 0


@pytest.mark.server
def test_a_broken_contract_is_a_line_on_stderr_and_exit_1(make_mar, model: Path, inputs) -> None:
    # This one tells each client how many others there are.
    assert make_mar(*FLAGS, "--no-vendor", cwd=model).code == 0
    done = make_mar("check", model / "echo.mar", *inputs, "--batch-size", "2", "--json", env=QUIET)
    assert done.code == 1
    assert done.data["ok"] is False
    assert done.data["contracts"]["invariance"] is False
    assert done.data["batch_sizes"] == [1, 2]
    breach = done.data["breaches"][0]
    assert breach["input"] == inputs[1]
    assert (breach["batch_size"], breach["place"]) == (2, 0)
    first = done.err.splitlines()[0]
    assert first == f"make-mar: {breach['text']}"
    assert f"{inputs[1]}: in a batch of 2 at place 0: $.batch is 2 instead of 1" in first


@pytest.mark.server
def test_golden_answers_are_stored_and_compared(make_mar, archive: Path, inputs) -> None:
    golden = archive.parent / "golden"
    options = (*inputs, "--golden", golden, "--batch-size", "1")
    stored = make_mar("check", archive, *options, "--update", env=QUIET)
    assert stored.code == 0, stored
    written = json.loads((golden / "a.json.golden.json").read_text())
    assert written == {"status": 200, "json": {"sum": 3.5}}
    assert str(golden / "b.json.golden.json") in stored.out

    changed = make_mar("check", archive, *options, "--env", "BIAS=1", env=QUIET)
    assert changed.code == 1
    assert f"{inputs[1]}: alone: $.sum is 4.5 instead of 3.5" in changed.err

    forgiven = make_mar(
        "check", archive, *options, "--env", "BIAS", "--tolerance", "0.5", env=QUIET | {"BIAS": "1"}
    )
    assert forgiven.code == 0, forgiven


@pytest.mark.server
def test_a_model_that_does_not_load_is_one_line(make_mar, model: Path, inputs) -> None:
    with (model / "words.py").open("a") as stream:
        stream.write("raise LookupError('no words')\n")
    assert make_mar(*FLAGS, "--no-vendor", cwd=model).code == 0
    done = make_mar("check", model / "echo.mar", *inputs, env=QUIET)
    done.assert_failed("LookupError: no words (words.py line 2")


def test_what_was_given_wrong_is_one_line(make_mar, archive: Path, inputs, tmp_path: Path) -> None:
    make_mar("check", archive).assert_failed("--input", code=2)
    make_mar("check", archive, *inputs, "--update").assert_failed("--golden", code=2)
    make_mar("check", archive, *inputs, "--env", "NOBODY").assert_failed("NOBODY", code=2)
    make_mar("check", archive, "-i", tmp_path / "none.png").assert_failed("none.png")
    make_mar("check", tmp_path / "no.mar", *inputs).assert_failed("no.mar")


@pytest.mark.server
def test_a_real_model_keeps_its_promises_with_real_photographs(make_mar, mobilenet: Path) -> None:
    packed = make_mar(
        *("--model-name", "mobilenet", "--version", "1.0", "--handler", "handler.py"),
        *("--model-file", "network.py", "--serialized-file", "mobilenet_v2.pth"),
        *("--extra-files", "index_to_name.json", "--export-path", mobilenet),
        "--force",
        cwd=mobilenet,
    )
    assert packed.code == 0, packed
    photographs = ("-i", "chelsea.png", "-i", "coffee.png")
    done = make_mar(
        "check", "mobilenet.mar", *photographs, "--batch-size", "4", "--json", cwd=mobilenet,
        env=QUIET,
    )  # fmt: skip
    assert done.code == 0, done
    assert done.data["cold_start"]["warm_up_ms"] > 0
    assert set(done.data["batch_ms"]) == {"1", "2", "4"}
    held = {name for name, verdict in done.data["contracts"].items() if verdict}
    assert held == {"life", "answer", "stability", "invariance", "isolation"}
