"""Handlers that keep their promises, and some of every kind that does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.errors import ServingError
from makemar.serving import (
    CheckInput,
    CheckReport,
    Contract,
    Reply,
    Worker,
    WorkerError,
    WorkerReply,
    check_archive,
)
from makemar.serving.examination import planned_batches, planned_sizes
from makemar.serving.verdict import find_wrong, without_id

ZipUp = Callable[..., Path]

# makemar's own, as `make-mar pack` would have it: doubles a list of numbers.
GOOD = """
import torch
from makemar.handlers import TensorHandler


class Handler(TensorHandler):
    def examples(self):
        return [torch.ones(3)]
"""
DOUBLE = """
import torch


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""
# As people write them for TorchServe: the whole batch is one matter.
TYPICAL = """
import json
import os
import random
import time

import torch


class Handler:
    def initialize(self, context):
        self.count = 0

    def handle(self, data, context):
        rows = [self.read(row["body"]) for row in data]
        self.count += 1
        {body}

    def read(self, body):
        numbers = json.loads(body) if isinstance(body, (bytes, bytearray)) else body
        return torch.tensor(numbers, dtype=torch.float32)
"""


def typical(body: str) -> str:
    return TYPICAL.replace("{body}", body.replace("\n", "\n        "))


def number_input(name: str, *numbers: float) -> CheckInput:
    return CheckInput(
        name=name, body=json.dumps(list(numbers)).encode(), content_type="application/json"
    )


INPUTS = (number_input("one.json", 1.0, 2.0, 3.0), number_input("two.json", 0.5, -4.0, 9.0))


def checked(archive: Path, *inputs: CheckInput, batch_size: int = 4, **settings) -> CheckReport:
    worker = Worker(
        archive, batch_size=batch_size, environ={"OMP_NUM_THREADS": "1"}, response_timeout=20
    )
    return check_archive(worker, inputs or INPUTS, repeats=3, **settings)


def broken(report: CheckReport) -> set[Contract]:
    assert not report.ok
    assert broken_contracts(report) == {c for c, held in report.verdicts.items() if held is False}
    return broken_contracts(report)


def broken_contracts(report: CheckReport) -> set[Contract]:
    return {breach.contract for breach in report.breaches}


@pytest.mark.server
def test_a_handler_of_makemar_keeps_every_promise(tmp_path: Path):
    (tmp_path / "handler.py").write_text(GOOD)
    (tmp_path / "double.py").write_text(DOUBLE)
    (tmp_path / "config.yaml").write_text("batchSize: 6\nhandler:\n  dtype: bfloat16\n")
    spec = ArchiveSpec(
        model_name="good",
        version="1.0",
        handler="handler.py",
        model_file=Path("double.py"),
        config_file=Path("config.yaml"),
        base=tmp_path,
    )
    archive = write_archive(plan_archive(spec), tmp_path / "good.mar")
    worker = Worker(archive, environ={"OMP_NUM_THREADS": "1"})
    report = check_archive(worker, INPUTS, repeats=3, golden=tmp_path / "golden", update=True)
    assert report.ok, report.breaches
    assert report.batch_sizes == (1, 2, 4, 6)
    assert set(report.batch_ms) == {1, 2, 4, 6}
    assert all(taken > 0 for taken in report.batch_ms.values())
    assert report.tolerance == 5e-2
    assert report.times.warm_up_ms is not None
    assert report.times.warm_up_ms <= report.times.load_ms
    assert report.times.first_answer_ms is not None
    assert report.verdicts[Contract.GOLDEN] is None
    held = {contract for contract, verdict in report.verdicts.items() if verdict}
    assert held == set(Contract) - {Contract.GOLDEN}
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True
    golden = json.loads((tmp_path / "golden" / "one.json.golden.json").read_text())
    assert golden["json"] == [2.0, 4.0, 6.0]

    again = checked(archive, golden=tmp_path / "golden")
    assert again.ok
    assert again.verdicts[Contract.GOLDEN] is True


@pytest.mark.server
def test_another_answer_than_the_golden_one_is_a_breach(zip_up: ZipUp, tmp_path: Path):
    first = zip_up("model", typical("return [row.sum().item() for row in rows]"))
    second = zip_up("model", typical("return [row.sum().item() + 1 for row in rows]"))
    assert len(checked(first, INPUTS[0], batch_size=1, golden=tmp_path, update=True).golden) == 1
    report = checked(second, batch_size=1, golden=tmp_path)
    assert broken(report) == {Contract.GOLDEN}
    changed, missing = map(str, report.breaches)
    assert changed.startswith("one.json: alone: $ is 7.0 instead of 6.0")
    assert "two.json: alone: there is no " in missing
    assert "--update" in missing


