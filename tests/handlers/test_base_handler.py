"""BaseHandler's promises: one reply per request, in order, each its own."""

import logging
import re
import threading
import warnings

import pytest
import torch

from makemar.handlers import (
    BadRequestError,
    BaseHandler,
    HandlerSettings,
    LoadError,
    Reply,
    RequestError,
    Samples,
)
from makemar.handlers.testing import ask, load

NAN = float("nan")


@pytest.fixture
def handler(model_dir, doubler):
    return load(BaseHandler, model_dir, model=doubler)


def counted(handler):
    """Count the calls of the model."""
    calls = []
    model = handler.model
    handler.model = lambda batch: (calls.append(len(batch)), model(batch))[1]
    return calls


def test_numbers_in_numbers_out(handler):
    answers = ask(handler, [{"body": [1, 2]}, {"body": [3.5, 4]}])
    assert [answer.json() for answer in answers] == [[2.0, 4.0], [7.0, 8.0]]
    assert {answer.headers["content-type"] for answer in answers} == {"application/json"}


def test_a_batch_is_one_forward(handler):
    calls = counted(handler)
    ask(handler, [{"body": [float(i)]} for i in range(8)])
    assert calls == [8]


def test_a_request_that_cannot_be_decoded_gets_a_400_and_never_reaches_the_model(handler):
    calls = counted(handler)
    answers = ask(handler, [{"body": [1.0]}, b"\x00not json", {"body": [2.0]}])
    assert [answer.status for answer in answers] == [200, 400, 200]
    assert answers[1].json() == {
        "code": 400,
        "type": "BadRequestError",
        "message": "expected numbers, got 9 bytes that are none; "
        "send a JSON list, a .npy file or safetensors",
        "request_id": "request-1",
    }
    assert calls == [2]


def test_a_poisonous_sample_fails_alone_in_at_most_11_forwards(handler):
    calls = counted(handler)
    rows = [{"body": [NAN if i == 13 else float(i)]} for i in range(32)]
    answers = ask(handler, rows)
    assert [a.status for a in answers] == [500 if i == 13 else 200 for i in range(32)]
    assert all(a.json() == [2.0 * i] for i, a in enumerate(answers) if i != 13)
    assert len(calls) <= 11


def test_the_client_never_sees_the_models_exception_but_the_log_does(handler, caplog):
    with caplog.at_level(logging.INFO):
        (answer,) = ask(handler, [{"body": [NAN]}])
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert answer.json()["request_id"] == "request-0"
    assert "secret: the model met a NaN" in caplog.text
    assert "request-0" in caplog.text


def test_samples_of_another_shape_do_not_cost_their_neighbours(handler):
    answers = ask(handler, [{"body": [1.0]}, {"body": [1.0, 2.0]}, {"body": [3.0]}])
    assert [a.json() for a in answers] == [[2.0], [2.0, 4.0], [6.0]]


def test_one_log_line_says_what_the_batch_was(handler, caplog):
    with caplog.at_level(logging.INFO):
        ask(handler, [{"body": [1.0]}, b"?"])
    assert "batch=2 forwards=1 samples=1 failed=1" in caplog.text


class Several(BaseHandler):
    """One request carries a list of samples."""

    def decode(self, request):
        return Samples(torch.tensor([float(v)]) for v in request.payload())


def test_a_request_with_several_samples_gets_one_reply_with_as_many_outputs(model_dir, doubler):
    handler = load(Several, model_dir, model=doubler)
    calls = counted(handler)
    answers = ask(handler, [{"body": [1, 2, 3]}, {"body": [4]}, {"body": []}])
    assert [a.json() for a in answers[:2]] == [[[2.0], [4.0], [6.0]], [[8.0]]]
    assert answers[2].status == 400
    assert calls == [4]


def test_a_bad_sample_is_named_by_its_position(model_dir, doubler):
    handler = load(Several, model_dir, model=doubler)
    good, bad = ask(handler, [{"body": [1, 2]}, {"body": [3, NAN]}])
    assert good.status == 200
    assert bad.status == 500
    assert bad.json()["message"].startswith("sample 1: ")


