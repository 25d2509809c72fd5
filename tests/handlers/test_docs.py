"""The examples of docs/handlers.md do what the text beside them says."""

import re
from pathlib import Path

import pytest
import torch

from makemar.handlers.testing import ask

DOCS = Path(__file__).parents[2] / "docs" / "handlers.md"


@pytest.fixture(scope="module")
def examples():
    """Everything that the code blocks with a class in them define."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        if "class " in block:
            exec(block, names)
    return names


def test_a_first_handler_answers_a_bad_request_alone(examples):
    handler = examples["Sentiment"]()
    handler.model = torch.nn.Identity()
    headers = [{}, {}, {"X-Verbose": "1"}]
    plain, bad, verbose = ask(handler, ["What a day!", " ", "…"], headers=headers)
    assert (plain.status, bad.status, verbose.status) == (200, 400, 200)
    assert set(plain.json()) == {"positive"}
    assert verbose.headers["x-model"] == "sentiment"


def test_a_ragged_handler_answers_without_its_neighbours_padding(examples):
    handler = examples["PerStep"]()
    handler.model = lambda padded: padded + 1
    short, long = ask(handler, [{"body": [1.0]}, {"body": [1.0, 2.0, 3.0]}])
    assert short.json() == [2.0]
    assert long.json() == [2.0, 3.0, 4.0]


def test_settings_of_a_handlers_own_have_a_default_and_a_range(examples):
    handler = examples["Top"]()
    handler.model = torch.nn.Identity()
    (answer,) = ask(handler, [{"body": [0.0, 9.0, 1.0, 5.0, 2.0, 7.0]}])
    assert answer.json() == [1, 5, 3, 4, 2]
    with pytest.raises(ValueError, match="top"):
        examples["TopSettings"](top=0)
