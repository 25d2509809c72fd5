"""TextEmbedder with the real weights of MiniLM: close in meaning, close in angle."""

import dataclasses

import pytest
import torch

from makemar.handlers import LoadError, TextEmbedder, TextEmbedderSettings
from makemar.handlers.invariance import assert_batch_invariant
from makemar.handlers.testing import ask, load

SENTENCES = [
    "A man is playing a guitar.",
    "Someone plays an instrument with six strings, slowly and beautifully, on the stage.",
    "The stock market fell sharply today.",
    "Shares lost a lot of their value.",
]
MODEL = {"modelFile": "network.py", "serializedFile": "minilm.safetensors"}


@pytest.fixture(scope="module")
def embedder(minilm):
    return load(TextEmbedder, minilm, model=MODEL, config={"handler": {"max_length": 256}})


def vectors(handler, texts):
    return torch.tensor([answer.json() for answer in ask(handler, texts)])


def test_sentences_that_mean_the_same_are_closer_than_others(embedder):
    guitar, strings, market, shares = vectors(embedder, SENTENCES)
    near = min(guitar @ strings, market @ shares)
    far = max(guitar @ market, guitar @ shares, strings @ market, strings @ shares)
    assert near > 0.45 > 0.25 > far


def test_vectors_have_length_one_and_the_size_of_the_network(embedder, fits):
    found = vectors(embedder, SENTENCES)
    assert found.shape == (4, 384)
    assert found.norm(dim=1).tolist() == pytest.approx([1.0] * 4, abs=1e-5)
    fits(embedder, "output", found[0].tolist())
    fits(embedder, "input", SENTENCES[0])
    fits(embedder, "input", {"text": SENTENCES[0]})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_padding_and_neighbours_change_no_vector(minilm, dtype):
    config = {"handler": {"dtype": dtype, "padding": 16, "max_length": 256, "warmup": False}}
    handler = load(TextEmbedder, minilm, model=MODEL, config=config)
    # A coordinate is about 0.05: the tolerance has to be far below it.
    tolerance = {"float32": 1e-5, "bfloat16": 1e-2}[dtype]
    assert_batch_invariant(handler, SENTENCES, batch_sizes=(2, 7), tolerance=tolerance)


def test_the_vectors_are_those_of_the_reference_implementation(embedder, minilm):
    transformers = pytest.importorskip("transformers")
    import safetensors.torch

    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    reference = transformers.BertModel(config).eval()
    reference.load_state_dict(
        safetensors.torch.load_file(minilm / "minilm.safetensors"), strict=False
    )
    for text, vector in zip(SENTENCES, vectors(embedder, SENTENCES), strict=True):
        with torch.no_grad():
            ids = torch.tensor([embedder.tokenizer.encode(text).ids])
            hidden = reference(ids).last_hidden_state[0].mean(0)
        assert torch.allclose(vector, hidden / hidden.norm(), atol=1e-5)


def test_a_text_over_the_limit_is_a_413_or_cut_where_the_settings_say_so(minilm):
    settings = {"max_length": 8, "warmup": False}
    long = "one two three four five six seven eight nine"
    strict, cutting = (
        load(TextEmbedder, minilm, model=MODEL, config={"handler": {**settings, **more}})
        for more in ({}, {"truncate": True})
    )
    refused, short = ask(strict, [long, "one two three four five six"])
    assert (refused.status, short.status) == (413, 200)
    assert refused.json()["message"] == "the text has 11 tokens, the limit is 8"
    assert vectors(cutting, [long]).tolist()[0] == pytest.approx(short.json(), abs=1e-5)


def test_what_is_no_text_is_a_400_of_its_own(embedder):
    texts = [b"caf\xe9", "", {"body": 3}, {"body": {"txt": "a"}}, {"body": "\ud800"}]
    answers = ask(embedder, [*texts, "fine", b"caf\xc3\xa9", {"body": {"text": "fine"}}])
    assert [answer.status for answer in answers] == [400] * 5 + [200] * 3
    assert answers[5].json() == pytest.approx(answers[7].json(), abs=1e-5)
    assert "'text' is missing (parts sent: txt)" in answers[3].json()["message"]


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_no_pooling_looks_at_padding(networks, pooling):
    torch.manual_seed(0)
    config = {"handler": {"pooling": pooling, "normalize": False, "max_length": 32}}
    handler = load(TextEmbedder, networks, model={"modelFile": "encoder.py"}, config=config)
    texts = ["the cat", "the cat sat on a big mat in the house of anna", "zebra"]
    assert_batch_invariant(handler, texts)
    hidden = handler.model(**handler.collate([handler.read(texts[0])]).inputs)[0]
    expected = {"mean": hidden.mean(0), "first": hidden[0], "max": hidden.amax(0)}[pooling]
    assert ask(handler, texts)[0].json() == pytest.approx(expected.tolist(), abs=1e-4)


def test_settings_and_files_that_do_not_exist_are_named(networks, tmp_path):
    with pytest.raises(LoadError, match=r"handler\.pooling is 'sum', not one of mean, first, max"):
        TextEmbedderSettings(pooling="sum")
    with pytest.raises(LoadError, match=r"tokenizer.json is not in the archive"):
        load(TextEmbedder, tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(LoadError, match=r"tokenizer.json is not a tokenizer's file"):
        load(TextEmbedder, tmp_path)


def test_only_where_a_new_length_costs_a_first_call_a_long_text_warms_up(networks):
    config = {"handler": {"max_length": 32, "warmup": False}}
    handler = load(TextEmbedder, networks, model={"modelFile": "encoder.py"}, config=config)
    assert [len(sample.ids) for sample in handler.examples()] == [6]
    handler.settings = dataclasses.replace(handler.settings, compile="default")
    assert [len(sample.ids) for sample in handler.examples()] == [6, 32]
