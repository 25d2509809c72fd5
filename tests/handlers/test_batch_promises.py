"""Whatever one request does, its neighbours get their right answer, and each gets one reply."""

import asyncio
import subprocess
import sys
import textwrap

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from makemar.handlers import (
    BadRequestError,
    BaseHandler,
    HandlerSettings,
    Reply,
    RequestError,
    Samples,
)
from makemar.handlers.testing import ask, load

NAN = float("nan")


class Careless(BaseHandler):
    """Rows of numbers; some outputs cannot be sent, some headers break HTTP."""

    def encode(self, output, request):
        wanted = request.headers.get("x-wanted")
        if wanted == "loop":
            loop = []
            loop.append(loop)
            return loop
        if wanted == "newline":
            return Reply(output.tolist(), headers={"x-note": "one\r\ntwo: three"})
        return output.tolist()


POISONS = {
    "undecodable": (b"\xff\xfe no numbers", {}, 400),
    "wrong shape": ({"body": [[1.0, 2.0], [3.0, 4.0]]}, {}, 500),
    "raises": ({"body": [NAN, 1.0]}, {}, 500),
    "unserialisable": ({"body": [1.0, 2.0]}, {"x-wanted": "loop"}, 500),
    "header with a newline": ({"body": [1.0, 2.0]}, {"x-wanted": "newline"}, 500),
}

PICKY = """
import torch

class Picky(torch.nn.Module):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError("rows of numbers only")
        if torch.isnan(x).any():
            raise ValueError("NaN")
        return x * 2
"""


@pytest.fixture
def handler(tmp_path):
    (tmp_path / "network.py").write_text(PICKY)
    handler = load(Careless, tmp_path, model={"modelFile": "network.py"})
    handler.calls = 0
    model = handler.model

    def counted(batch):
        handler.calls += 1
        return model(batch)

    handler.model = counted
    return handler


def batch_with(poisons, count=32):
    """A batch of `count`, with a poison at each of the given positions."""
    rows = [{"body": [float(i), 1.0]} for i in range(count)]
    headers = [{} for _ in rows]
    for position, kind in poisons.items():
        rows[position], headers[position], _ = POISONS[kind]
    return rows, headers


def check(handler, poisons):
    rows, headers = batch_with(poisons)
    answers = ask(handler, rows, headers=headers)
    for i, answer in enumerate(answers):
        if i in poisons:
            assert answer.status == POISONS[poisons[i]][2]
            assert answer.json()["request_id"] == f"request-{i}"
        else:
            (alone,) = ask(handler, [rows[i]], headers=[headers[i]])
            assert (answer.status, answer.body) == (alone.status, alone.body)
            assert answer.json() == [2.0 * i, 2.0]


@pytest.mark.parametrize("kind", POISONS)
@pytest.mark.parametrize("position", [0, 13, 31])
def test_one_poisonous_request_among_32_fails_alone_in_at_most_11_forwards(handler, kind, position):
    rows, headers = batch_with({position: kind})
    ask(handler, rows, headers=headers)
    assert handler.calls <= 11
    check(handler, {position: kind})


@pytest.mark.parametrize("kind", POISONS)
def test_eight_poisonous_requests_fail_alone(handler, kind):
    check(handler, dict.fromkeys([0, 1, 5, 8, 17, 22, 30, 31], kind))


def test_poisons_of_every_kind_at_once_fail_each_in_its_own_way(handler):
    check(handler, dict(zip([2, 3, 11, 20, 31], POISONS, strict=True)))


class Several(Careless):
    """A request is a list of rows."""

    def decode(self, request):
        return Samples(torch.tensor(row) for row in request.payload())


def test_a_request_with_10000_bad_samples_does_not_stall_its_neighbours(handler):
    several = Several()
    several.model = handler.model
    several.settings = HandlerSettings(max_samples=10_000)
    rows = [{"body": [[float(i), 1.0]]} for i in range(32)]
    rows[13] = {"body": [[NAN, float(i)] for i in range(10_000)]}
    answers = ask(several, rows)
    assert handler.calls <= 1 + 2 * 14
    assert [a.status for a in answers] == [500 if i == 13 else 200 for i in range(32)]
    assert answers[13].json()["message"].startswith("sample 0: ")
    assert all(answers[i].json() == [[2.0 * i, 2.0]] for i in range(32) if i != 13)


