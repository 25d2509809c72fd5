"""TextGenerator: each text goes on as it would alone, ends where it should, and can be streamed."""

import dataclasses
import itertools
import json
import math
import socket
import struct
from collections import Counter

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from makemar.handlers import LoadError, TextGenerator, TextGeneratorSettings
from makemar.handlers.generation import Row, choose
from makemar.handlers.generation_options import GenerationOptions
from makemar.handlers.invariance import assert_batch_invariant
from makemar.handlers.testing import Context, ask, load

SETTINGS = {"max_length": 64, "tokenizer": "bytes.json", "max_new_tokens": 8}


@pytest.fixture(scope="module")
def build(networks):
    def build(kind=TextGenerator, **settings):
        torch.manual_seed(0)
        config = {"handler": {**SETTINGS, **settings}}
        return load(kind, networks, model={"modelFile": "causal.py"}, config=config)

    return build


def body(text, **options):
    return {"body": {"text": text, **options}}


def by_hand(handler, text, count):
    """Continue a text with nothing but the network: the best token, one at a time."""
    ids = list(handler.tokenizer.encode(text).ids)
    for _ in range(count):
        row = torch.tensor([ids])
        with torch.no_grad():
            ids.append(int(handler.model(row, torch.ones_like(row))[0, -1].argmax()))
    return handler.tokenizer.decode(ids[-count:])


@pytest.mark.parametrize("cache", [False, True])
def test_each_text_goes_on_as_the_network_alone_would(build, cache, fits):
    handler = build(cache=cache)
    texts = ["the cat", "a", "on and on and on"]
    for text, answer in zip(texts, ask(handler, texts), strict=True):
        reply = answer.json()
        assert reply["text"] == by_hand(handler, text, 8)
        assert (reply["finish_reason"], reply["tokens"]) == ("length", 8)
        assert reply["prompt_tokens"] == len(text)
        fits(handler, "output", reply)
    fits(handler, "input", "the cat")
    fits(handler, "input", body("a", temperature=0.5, stop=["x"], seed=3)["body"])


def test_the_cache_changes_nothing_but_the_work(build):
    prompts = [body("the cat", max_new_tokens=20, logprobs=True), body("a", logprobs=True)]
    plain, cached = (ask(build(cache=cache), prompts) for cache in (False, True))
    for one, other in zip(plain, cached, strict=True):
        assert one.json()["text"] == other.json()["text"]
        assert one.json()["logprobs"] == pytest.approx(other.json()["logprobs"], abs=1e-4)


def test_with_a_cache_only_new_tokens_are_read_and_ended_rows_are_let_go(build):
    handler = build(cache=True)
    seen, model = [], handler.model
    handler.model = lambda **inputs: (seen.append(tuple(inputs["input_ids"].shape)),
                                      model(**inputs))[1]  # fmt: skip
    ask(handler, [body("abc", max_new_tokens=4), body("xyz", max_new_tokens=2)])
    assert seen == [(2, 3), (2, 1), (1, 1), (1, 1)]


class ForgetsPositions(TextGenerator):
    """Count positions from the start of the batch's longest text."""

    def _network(self):
        network = super()._network()
        call = network.network

        def wrong(inputs):
            total = inputs["attention_mask"].shape[1]
            places = torch.arange(total)[None, -inputs["input_ids"].shape[1] :]
            return call({**inputs, "position_ids": places.expand(len(inputs["input_ids"]), -1)})

        network.network = wrong
        return network


def test_positions_that_count_the_padding_are_caught(build):
    handler = build(ForgetsPositions, cache=True, max_padding_waste=1.0)
    prompts = [body(text, logprobs=True) for text in ("the cat", "a", "on and on")]
    with pytest.raises(AssertionError, match="gets another answer"):
        assert_batch_invariant(handler, prompts)