@pytest.mark.server
def test_a_softmax_over_the_batch_is_caught(zip_up: ZipUp, tmp_path: Path):
    leak = typical("return torch.softmax(torch.stack(rows), dim=0).tolist()")
    report = checked(zip_up("leaky", leak), golden=tmp_path / "golden", update=True)
    assert Contract.INVARIANCE in broken(report)
    breaches = [b for b in report.breaches if b.contract is Contract.INVARIANCE]
    assert {(b.input, b.batch_size) for b in breaches} == {
        (item.name, size) for item in INPUTS for size in (2, 4)
    }
    line = str(breaches[0])
    assert line.startswith("one.json: in a batch of 2 at place 0: $[0] is 0.62")
    assert "instead of 1.0" in line
    # What is broken is not made the measure of later archives.
    assert report.golden == ()
    assert not (tmp_path / "golden").exists()
    assert any("mend" in note for note in report.notes)


@pytest.mark.server
def test_padding_that_leaks_is_caught(zip_up: ZipUp):
    leak = typical(
        "padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)\n"
        "return padded.mean(dim=1).tolist()"
    )
    report = checked(zip_up("padded", leak), number_input("short", 6.0), number_input("long", 1, 2))
    breach = next(b for b in report.breaches if b.contract is Contract.INVARIANCE)
    assert breach.input == "short"
    assert breach.message == "$ is 3.0 instead of 6.0"


@pytest.mark.server
def test_a_bad_request_that_costs_its_neighbours_their_answers_is_caught(zip_up: ZipUp):
    archive = zip_up("fragile", typical("return [row.sum().item() for row in rows]"))
    report = checked(archive)
    assert broken(report) == {Contract.ISOLATION}
    breach = report.breaches[0]
    assert breach.input == "one.json cut in half"
    assert (breach.batch_size, breach.place) == (2, 1)
    assert "its neighbours lost their answers: status 503" in breach.message
    assert "JSONDecodeError" in breach.message


@pytest.mark.server
def test_a_bad_request_that_changes_its_neighbours_answers_is_caught(zip_up: ZipUp):
    source = """
import json

def handle(data, context):
    if data is None:
        return
    answers, bad = [], 0
    for index, row in enumerate(data):
        if isinstance(row["body"], list):
            answers.append(json.dumps([len(row["body"]), bad]))
        else:
            bad += 1
            context.set_response_status(400, "Bad Request", index)
            answers.append("bad")
    return answers
"""
    report = checked(zip_up("shifty", source))
    assert broken(report) == {Contract.ISOLATION}
    assert "$[1] is 1 instead of 0; beside one.json" in report.breaches[0].message


@pytest.mark.server
def test_too_few_replies_are_caught(zip_up: ZipUp):
    report = checked(zip_up("few", typical("return [rows[0].sum().item()]")))
    assert Contract.INVARIANCE in broken(report)
    assert "number of batch response mismatched" in report.breaches[0].message


@pytest.mark.server
def test_a_worker_that_dies_in_a_batch_is_one_breach(zip_up: ZipUp):
    dying = typical("if len(rows) == 4: os._exit(7)\nreturn [1.0] * len(rows)")
    report = checked(zip_up("dying", dying))
    assert broken(report) == {Contract.LIFE}
    (breach,) = report.breaches
    assert breach.batch_size == 4
    assert "the worker ended with exit code 7" in breach.message


@pytest.mark.server
def test_a_worker_that_hangs_at_bad_input_is_one_breach(zip_up: ZipUp):
    hanging = typical("return [1.0] * len(rows)").replace(
        "json.loads(body) if isinstance(body, (bytes, bytearray))",
        "time.sleep(600) if isinstance(body, (bytes, bytearray))",
    )
    worker = Worker(zip_up("hanging", hanging), batch_size=2, response_timeout=1)
    report = check_archive(worker, INPUTS, repeats=1)
    assert broken(report) == {Contract.LIFE}
    (breach,) = report.breaches
    assert breach.input == "one.json cut in half"
    assert "within 1 s: it was at handler.py line" in breach.message
    assert report.batch_ms  # what was measured before is told