# -- memory ----------------------------------------------------------------------------------------


class Small(BaseHandler):
    """A device that holds `room` samples."""

    room = 4

    def forward(self, batch):
        self.sizes.append(len(batch))
        if len(batch) > self.room:
            raise torch.cuda.OutOfMemoryError(f"no room for {len(batch)}")
        return batch


@pytest.fixture
def small(tmp_path):
    handler = Small()
    handler.sizes = []
    return handler


def rows_of(count, width=1):
    return [{"body": [float(i)] * width} for i in range(count)]


def test_a_batch_that_does_not_fit_is_answered_in_pieces_that_do(small):
    answers = ask(small, rows_of(32))
    assert [a.json() for a in answers] == [[float(i)] for i in range(32)]
    assert small.sizes[:3] == [32, 16, 8]


def test_the_next_batch_knows_what_fits(small):
    ask(small, rows_of(32))
    small.sizes.clear()
    ask(small, rows_of(32))
    assert small.sizes == [4] * 8


def test_what_fits_is_learnt_for_each_shape_alone(small):
    ask(small, rows_of(32))
    small.sizes.clear()
    small.room = 100
    ask(small, rows_of(32, width=2))
    assert small.sizes == [32]


def test_the_cap_grows_back_slowly_once_there_is_room_again(small):
    ask(small, rows_of(32))
    small.room = 32
    batches = 0
    while small.sizes != [32]:
        small.sizes.clear()
        assert all(a.status == 200 for a in ask(small, rows_of(32)))
        batches += 1
        assert batches < 1000
    assert batches > 50


def test_growing_too_far_costs_one_failed_forward_not_an_answer(small):
    failures = 0
    for _ in range(200):
        assert all(a.status == 200 for a in ask(small, rows_of(32)))
        failures += sum(size > small.room for size in small.sizes)
        small.sizes.clear()
    # 3 to learn it, then tries at ever longer intervals: 32, 64, 128, … forwards apart.
    assert failures <= 3 + 6


def test_a_single_request_without_room_gets_a_507_and_the_others_theirs(tmp_path):
    class Full(Small):
        def forward(self, batch):
            if (batch == 7).any():
                raise MemoryError
            return batch

    handler = Full()
    answers = ask(handler, rows_of(8))
    assert [a.status for a in answers] == [507 if i == 7 else 200 for i in range(8)]


# -- a lost device -------------------------------------------------------------------------------

LOST = """
    import sys, time
    from makemar.handlers import BaseHandler
    from makemar.handlers.testing import ask

    class Lost(BaseHandler):
        calls = 0
        def forward(self, batch):
            Lost.calls += 1
            raise RuntimeError("CUDA error: device-side assert triggered")

    handler = Lost()
    first = ask(handler, [{"body": [1.0]}, {"body": [2.0]}])
    second = ask(handler, [{"body": [1.0]}])
    print([a.status for a in first + second], Lost.calls, flush=True)
    time.sleep(30)
    sys.exit(0)
"""


def test_a_lost_device_is_never_retried_and_the_worker_ends_after_it_answered():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOST)], capture_output=True, text=True, timeout=25
    )
    assert done.stdout.strip() == "[503, 503, 503] 1"
    assert done.returncode == 1
    assert "device-side assert" in done.stderr


# -- every kind of row ------------------------------------------------------------------------


class Anything(BaseHandler):
    """Returns, raises and sets whatever the request says."""

    def decode(self, request):
        return request.payload()

    def collate(self, samples):
        return samples

    def forward(self, batch):
        if any(isinstance(sample, dict) for sample in batch):
            raise KeyError("no dicts")
        return list(batch)

    def encode(self, output, request):
        if isinstance(output, str) and output.startswith("raise"):
            raise RequestError(429, output)
        if isinstance(output, bool):
            self.context.set_response_status(output, "\n", request.index)
        if isinstance(output, (int, float)):
            return Reply(output, status=output, headers={str(output): output, "x": output})
        return output


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
rows = st.dictionaries(st.sampled_from(["body", "data", "x", ""]), values, max_size=3)
header_maps = st.dictionaries(
    st.sampled_from(["describe", "explain", "Accept", "body"]),
    st.sampled_from(["True", "x", "\ud800", ""]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(rows, header_maps), max_size=9))