class Chooser(BaseHandler):
    """Chooses status, type and headers of its replies by what it was asked."""

    def decode(self, request):
        return torch.tensor(float(len(request.payload())))

    def encode(self, output, request):
        wanted = request.payload().decode()
        if wanted == "teapot":
            raise RequestError(418, "a teapot makes no coffee")
        if wanted == "slip":
            raise KeyError("secret path /etc")
        if wanted == "newline":
            return Reply("x", headers={"x-split": "a\r\nset-cookie: b"})
        if wanted == "status":
            return Reply("x", status=-1)
        if wanted == "loop":
            loop = []
            loop.append(loop)
            return loop
        if wanted == "nan":
            return {"value": NAN}
        if wanted == "surrogate":
            return "\ud800"
        if wanted == "set":
            return {1, 2}
        if wanted == "huge":
            return "x" * 1001
        if wanted == "context":
            self.context.set_response_header(request.index, "bad header", "v")
            return "x"
        return Reply({"n": output}, status=201, headers={"x-n": "1"})


@pytest.fixture
def chooser(model_dir, doubler):
    return load(Chooser, model_dir, model=doubler, config={"handler": {"max_response_bytes": 1000}})


@pytest.mark.parametrize(
    ("wanted", "status", "told"),
    [
        ("teapot", 418, "a teapot makes no coffee"),
        ("slip", 500, "cannot be turned into a reply"),
        ("newline", 500, "header 'x-split'"),
        ("status", 500, "status is -1"),
        ("loop", 500, "JSON"),
        ("nan", 500, "JSON"),
        ("surrogate", 500, "surrogate"),
        ("set", 500, "sorted list"),
        ("huge", 500, "1001 bytes, the limit is 1000"),
        ("context", 500, "bad header"),
    ],
)
def test_what_cannot_be_sent_is_that_requests_own_error(chooser, wanted, status, told):
    before, answer, after = ask(chooser, [b"good", wanted.encode(), b"fine"])
    assert (answer.status, answer.json()["code"]) == (status, status)
    assert told in answer.json()["message"]
    assert "secret" not in answer.json()["message"]
    assert set(answer.headers) == {"content-type"}
    for neighbour in (before, after):
        assert (neighbour.status, neighbour.json(), neighbour.headers["x-n"]) == (
            201,
            {"n": 8},
            "1",
        )


class OldStyle(BaseHandler):
    """Written for TorchServe's BaseHandler: whole-batch stages, rows, indices from 0."""

    def preprocess(self, data):
        values = [float(row["body"]) for row in data]
        self.seen = len(values)
        return torch.tensor(values)

    def postprocess(self, data):
        for index in range(self.seen):
            self.context.set_response_header(index, "x-id", self.context.get_request_id(index))
        return [{"value": value} for value in data.tolist()]


def test_a_handler_with_torchserves_stages_is_isolated_too(model_dir, doubler):
    handler = load(OldStyle, model_dir, model=doubler)
    rows = [{"body": "oops" if i == 5 else str(i)} for i in range(8)]
    answers = ask(handler, rows)
    assert [a.status for a in answers] == [500 if i == 5 else 200 for i in range(8)]
    for i, answer in enumerate(answers):
        if i != 5:
            assert answer.json() == {"value": 2.0 * i}
            assert answer.headers["x-id"] == f"request-{i}"


class Short(BaseHandler):
    """Breaks TorchServe's rule: fewer results than rows."""

    def postprocess(self, data):
        return data.tolist()[1:]


def test_a_postprocess_with_too_few_results_is_an_error_not_a_shifted_answer(model_dir, doubler):
    handler = load(Short, model_dir, model=doubler)
    answers = ask(handler, [{"body": [1.0]}, {"body": [2.0]}])
    assert [a.status for a in answers] == [500, 500]


class OnlyPreprocess(BaseHandler):
    """Extends the default stage, as subclasses of TorchServe's handlers do."""

    def preprocess(self, data):
        return super().preprocess(data) + 1


def test_super_preprocess_and_the_default_postprocess_work_on_whole_batches(model_dir, doubler):
    handler = load(OnlyPreprocess, model_dir, model=doubler)
    good, bad = ask(handler, [{"body": [1.0]}, b"junk"])
    assert good.json() == [4.0]
    assert bad.status == 400


class Quitter(BaseHandler):
    """A decode that raises what it likes."""

    def decode(self, request):
        if request.payload() == b"exit":
            raise SystemExit(3)
        raise BadRequestError("no")