def test_drawn_texts_depend_on_their_seed_and_on_no_neighbour(build):
    handler = build()
    drawn = [body("the cat", temperature=2.0, seed=seed) for seed in (1, 2, 1)]
    first, second, third = (answer.json()["text"] for answer in ask(handler, drawn))
    assert first == third != second
    assert_batch_invariant(handler, [*drawn, body("a", temperature=1.0, top_k=3, seed=4)])
    free = [body("the cat", temperature=5.0, max_new_tokens=12)] * 2
    assert len({answer.json()["text"] for answer in ask(handler, free)}) == 2


def test_a_text_ends_before_what_it_shall_stop_at(build):
    handler = build()
    whole = by_hand(handler, "the cat", 8)
    (answer,) = ask(handler, [body("the cat", stop=[whole[3:5], "never"])])
    assert answer.json()["text"] == whole[: whole.index(whole[3:5])]
    assert answer.json()["finish_reason"] == "stop"


def test_a_stop_token_ends_a_text_and_is_no_part_of_it(build):
    handler = build(stop_tokens=["<end>"])
    model = handler.model

    def ending(input_ids, attention_mask):
        scores = model(input_ids, attention_mask).clone()
        scores[:, 9:, 256] = 1e6
        return scores

    handler.model = ending
    long, short = (answer.json() for answer in ask(handler, ["the cat!", "12345678901"]))
    assert (long["finish_reason"], long["tokens"]) == ("stop", 2)
    assert (short["finish_reason"], short["text"]) == ("stop", "")


def test_the_warm_up_leaves_room_for_new_tokens(build):
    handler = build(cache=True)
    handler.settings = dataclasses.replace(handler.settings, compile="default")
    short, long = handler.examples()
    assert (len(short.ids), len(long.ids)) == (4, 62)
    for prompt, row in handler.inference(handler.collate([short, long])):
        assert len(row.ids) == prompt.options.max_new_tokens == 2


def test_no_text_grows_over_what_the_network_can_take(build):
    full, almost = ask(build(), ["x" * 64, "x" * 60])
    assert full.status == 413
    assert "leaves no room for new ones in 64" in full.json()["message"]
    assert (almost.json()["tokens"], almost.json()["finish_reason"]) == (4, "length")


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 0},
        {"max_new_tokens": 5000},
        {"max_new_tokens": 1.5},
        {"max_new_tokens": True},
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": "hot"},
        {"top_p": 2},
        {"top_k": -1},
        {"stop": [""]},
        {"stop": 3},
        {"seed": 2**64},
        {"stream": 1},
    ],
)
def test_an_option_that_means_nothing_is_a_400_that_names_it(build, options):
    bad, good = ask(build(), [body("a", **options), "a"])
    assert (bad.status, good.status) == (400, 200)
    assert bad.json()["message"].startswith(f"{next(iter(options))} is")


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (["x"] * 17, "stop has 17 texts, the limit is 16"),
        (["x", "y" * 257], "a text in stop has 257 characters, the limit is 256"),
        ("y" * 100_000, "a text in stop has 100000 characters, the limit is 256"),
    ],
)
def test_too_much_to_stop_at_is_a_400_that_names_the_limit(build, fits, stop, message):
    handler = build()
    bad, good = ask(handler, [body("a", stop=stop), body("a", stop=["x" * 256] * 16)])
    assert (bad.status, good.status) == (400, 200)
    assert bad.json()["message"] == message
    fits(handler, "input", body("a", stop=["x" * 256] * 16)["body"])
    with pytest.raises(jsonschema.ValidationError):
        fits(handler, "input", body("a", stop=stop)["body"])