def test_any_rows_give_one_sendable_reply_each(batch):
    answers = ask(Anything(), [row for row, _ in batch], headers=[h for _, h in batch])
    assert len(answers) == len(batch)
    for answer in answers:
        assert isinstance(answer.body, bytes)
        assert type(answer.status) is int
        assert 200 <= answer.status <= 599
        for name, value in answer.headers.items():
            assert name.isascii()
            assert value.isascii()
            assert not set("\r\n") & set(name + value)


# -- predictions beside explanations ----------------------------------------------------------


class Explaining(BaseHandler):
    """Answers predictions and explanations differently."""

    def forward(self, batch):
        return batch

    def explain(self, request):
        return {"because": request.payload()}


def test_a_batch_of_both_kinds_answers_each_as_its_own():
    headers = [{"explain": "True" if i % 2 else "False"} for i in range(4)]
    answers = ask(Explaining(), rows_of(4), headers=headers)
    assert [a.json() for a in answers] == [[0.0], {"because": [1.0]}, [2.0], {"because": [3.0]}]


def test_a_clients_describe_header_changes_nothing():
    answers = ask(Explaining(), rows_of(2), headers=[{"describe": "True"}, {}])
    assert [a.json() for a in answers] == [[0.0], [1.0]]


def test_the_servers_describe_job_gets_the_description():
    (answer,) = ask(Explaining(), [{}], headers=[{"describe": "True"}])
    assert answer.json()["handler"] == "Explaining"


def test_a_handler_without_explanations_says_so():
    (answer,) = ask(Careless(), rows_of(1), headers=[{"explain": "True"}])
    assert answer.status == 501


# -- ragged samples ------------------------------------------------------------------------------


class Ragged(BaseHandler):
    """Sums lists of any length, padded with zeros."""

    def decode(self, request):
        return torch.tensor(request.payload(), dtype=torch.float32)

    def length(self, sample):
        return len(sample)

    def collate(self, samples):
        return torch.nn.utils.rnn.pad_sequence(list(samples), batch_first=True)

    def forward(self, batch):
        self.shapes.append(tuple(batch.shape))
        return batch.sum(1)


@pytest.fixture
def ragged(request, tmp_path):
    (tmp_path / "network.py").write_text(PICKY)
    handler = load(
        Ragged,
        tmp_path,
        model={"modelFile": "network.py"},
        config={"handler": getattr(request, "param", {})},
    )
    handler.shapes = []
    return handler


@given(st.lists(st.integers(1, 30), min_size=1, max_size=16))
def test_ragged_samples_come_back_in_order(lengths):
    handler = Ragged()
    handler.shapes = []
    answers = ask(handler, [{"body": [1.0] * length} for length in lengths])
    assert [a.json() for a in answers] == [float(length) for length in lengths]


@pytest.mark.parametrize("ragged", [{"max_tokens": 64}], indirect=True)
def test_a_token_budget_cuts_a_batch_into_forwards(ragged):
    ask(ragged, [{"body": [1.0] * 16} for _ in range(10)])
    assert ragged.shapes == [(4, 16), (4, 16), (2, 16)]


@pytest.mark.parametrize("ragged", [{"max_forward_batch": 3}], indirect=True)
def test_max_forward_batch_cuts_a_batch_into_forwards(ragged):
    ask(ragged, [{"body": [1.0]} for _ in range(7)])
    assert ragged.shapes == [(3, 1), (3, 1), (1, 1)]


@pytest.mark.parametrize("ragged", [{"max_padding_waste": 0.2}], indirect=True)
def test_long_and_short_samples_part_when_padding_would_waste_too_much(ragged):
    lengths = [100, 2, 98, 2, 2, 95]
    ask(ragged, [{"body": [1.0] * length} for length in lengths])
    assert ragged.shapes == [(3, 100), (3, 2)]