def test_sys_exit_in_a_hook_is_that_requests_error(model_dir, doubler):
    answers = ask(load(Quitter, model_dir, model=doubler), [b"exit", b"x"])
    assert [a.status for a in answers] == [400, 400]


@pytest.mark.parametrize(
    ("model", "config", "told"),
    [
        ({"modelFile": "network.py", "serializedFile": "gone.pth"}, {}, "gone.pth"),
        ({}, {}, "neither a model file nor a serialized file"),
        ({"serializedFile": "weights.pth"}, {}, "not a TorchScript archive"),
        ({"modelFile": "network.py"}, {"handler": {"max_response_byte": 5}}, "max_response_bytes"),
        ({"modelFile": "network.py"}, {"handler": {"device": True}}, "handler.device is True"),
        ({"modelFile": "network.py"}, {"handler": {"device": "cuda:99"}}, "cuda:99"),
        ({"modelFile": "network.py"}, {"handler": []}, None),
        ({"modelFile": "network.py"}, {"handler": [1]}, "not a mapping"),
    ],
)
def test_a_load_failure_is_a_value_error_that_names_the_cause(model_dir, model, config, told):
    if told is None:
        assert load(BaseHandler, model_dir, model=model, config=config).initialized
        return
    with pytest.raises(LoadError, match=re.escape(told)) as caught:
        load(BaseHandler, model_dir, model=model, config=config)
    # After a RuntimeError TorchServe would keep the failed model registered.
    assert isinstance(caught.value, ValueError)


def test_weights_that_do_not_fit_the_network_are_named(model_dir, doubler):
    torch.save({"other": torch.tensor(1.0)}, model_dir / "weights.pth")
    with pytest.raises(LoadError, match=r"weights\.pth does not fit Doubler"):
        load(BaseHandler, model_dir, model=doubler)


def test_weights_that_would_run_code_are_refused(model_dir, doubler):
    class Trap:
        def __reduce__(self):
            return (print, ("arbitrary code",))

    torch.save({"factor": Trap()}, model_dir / "weights.pth")
    with pytest.raises(LoadError, match="weights_only"):
        load(BaseHandler, model_dir, model=doubler)


def test_buffers_outside_the_state_dict_keep_their_values(model_dir, doubler):
    (model_dir / "network.py").write_text(
        "import torch\n"
        "class Offset(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.factor = torch.nn.Parameter(torch.tensor(0.0))\n"
        "        self.register_buffer('offset', torch.tensor(7.0), persistent=False)\n"
        "    def forward(self, x):\n"
        "        return x * self.factor + self.offset\n"
    )
    handler = load(BaseHandler, model_dir, model=doubler)
    assert ask(handler, [{"body": [1.0]}])[0].json() == [9.0]


def test_torchscript_needs_no_model_file(model_dir):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(torch.nn.ReLU()).save(model_dir / "relu.pt")
    handler = load(BaseHandler, model_dir, model={"serializedFile": "relu.pt"})
    assert ask(handler, [{"body": [-1.0, 2.0]}])[0].json() == [0.0, 2.0]


class Odd(BaseHandler):
    """Returns values whose conversion has a failure of its own kind."""

    def decode(self, request):
        return torch.zeros(1)

    def forward(self, batch):
        return batch

    def encode(self, output, request):
        kinds = {
            b"sparse": torch.eye(2).to_sparse(),
            b"meta": torch.zeros(2, device="meta"),
            b"generator": (i for i in range(2)),
        }
        return kinds.get(request.payload(), 1)


@pytest.mark.parametrize("kind", [b"sparse", b"meta", b"generator"])
def test_whatever_a_reply_raises_costs_that_reply_alone(kind):
    answers = ask(Odd(), [b"good", kind, b"good"])
    assert [a.status for a in answers] == [200, 500, 200]


class Marked(BaseHandler):
    """Sets a header while decoding, and has a postprocess of its own."""

    def decode(self, request):
        self.context.set_response_header(request.index, "x-decoded", str(request.index))
        return torch.tensor(request.payload(), dtype=torch.float32)

    def forward(self, batch):
        if torch.isnan(batch).any():
            raise ValueError
        return batch

    def postprocess(self, data):
        return data.tolist()


@pytest.mark.parametrize("bad", [b"undecodable", {"body": [NAN]}])
def test_a_bad_neighbour_does_not_take_a_requests_headers_away(bad):
    answers = ask(Marked(), [{"body": [1.0]}, bad, {"body": [2.0]}, {"body": [3.0]}])
    assert [a.headers.get("x-decoded") for a in answers] == ["0", None, "2", "3"]