def test_scores_that_are_no_numbers_cost_only_their_own_row(build):
    handler = build()
    model, z = handler.model, handler.tokenizer.token_to_id("z")

    def sick(input_ids, attention_mask):
        scores = model(input_ids, attention_mask).clone()
        scores[(input_ids == z).any(1)] = math.nan
        return scores

    handler.model = sick
    bad, good = ask(handler, ["zzzzzz", "abc"])
    assert (bad.status, good.status) == (500, 200)
    assert bad.json()["message"] == "the network gave scores that are no numbers"


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, {0, 1, 2, 3}),
        ({"top_k": 2}, {0, 1}),
        ({"top_p": 0.6}, {0, 1}),
        ({"top_p": 0.0}, {0}),
        ({"top_k": 3, "top_p": 0.85}, {0, 1, 2}),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_probable(options, allowed):
    shares = torch.tensor([0.5, 0.3, 0.15, 0.05])
    wanted = GenerationOptions(1, temperature=1.0, **options)
    random = torch.Generator().manual_seed(0)
    drawn = Counter(choose(shares.log(), wanted, random) for _ in range(4000))
    assert set(drawn) == allowed
    total = sum(float(shares[i]) for i in allowed)
    for token in allowed:
        assert drawn[token] / 4000 == pytest.approx(float(shares[token]) / total, abs=0.03)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=20), st.integers(0, 1000),
       st.floats(0, 1), st.integers(1, 5))  # fmt: skip
def test_whatever_is_drawn_is_a_token(scores, seed, top_p, top_k):
    options = GenerationOptions(1, temperature=0.7, top_p=top_p, top_k=top_k)
    scores = torch.tensor(scores)
    token = choose(scores, options, torch.Generator().manual_seed(seed))
    assert 0 <= token < len(scores)
    assert (scores > scores[token]).sum() < top_k


@given(st.text(max_size=12), st.lists(st.text(min_size=1, max_size=3), max_size=2))
def test_what_has_settled_is_never_taken_back(text, stops):
    data = list(text.encode("utf-8"))
    options = GenerationOptions(max(1, len(data)), stop=tuple(stops))
    row = Row([0], options, decode=lambda ids: bytes(ids).decode("utf-8", "replace"),
              stop_ids=frozenset())  # fmt: skip
    settled = [""]
    for byte in data:
        if not row.reason:
            row.take(torch.nn.functional.one_hot(torch.tensor(byte), 256).float())
            settled.append(row.settled())
    assert all(row.text.startswith(part) for part in settled)
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(settled))
    assert not any(stop in row.text for stop in stops)


class Wire:
    """Stand at the server's end of a worker's socket, and read its messages as Java does."""

    def __init__(self):
        self.here, self.there = socket.socketpair()
        self.here.settimeout(10)

    def messages(self):
        self.there.close()
        data = b"".join(iter(lambda: self.here.recv(65536), b""))
        self.here.close()
        while data:
            message, data = self.message(data)
            yield message

    def message(self, data):
        code, data = self.number(data)
        assert code == 200
        _, data = self.text(data)
        parts = {}
        while True:
            length, rest = self.number(data)
            if length == -1:
                return parts, rest
            name, data = self.text(data)
            _, data = self.text(data)
            _, data = self.number(data)
            _, data = self.text(data)
            count, data = self.number(data)
            headers = {}
            for _ in range(count):
                key, data = self.text(data)
                headers[key], data = self.text(data)
            assert headers["ts_stream_next"] == "true"
            assert headers["content-type"].startswith("text/event-stream")
            parts[name], data = self.text(data)

    def number(self, data):
        return struct.unpack("!i", data[:4])[0], data[4:]

    def text(self, data):
        length, data = self.number(data)
        return data[:length].decode(), data[length:]


def stream(handler, bodies):
    """Ask as one batch; return the messages in between, and the last part of each answer."""
    rows = [dict(body) for body in bodies]
    context = Context(model_dir=None, model={}, config={}, headers=[{} for _ in rows])
    wire = Wire()
    context.cl_socket = wire.there
    last = handler.handle(rows, context)
    return list(wire.messages()), last, context