# -- decoding in threads ---------------------------------------------------------------------------


class Threaded(BaseHandler):
    """Decodes in four threads."""

    def decode(self, request):
        value = request.payload()[0]
        if value % 3 == 0:
            raise SystemExit(f"thread of {value}")
        return torch.tensor([value])


def test_an_error_in_a_decode_thread_reaches_its_own_request(tmp_path):
    (tmp_path / "network.py").write_text(PICKY.replace("x.dim() != 2", "False"))
    config = {"handler": {"decode_threads": 4}}
    handler = load(Threaded, tmp_path, model={"modelFile": "network.py"}, config=config)
    answers = ask(handler, rows_of(32))
    assert [a.status for a in answers] == [400 if i % 3 == 0 else 200 for i in range(32)]
    assert [a.json() for i, a in enumerate(answers) if i % 3] == [
        [2.0 * i] for i in range(32) if i % 3
    ]


class Speechless(RuntimeError):
    """An exception that fails when it is asked what it says."""

    def __str__(self):
        raise ValueError("no words")


@pytest.mark.parametrize("stage", ["decode", "collate", "forward", "encode"])
def test_an_exception_that_cannot_be_printed_costs_one_request(stage):
    def fails(self, value, *rest):
        if "bad" in repr([getattr(part, "row", part) for part in (value, *rest)]):
            raise Speechless
        return getattr(Anything, stage)(self, value, *rest)

    kind = type("Odd", (Anything,), {stage: fails})
    answers = ask(kind(), ["good", "bad", "fine"], headers=[{}, {}, {}])
    assert [a.status for a in answers][::2] == [200, 200]
    assert answers[1].status in (400, 500)


# -- what a hostile tester found -----------------------------------------------------------------


class Misbehaving(Anything):
    """Fails in ways that are no ordinary exception, or splits as it likes."""

    def encode(self, output, request):
        raises = {
            "cancelled": asyncio.CancelledError(),
            "generator": GeneratorExit(),
            "panic": type("PanicException", (BaseException,), {})("a Rust library"),
            "huge": BadRequestError("é" * 7_000_000),
            "an exception": BadRequestError(ValueError("as the message")),
            "a NaN": BadRequestError(float("nan")),
            "lines": BadRequestError("one\n[METRICS]Evil.Count:1|#Level:Host"),
            "no init": NoInit("x"),
        }
        if output in raises:
            raise raises[output]
        return output


class NoInit(RequestError):
    def __init__(self, message):
        pass


@pytest.mark.parametrize(
    "kind",
    ["cancelled", "generator", "panic", "huge", "an exception", "a NaN", "lines", "no init"],
)
def test_what_is_no_ordinary_exception_costs_one_request_too(kind, caplog):
    before, answer, after = ask(Misbehaving(), ["good", kind, "fine"])
    assert (before.body, after.body) == (b"good", b"fine")
    assert 400 <= answer.status < 600
    assert len(answer.body) < 10_000
    assert answer.json()["request_id"] == "request-1"
    # TorchServe reads metrics from the lines of a worker.
    assert not any(line.startswith("[METRICS]") for line in caplog.text.splitlines())


@pytest.mark.parametrize(
    "split",
    [
        lambda self, outputs, count: [o for o in outputs if o != "drop"],
        lambda self, outputs, count: None,
        lambda self, outputs, count: set(outputs),
        lambda self, outputs, count: (o for o in outputs),
    ],
)
def test_a_split_that_loses_a_sample_never_shifts_answers_to_other_clients(split):
    kind = type("Shifty", (Anything,), {"split": split})
    answers = ask(kind(), ["a", "drop", "b"])
    for answer, sent in zip(answers, ["a", "drop", "b"], strict=True):
        assert answer.status == 500 or answer.body == sent.encode()


def test_a_picture_that_would_start_a_program_is_refused():
    from makemar.handlers.images import read_image

    with pytest.raises(BadRequestError, match="are not a picture"):
        read_image(
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", max_pixels=99
        )
