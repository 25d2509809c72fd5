"""TokenClassifier: entities stand where their characters stand in the text that was sent."""

import pytest
import torch

from makemar.handlers import LoadError, TokenClassifier, TokenClassifierSettings
from makemar.handlers.testing import ask, load
from makemar.handlers.token_classifier import Span, join_words

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
# Scores by the first letter of a token, so that what is right is plain to see.
NETWORK = """
import torch

class Letters(torch.nn.Module):
    LABEL_OF = {LABEL_OF}

    def forward(self, input_ids, attention_mask):
        rows = input_ids.tolist()
        labels = torch.tensor([[self.LABEL_OF.get(i, 0) for i in row] for row in rows])
        return 4.0 * torch.nn.functional.one_hot(labels, 5)
"""


@pytest.fixture(scope="module")
def build(networks, tmp_path_factory):
    import json

    from tokenizers import Tokenizer

    folder = tmp_path_factory.mktemp("entities")
    text = (networks / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text)
    (folder / "index_to_name.json").write_text(json.dumps(dict(enumerate(LABELS))))
    known = {"anna": 1, "b": 2, "bonn": 3, "m": 3, "##a": 1}
    tokenizer = Tokenizer.from_str(text)
    label_of = {tokenizer.token_to_id(token): label for token, label in known.items()}
    (folder / "letters.py").write_text(NETWORK.replace("{LABEL_OF}", repr(label_of)))

    def build(**settings):
        config = {"handler": {"max_length": 64, **settings}}
        return load(TokenClassifier, folder, model={"modelFile": "letters.py"}, config=config)

    return build


def test_entities_stand_at_their_characters(build, fits):
    text = "é: Anna  B lives in BONN, Marburg"
    handler = build()
    (answer,) = ask(handler, [text])
    found = [(entity["entity"], entity["text"]) for entity in answer.json()]
    assert found == [("PER", "Anna  B"), ("LOC", "BONN"), ("LOC", "Marburg")]
    for entity in answer.json():
        assert text[entity["start"] : entity["end"]] == entity["text"]
        assert entity["score"] == pytest.approx(0.9317, abs=1e-3)
    fits(handler, "output", answer.json())


def test_a_pair_shows_entities_of_its_first_text_only(build):
    (answer,) = ask(build(), [{"body": {"text": "Bonn", "pair": "Anna"}}])
    assert [entity["text"] for entity in answer.json()] == ["Bonn"]


def test_all_tokens_come_with_all_labels_where_the_settings_say_so(build, fits):
    handler = build(reply="tokens")
    (answer,) = ask(handler, ["Anna m"])
    assert [(token["start"], token["end"]) for token in answer.json()] == [(0, 4), (5, 6)]
    assert set(answer.json()[0]["labels"]) == set(LABELS)
    fits(handler, "output", answer.json())


def test_doubtful_entities_are_left_out(build):
    (answer,) = ask(build(threshold=0.95), ["Anna in Bonn"])
    assert answer.json() == []


def spans(labels):
    return [Span(i, i + 1, label, 0.5) for i, label in enumerate(labels.split())]


@pytest.mark.parametrize(
    ("labels", "entities"),
    [
        ("O O", []),
        ("B-A I-A O B-A", [("A", 0, 2), ("A", 3, 4)]),
        ("B-A B-A I-A", [("A", 0, 1), ("A", 1, 3)]),
        ("I-A I-B I-B", [("A", 0, 1), ("B", 1, 3)]),
        ("A A O A B", [("A", 0, 2), ("A", 3, 4), ("B", 4, 5)]),
        ("S-A B-A I-A E-A I-A", [("A", 0, 1), ("A", 1, 4), ("A", 4, 5)]),
        ("U-A B-A L-A", [("A", 0, 1), ("A", 1, 3)]),
        ("X-ray X-ray", [("X-ray", 0, 2)]),
        ("I-A O I-A", [("A", 0, 1), ("A", 2, 3)]),
    ],
)
def test_words_are_joined_as_their_labels_say(labels, entities):
    joined = join_words(spans(labels), outside="O")
    assert [(entity.label, entity.start, entity.end) for entity in joined] == entities


def test_a_model_without_a_score_per_token_is_named(build):
    handler = build()
    handler.model = lambda input_ids, attention_mask: torch.zeros(len(input_ids), 5)
    (answer,) = ask(handler, ["Anna"])
    assert answer.status == 500
    assert "labels for each token" in answer.json()["message"]


def test_a_reply_that_does_not_exist_is_refused():
    with pytest.raises(LoadError, match=r"handler\.reply is 'words', not one of entities, tokens"):
        TokenClassifierSettings(reply="words")
