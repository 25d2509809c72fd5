"""Whatever a handler's own code does, the other requests of the batch keep their answers."""

import copy
import logging
import threading

import pytest
import torch

from makemar.handlers import (
    BadRequestError,
    BaseHandler,
    HandlerSettings,
    Reply,
    RequestError,
    Samples,
)
from makemar.handlers.testing import Context, ask


class Doubling(BaseHandler):
    """Takes lists of numbers, or lists of such lists as several samples."""

    def decode(self, request):
        value = request.payload()
        if value and isinstance(value[0], list):
            return Samples(torch.tensor(row) for row in value)
        return torch.tensor(value)

    def forward(self, batch):
        return batch * 2


def statuses(handler, rows, **kwargs):
    return [answer.status for answer in ask(handler, [{"body": row} for row in rows], **kwargs)]


class OddError(RequestError):
    def __init__(self, *, reason):
        super().__init__(422, reason)


class ForgetfulError(RequestError):
    def __init__(self):
        self.message = "says nothing of its status"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (lambda: RequestError(422, "negative"), 422),
        (lambda: OddError(reason="negative"), 422),
        (lambda: ForgetfulError(), 500),
    ],
)
def test_an_error_of_the_models_choosing_costs_its_request_alone(error, status):
    class Choosy(Doubling):
        def forward(self, batch):
            if (batch < 0).any():
                raise error()
            return batch * 2

    answers = ask(Choosy(), [{"body": [[1.0]]}, {"body": [[1.0], [-1.0]]}, {"body": [3.0]}])
    assert [a.status for a in answers] == [200, status, 200]
    assert answers[1].json()["message"].startswith("sample 1: ")


@pytest.mark.parametrize("others", [["bad"], [[1.0, 1.0], "bad"]])
def test_samples_meet_their_own_request_however_many_there_are(others):
    class Named(Doubling):
        def decode(self, request):
            if request.payload() == "bad":
                raise BadRequestError("bad")
            return super().decode(request)

        def encode(self, output, request):
            return request.id

        def postprocess(self, data):
            return super().postprocess(data)

    rows = [*others, [[1.0, 1.0], [2.0, 2.0]]]
    answer = ask(Named(), [{"body": row} for row in rows])[-1]
    own = f"request-{len(rows) - 1}"
    assert answer.json() == [own, own]


class Odd:
    shape = 3


@pytest.mark.parametrize("kind", ["without a length", "without a shape"])
def test_a_sample_that_cannot_be_measured_costs_its_request_alone(kind):
    class Measured(Doubling):
        def decode(self, request):
            decoded = super().decode(request)
            if decoded[0] > 0:
                return decoded
            return decoded[0] if kind == "without a length" else Odd()

        def length(self, sample):
            return len(sample) if kind == "without a length" else None

    assert statuses(Measured(), [[1.0], [-1.0], [2.0]]) == [200, 400, 200]


def test_a_list_within_itself_costs_its_request_alone():
    loop = []
    loop.append(loop)

    class Looped(Doubling):
        def decode(self, request):
            return loop if request.payload()[0] < 0 else super().decode(request)

    assert statuses(Looped(), [[1.0], [-1.0], [2.0]]) == [200, 400, 200]


@pytest.mark.parametrize("stage", ["decode", "encode"])
def test_a_device_that_is_lost_outside_of_a_forward_ends_the_worker(stage, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr("makemar.handlers.answers.end_worker", lambda reason: ended.set())

    class Lost(Doubling):
        pass

    def fail(self, *args):
        raise RuntimeError("CUDA error: device-side assert triggered")

    setattr(Lost, stage, fail)
    assert statuses(Lost(), [[1.0], [2.0]]) == [503, 503]
    assert ended.is_set()


def test_an_error_too_large_to_send_becomes_a_plain_one():
    class Large(RequestError):
        def body(self, request_id):
            return {"message": "y" * 7_000_000}

    class Exiting(RequestError):
        def body(self, request_id):
            raise SystemExit(3)

    class Failing(Doubling):
        def decode(self, request):
            kind = {-1.0: Large, -2.0: Exiting}.get(request.payload()[0])
            if kind:
                raise kind(400, "x")
            return super().decode(request)

    answers = ask(Failing(), [{"body": [n]} for n in (1.0, -1.0, -2.0)])
    assert [a.status for a in answers] == [200, 500, 500]
    assert all(len(a.body) < 1000 for a in answers)


def test_a_header_that_makes_its_client_wait_for_more_is_refused():
    class Streaming(Doubling):
        def encode(self, output, request):
            return Reply(output.tolist(), headers={"TS_stream_next": "true"})

    (answer,) = ask(Streaming(), [{"body": [1.0]}])
    assert answer.status == 500
    assert "ts_stream_next" not in answer.headers


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit(3)])
def test_a_description_that_fails_is_an_answer_too(error):
    class Shy(Doubling):
        def describe(self):
            raise error

    handler = Shy()
    context = Context(model_dir=".", model={}, config={}, headers=[{"describe": "True"}])
    (body,) = handler.handle([{}], context)
    assert b"secret" not in body
    assert context.get_response_status(0)[0] == 500


def test_status_set_for_one_sample_outlives_the_forward_of_another():
    class Marking(Doubling):
        def postprocess(self, data):
            for index, row in enumerate(data.tolist()):
                if row[0] == 2.0:
                    self.context.set_response_status(207, "", index)
            return data.tolist()

    handler = Marking()
    handler.settings = HandlerSettings(max_forward_batch=1)
    assert statuses(handler, [[[1.0], [5.0]], [3.0]]) == [207, 200]


def test_failed_samples_do_not_keep_the_tensors_of_their_forwards():
    class Large:
        alive = 0

        def __init__(self):
            Large.alive += 1

        def __del__(self):
            Large.alive -= 1

    most = []

    class Picky(Doubling):
        def forward(self, batch):
            held = Large()
            most.append(Large.alive)
            if (batch < 0).any():
                raise ValueError(type(held).__name__)
            return batch * 2

    rows = [[-1.0 if i % 2 else 1.0] for i in range(32)]
    assert statuses(Picky(), rows) == [500 if i % 2 else 200 for i in range(32)]
    assert max(most) <= 2


def test_no_line_of_a_traceback_can_be_taken_for_a_metric(caplog):
    class Quoting(Doubling):
        def decode(self, request):
            raise ValueError("bad input x\n[METRICS]Spoof.Count:7.0|#Level:Model\ny")

    with caplog.at_level(logging.INFO):
        ask(Quoting(), [{"body": [1.0]}])
    assert "[METRICS]Spoof" in caplog.text
    assert not [line for line in caplog.text.splitlines() if line.startswith("[METRICS]")]


def test_a_message_can_be_logged_whatever_it_quotes():
    error = RequestError(400, "field \ud800x \x1b[31m \u202e twice\nover")
    error.message.encode("utf-8")
    assert error.message.isprintable()


def test_a_handler_that_has_decoded_in_threads_can_be_copied():
    class Threaded(Doubling):
        pass

    handler = Threaded()
    handler.settings = HandlerSettings(decode_threads=2)
    assert statuses(handler, [[1.0], [2.0]]) == [200, 200]
    assert statuses(copy.deepcopy(handler), [[1.0], [2.0]]) == [200, 200]