def events(text):
    assert text.endswith("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in text.strip().split("\n\n")]


def test_a_streamed_text_arrives_in_parts_and_its_neighbours_in_one(build):
    handler = build(max_new_tokens=6)
    prompts = [body("the cat"), body("the cat", stream=True), body("a", stream=True)]
    messages, last, context = stream(handler, prompts)
    assert {name for message in messages for name in message} == {"request-1", "request-2"}
    assert len(messages) >= 3
    whole = json.loads(last[0])
    parts = events("".join(message.get("request-1", "") for message in messages))
    final = events(last[1].decode())
    assert "".join(part.get("text", "") for part in [*parts, *final]) == whole["text"]
    assert final[-1] == {key: value for key, value in whole.items() if key != "text"}
    # TorchServe asks it which parts are the last of a stream.
    assert [context.stopping_criteria[i](last[i]) for i in range(3)] == [None, True, True]


def test_a_streamed_text_that_fails_midway_says_so_and_its_neighbours_go_on(build):
    handler = build(max_new_tokens=6)
    model, t = handler.model, handler.tokenizer.token_to_id("t")

    def breaking(input_ids, attention_mask):
        if ((input_ids[:, 0] == t) & (attention_mask.sum(1) > 9)).any():
            raise ValueError("secret: too long")
        return model(input_ids, attention_mask)

    handler.model = breaking
    messages, last, context = stream(handler, [body("the cat", stream=True), body("a")])
    sent = "".join(message["request-0"] for message in messages)
    expected = by_hand_plain(model, handler, "the cat", 3)
    assert "".join(part["text"] for part in events(sent)) in expected
    final = events(last[0].decode())[-1]
    assert final["finish_reason"] == "error"
    assert "secret" not in final["error"]
    assert context.stopping_criteria[0](last[0]) is True
    assert json.loads(last[1])["tokens"] == 6


def by_hand_plain(model, handler, text, count):
    whole, handler.model = handler.model, model
    try:
        return by_hand(handler, text, count)
    finally:
        handler.model = whole


def test_outside_a_server_a_streamed_text_comes_at_once(build):
    (answer,) = ask(build(), [body("the cat", stream=True)])
    assert answer.headers["content-type"].startswith("text/event-stream")
    text, facts = events(answer.body.decode())
    assert text["text"]
    assert facts["finish_reason"] == "length"


def test_a_list_of_texts_is_answered_but_not_streamed(build):
    instances = [{"text": "a", "max_new_tokens": 2}, "the cat"]
    two = {"instances": instances, "parameters": {"max_new_tokens": 3}}
    both = {"instances": ["a"], "parameters": {"stream": True}}
    answered, refused = ask(build(), [{"body": two}, {"body": both}])
    assert [reply["tokens"] for reply in answered.json()["predictions"]] == [2, 3]
    assert refused.status == 400


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop_tokens": ["</s>"]}, "the tokenizer has no token '</s>'"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0, it must be at least 1"),
        ({"max_new_tokens": 9, "most_new_tokens": 8}, "at most handler.most_new_tokens, 8"),
        ({"truncate": True}, "would cut off the end of a prompt"),
    ],
)
def test_settings_that_mean_nothing_are_refused(build, settings, message):
    with pytest.raises(LoadError, match=message):
        build(**settings)
    assert TextGeneratorSettings().max_new_tokens == 64


@pytest.mark.parametrize("answer", [torch.zeros(1, 258), (torch.zeros(1, 2, 258),)])
def test_a_network_that_is_not_causal_is_named(build, answer):
    for cache in (False, True):
        handler = build(cache=cache)
        handler.model = lambda **inputs: answer
        (reply,) = ask(handler, ["abc"])
        assert reply.status == 500
        assert "the network" in reply.json()["message"]


def test_parts_reach_their_own_client_beside_requests_that_failed(build):
    """The stages then see a part of the batch, in which requests have other places."""

    class Own(TextGenerator):
        def postprocess(self, data):
            return super().postprocess(data)

    handler = build(Own, max_new_tokens=6)
    prompts = [body(""), body("the cat", stream=True), body("a", stream=True)]
    messages, last, context = stream(handler, prompts)
    assert {name for message in messages for name in message} == {"request-1", "request-2"}
    for index, text in ((1, "the cat"), (2, "a")):
        whole = json.loads(ask(handler, [body(text)])[0].body)
        sent = "".join(message.get(f"request-{index}", "") for message in messages)
        parts = events(sent + last[index].decode())
        assert "".join(part.get("text", "") for part in parts) == whole["text"]
    assert [context.stopping_criteria[i](last[i]) for i in range(3)] == [None, True, True]
