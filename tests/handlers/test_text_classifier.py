"""TextClassifier: probabilities that sum to one, pairs of texts, and what each word counts for."""

import pytest
import torch

from makemar.handlers import TextClassifier
from makemar.handlers.testing import ask, load

MODEL = {"modelFile": "text_scores.py"}


@pytest.fixture(scope="module")
def build(networks):
    def build(**settings):
        torch.manual_seed(0)
        config = {"handler": {"max_length": 64, **settings}}
        return load(TextClassifier, networks, model=MODEL, config=config)

    return build


def test_classes_that_exclude_each_other_sum_to_one_the_best_first(build):
    handler = build()
    handler.mapping = {"0": "animal", "1": "place", "2": "thing", "3": "name"}
    reply = ask(handler, ["the cat"])[0].json()
    assert set(reply) == set(handler.mapping.values())
    assert sum(reply.values()) == pytest.approx(1)
    assert list(reply.values()) == sorted(reply.values(), reverse=True)


def test_labels_that_do_not_exclude_each_other_are_independent(build):
    reply = ask(build(multi_label=True, top_k=2), ["the cat"])[0].json()
    scores = build().inference(build().collate([build().read("the cat")]))[0]
    assert list(reply.values()) == pytest.approx(torch.sigmoid(scores).topk(2).values.tolist())


def test_a_pair_of_texts_is_told_apart_by_its_types(build):
    handler = build(token_types=True)
    body = {"text": "the cat", "pair": "a mat"}
    pair, swapped, joined = ask(
        handler,
        [{"body": body}, {"body": {"text": "a mat", "pair": "the cat"}}, "the cat a mat"],
    )
    assert pair.json() != swapped.json() != joined.json()
    sample = handler.read(body)
    assert handler.collate([sample]).inputs["token_type_ids"].tolist() == [[0] * 4 + [1] * 3]


def test_an_explanation_is_what_leaving_a_word_out_changes(build):
    handler = build()
    text = "the  cat sat on the mat"
    explained, predicted, failed = ask(
        handler, [text, text, "the house"], headers=[{"explain": "True"}, {}, {"explain": "True"}]
    )
    reply, whole = explained.json(), predicted.json()
    assert reply["class"] == next(iter(whole))
    assert reply["probability"] == pytest.approx(whole[reply["class"]], abs=1e-5)
    assert [word["text"] for word in reply["words"]] == text.split()
    assert all(text[word["start"] : word["end"]] == word["text"] for word in reply["words"])
    (without,) = ask(handler, ["the   sat on the mat"])
    lost = whole[reply["class"]] - without.json()[reply["class"]]
    assert reply["words"][1]["influence"] == pytest.approx(lost, abs=1e-5)
    assert failed.status == 500


def test_an_explanation_of_too_many_words_is_refused(build):
    (answer,) = ask(build(explain_words=2), ["the cat sat"], headers=[{"explain": "True"}])
    assert answer.status == 413
    assert answer.json()["message"] == "the text has 3 words, the limit of an explanation is 2"


def test_a_handler_with_an_initialize_of_its_own_may_have_keys_of_its_own(networks):
    class Own(TextClassifier):
        def initialize(self, context):
            super().initialize(context)
            self.greeting = self.model_yaml_config["handler"]["greeting"]

    handler = load(Own, networks, model=MODEL, config={"handler": {"greeting": "hello"}})
    assert handler.greeting == "hello"


def test_the_settings_are_read_once(networks, caplog):
    class Own(TextClassifier):
        def initialize(self, context):
            super().initialize(context)

    load(Own, networks, model=MODEL, config={"handler": {"greeting": "hello"}})
    told = [message for message in caplog.messages if "handler.greeting" in message]
    assert told == ["handler.greeting is no setting of makemar; it is left to the handler"]