@pytest.mark.server
def test_a_worker_that_talks_nonsense_is_one_breach(zip_up: ZipUp):
    nonsense = typical("print('hello')\ncontext.cl_socket.sendall(b'nonsense' * 9)")
    report = checked(zip_up("nonsense", nonsense))
    assert broken(report) == {Contract.LIFE}
    assert "no message of TorchServe's" in report.breaches[0].message


@pytest.mark.server
def test_an_answer_that_changes_by_itself_is_caught(zip_up: ZipUp):
    report = checked(zip_up("moody", typical("return [random.random() for _ in rows]")))
    assert broken(report) == {Contract.STABILITY}
    assert report.verdicts[Contract.INVARIANCE] is None


@pytest.mark.server
def test_an_input_that_is_refused_alone_is_caught_and_the_others_are_looked_at(zip_up: ZipUp):
    archive = zip_up("picky", typical("return [row.sum().item() for row in rows]"))
    bad = CheckInput(name="bad.txt", body=b"{", content_type="application/json")
    report = checked(archive, bad, *INPUTS, batch_size=2)
    assert {b.contract for b in report.breaches if b.input == "bad.txt"} == {Contract.ANSWER}
    assert report.verdicts[Contract.INVARIANCE] is True


@pytest.mark.server
def test_a_model_that_does_not_load_is_no_breach_but_an_error(zip_up: ZipUp):
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        checked(zip_up("unloadable", "1 / 0"))


@pytest.mark.server
def test_what_cannot_be_seen_is_told(zip_up: ZipUp):
    takes_all = "def handle(data, context):\n    return data and ['yes'] * len(data)\n"
    archive = zip_up("eater", takes_all)
    report = checked(archive, INPUTS[0])
    assert report.ok
    assert len(report.notes) == 2
    assert report.verdicts[Contract.ISOLATION] is None
    alone = checked(archive, INPUTS[0], batch_size=1)
    assert "--batch-size" in alone.notes[0]
    assert alone.verdicts[Contract.INVARIANCE] is None


def test_inputs_must_be_there_and_told_apart(tmp_path: Path):
    worker = Worker(tmp_path / "no.mar")
    with pytest.raises(ServingError, match="no input"):
        check_archive(worker, ())
    twins = [CheckInput(name=f"{folder}/x", body=b"") for folder in "ab"]
    with pytest.raises(ServingError, match=r"two inputs would share the name .*x\.golden\.json"):
        check_archive(worker, twins, golden=tmp_path)


def test_batch_sizes_are_the_powers_of_two_and_the_largest():
    assert planned_sizes(1) == (1,)
    assert planned_sizes(8) == (1, 2, 4, 8)
    assert planned_sizes(11) == (1, 2, 4, 8, 11)


def test_every_input_comes_first_once():
    assert list(planned_batches(3, 2)) == [(0, 1), (1, 2), (2, 0)]
    assert list(planned_batches(1, 3)) == [(0, 0, 0)]
    assert list(planned_batches(2, 3)) == [(0, 1, 0), (1, 0, 1)]


def reply(**changes) -> WorkerReply:
    return WorkerReply(
        **{"status": 200, "headers": {}, "body": b"", "request_id": "i-1", **changes}
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (reply(status=-1), "cannot be sent"),
        (reply(status=999), "cannot be sent"),
        (reply(phrase="two\nlines"), "cannot be sent"),
        (reply(headers={"a": "b\r\nc: d"}), "cannot be sent"),
        (reply(cut_off=True), "waits for ever"),
        (reply(status=400, body=b'{"message": "too small"}'), "status 400, 'too small'"),
        (reply(status=500, body=b"oh no"), "status 500, 'oh no'"),
        (reply(failure="Prediction failed", status=503), "whole batch, Prediction failed"),
    ],
)
def test_a_reply_that_is_no_answer_is_told(given: WorkerReply, words: str):
    assert words in find_wrong(given)


def test_an_answer_is_no_fault_and_a_request_s_id_no_difference():
    assert find_wrong(reply()) == ""
    first, second = (reply(request_id=name, body=f"for {name}".encode()) for name in ("x-1", "x-2"))
    assert without_id(first).body == without_id(second).body
    assert isinstance(first, Reply)