def test_the_kind_of_a_samples_error_is_kept(model_dir, doubler):
    class Picky(Several):
        def encode(self, output, request):
            return output

        def collate(self, samples):
            if any(sample.item() == 7 for sample in samples):
                raise BadRequestError("seven is not served here")
            return super().collate(samples)

    (answer,) = ask(load(Picky, model_dir, model=doubler), [{"body": [1, 7]}])
    assert answer.json()["type"] == "BadRequestError"
    assert answer.json()["message"] == "sample 1: seven is not served here"


def test_a_device_out_of_memory_is_a_507(model_dir, doubler):
    handler = load(BaseHandler, model_dir, model=doubler)

    def full(batch):
        raise torch.cuda.OutOfMemoryError("no room")

    handler.model = full
    assert ask(handler, [{"body": [1.0]}])[0].status == 507


class Tripled(BaseHandler):
    """Makes three samples of each request's one."""

    def decode(self, request):
        sample = super().decode(request)
        return Samples([sample, sample + 1, sample + 2])


def test_samples_of_a_handlers_own_making_are_all_answered(model_dir, doubler):
    (answer,) = ask(load(Tripled, model_dir, model=doubler), [{"body": [1.0]}])
    assert answer.json() == [[2.0], [4.0], [6.0]]


def test_a_foreign_error_in_one_of_several_samples_is_in_the_log(model_dir, doubler, caplog):
    handler = load(BaseHandler, model_dir, model=doubler)

    def picky(batch):
        if (batch == 7).any():
            raise ValueError("secret: no sevens")
        return batch

    handler.model = picky
    (answer,) = ask(handler, [{"body": {"instances": [[1.0], [7.0]]}}])
    assert answer.json()["message"].startswith("sample 1: the model failed on this input")
    assert "secret: no sevens" in caplog.text


def test_limits_hold_for_a_decode_of_a_handlers_own(model_dir, doubler):
    class Own(BaseHandler):
        def decode(self, request):
            return Samples(torch.tensor([float(n)]) for n in request.payload().split(b","))

    config = {"handler": {"max_samples": 2, "max_request_bytes": 9}}
    handler = load(Own, model_dir, model=doubler, config=config)
    answers = ask(handler, [b"1,2", b"1,2,3", b"1.0000000"])
    assert [a.status for a in answers] == [200, 413, 200]
    assert ask(handler, [b"1.00000000"])[0].status == 413


def test_the_log_counts_rows_and_runs_of_a_handle_of_ones_own(caplog):
    class Own(BaseHandler):
        def handle(self, data, context):
            return ["fine" for _ in data]

    handler = Own()
    handler.settings = HandlerSettings(log_batches=True)
    with caplog.at_level(logging.INFO):
        ask(handler, [b"1", b"2"])
    assert "batch=2 forwards=1 samples=2 failed=0" in caplog.text


def test_a_batch_without_events_leaves_no_line_in_the_log(handler, caplog):
    with caplog.at_level(logging.DEBUG):
        ask(handler, [{"body": [1.0, 2.0]}])
    assert "batch=" not in caplog.text


def test_the_threads_that_decode_are_kept_between_batches():
    seen = []
    both = threading.Barrier(2, timeout=30)

    class Threaded(BaseHandler):
        def decode(self, request):
            both.wait()  # so that each batch needs two threads at once
            seen.append(threading.get_ident())
            return torch.zeros(1)

        def forward(self, batch):
            return batch

    handler = Threaded()
    handler.settings = HandlerSettings(decode_threads=2)
    for _ in range(3):
        assert [a.status for a in ask(handler, [b"1", b"2"])] == [200, 200]
    assert len(seen) == 6
    assert len(set(seen)) == 2


def test_stages_of_ones_own_get_no_output_of_a_neighbour_from_a_wrong_split():
    class Shifted(BaseHandler):
        def preprocess(self, data):
            return torch.tensor([row["body"] for row in data])

        def forward(self, batch):
            return batch

        def split(self, outputs, count):
            return [outputs[0], *outputs]

    answers = ask(Shifted(), [{"body": [1.0]}, {"body": [2.0]}])
    assert [a.status for a in answers] == [500, 500]
