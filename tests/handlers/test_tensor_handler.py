"""TensorHandler: numbers in, numbers out, and a clear word about arrays that do not fit."""

import io

import numpy as np
import pytest
import torch

from makemar.handlers import LoadError, TensorHandler, TensorHandlerSettings
from makemar.handlers.testing import ask, load


class Echo(TensorHandler):
    """Answer with the sample itself and its dtype."""

    def forward(self, batch):
        return batch

    def encode(self, output, request):
        return {"dtype": str(output.dtype).removeprefix("torch."), "values": output}


def echo(**settings):
    handler = Echo()
    handler.settings = TensorHandlerSettings(**settings)
    return handler


@pytest.fixture
def mixer(networks):
    torch.manual_seed(0)
    config = {"handler": {"shape": [-1, 4]}}
    return load(TensorHandler, networks, model={"modelFile": "mixer.py"}, config=config)


def test_rows_of_different_lengths_are_answered_in_one_batch(mixer, fits):
    bodies = [[[1.0, 2.0, 3.0, 4.0]] * length for length in (1, 5, 2, 1)]
    answers = ask(mixer, [{"body": body} for body in bodies])
    for body, answer in zip(bodies, answers, strict=True):
        expected = mixer.model(torch.tensor([body]))
        assert answer.json()["sum"] == pytest.approx(expected["sum"][0].tolist(), abs=1e-6)
        fits(mixer, "input", body)
    assert len({len(str(answer.json())) for answer in answers}) > 1


def test_a_wrong_shape_is_named_and_costs_only_its_own_request(mixer):
    good, wide = [[1.0, 2.0, 3.0, 4.0]], [[1.0, 2.0, 3.0, 4.0, 5.0]]
    answers = ask(mixer, [{"body": body} for body in (good, wide, [], good)])
    assert [answer.status for answer in answers] == [200, 400, 400, 200]
    message = answers[1].json()["message"]
    assert message == "expected an array of shape (any, 4), got (1, 5)"


@pytest.mark.parametrize(
    ("dtype", "sent", "stored"),
    [
        ("float32", [1, 2], [1.0, 2.0]),
        ("float64", [0.1], [0.1]),
        ("int64", [2**53 + 1], [2**53 + 1]),
        ("uint8", [0, 255], [0, 255]),
        ("bool", [0, 1, True], [False, True, True]),
    ],
)
def test_numbers_arrive_in_the_wanted_dtype_with_all_their_digits(dtype, sent, stored):
    (answer,) = ask(echo(input_dtype=dtype), [{"body": sent}])
    assert answer.json() == {"dtype": dtype, "values": stored}


@pytest.mark.parametrize(
    ("dtype", "sent"),
    [
        ("uint8", [256]),
        ("uint8", [-1]),
        ("int32", [1.5]),
        ("int64", [float("nan")]),
        ("int64", [2**70]),
        ("bool", [2]),
        ("float32", [[1.0], [1.0, 2.0]]),
        ("float32", ["1.0"]),
        ("int32", [3.0]),
        ("float32", "one"),
        ("float32", {}),
        ("float32", {"a": [1.0], "b": "x"}),
        ("float32", None),
        ("float32", []),
    ],
)
def test_what_is_no_array_of_that_dtype_is_a_400(dtype, sent):
    (answer,) = ask(echo(input_dtype=dtype), [{"body": sent}])
    assert answer.status == 400
    assert answer.json()["type"] == "BadRequestError"


def test_a_numpy_file_is_an_array_too():
    file = io.BytesIO()
    np.save(file, np.arange(3, dtype=np.int16))
    (answer,) = ask(echo(input_dtype="uint8"), [file.getvalue()])
    assert answer.json() == {"dtype": "uint8", "values": [0, 1, 2]}


def test_an_object_names_the_arguments_of_the_network(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, left, right):\n"
        "        return left - right\n"
    )
    handler = load(TensorHandler, tmp_path, model={"modelFile": "net.py"})
    bodies = [{"left": [5.0], "right": [3.0]}, {"left": [1.0]}, {"right": [1.0], "left": [2.0]}]
    answers = ask(handler, [{"body": body} for body in bodies])
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert [answers[0].json(), answers[2].json()] == [[2.0], [1.0]]


def test_the_warm_up_runs_the_shape_in_the_settings(mixer):
    (example,) = mixer.examples()
    assert example.shape == (1, 4)
    assert TensorHandler().examples() == ()


@pytest.mark.parametrize("settings", [{"input_dtype": "float"}, {"shape": (3, 0)}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(LoadError, match=r"handler\.(input_dtype|shape)"):
        TensorHandlerSettings(**settings)


def test_the_description_holds_for_what_is_answered(mixer, fits):
    (answer,) = ask(mixer, [{"body": [[0.5, 1, 2, 3]]}])
    for value in answer.json().values():
        fits(mixer, "output", value)
