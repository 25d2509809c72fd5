"""What every family promises: answers that no neighbour changes, and failures that stay alone."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from makemar.handlers import (
    ImageClassifier,
    ImageSegmenter,
    ObjectDetector,
    TensorHandler,
    TextClassifier,
    TextEmbedder,
    TextGenerator,
    TokenClassifier,
    VoiceActivity,
)
from makemar.handlers.invariance import BATCH_SIZES, assert_batch_invariant
from makemar.handlers.testing import ask, load

NAN = float("nan")


def png(width, height, seed):
    """A picture of coloured stripes and noise; without a seed it is black."""
    noise = np.zeros((height, width, 3)) if seed is None else stripes(width, height, seed)
    file = io.BytesIO()
    Image.fromarray(noise.astype(np.uint8)).save(file, "png")
    return file.getvalue()


def stripes(width, height, seed):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3))
    noise[:, :: seed + 2] //= 3
    return noise


def tensor_rows():
    random = torch.Generator().manual_seed(3)
    return [{"body": torch.randn(n, 4, generator=random).tolist()} for n in (1, 3, 3, 8, 2)]


PICTURES = [png(width, height, seed) for seed, (width, height) in enumerate([(64, 48), (80, 80),
            (33, 90), (64, 48)])]  # fmt: skip

TEXTS = [
    "the cat",
    "Anna lives in a big house in Bonn".replace("house", "flat"),
    {"body": {"text": "zebra"}},
    "the cat sat on the mat, a big mat in Bonn!",
    "the cat",
]
NO_TEXTS = [(b"\xff\xfe", 400), ("the house", 500), ({"body": {"text": "\ud800"}}, 400),
            ("a " * 63, 413)]  # fmt: skip


def recordings():
    random = torch.Generator().manual_seed(4)
    return [{"body": torch.randn(n, generator=random).tolist()} for n in (512, 2000, 700, 3000)]


PROMPTS = [
    {"body": {"text": "the cat", "max_new_tokens": 9, "logprobs": True}},
    {"body": {"text": "a", "max_new_tokens": 3, "logprobs": True}},
    "once upon a time there was a",
    {"body": {"text": "the cat sat", "max_new_tokens": 12, "logprobs": True, "stop": "zz"}},
]
NO_PROMPTS = [("<poison>", 500), ({"body": {"text": "a", "max_new_tokens": 0}}, 400),
              ("long " * 20, 413)]  # fmt: skip
GENERATOR = {"max_length": 64, "tokenizer": "bytes.json", "max_new_tokens": 5,
             "stop_tokens": ["<end>"]}  # fmt: skip

BLACK = png(64, 48, None)


class AllScores(ImageSegmenter):
    """In half precision, the best class of a pixel is decided by rounding; its scores are not."""

    def encode(self, output, request):
        return torch.softmax(output[1].float(), 0)

    def describe(self):
        return {**super().describe(), "output": {"type": "array"}}


# Family → how it is set up, good requests, and (poison, its status).
FAMILIES = {
    "tensor": (
        TensorHandler,
        {"modelFile": "mixer.py"},
        {"shape": [-1, 4]},
        tensor_rows(),
        [({"body": [[1.0]]}, 400), ({"body": [[NAN, 1.0, 2.0, 3.0]]}, 500)],
    ),
    "image classifier": (
        ImageClassifier,
        {"modelFile": "classifier.py"},
        {"top_k": 7, "resize": 40, "crop": 32},
        PICTURES,
        [(PICTURES[0][:200], 400), ({"body": [1, 2]}, 400)],
    ),
    "object detector": (
        ObjectDetector,
        {"modelFile": "detector.py"},
        {"threshold": 0.0},
        PICTURES,
        [(PICTURES[0][:200], 400), (BLACK, 500)],
    ),
    "image segmenter": (
        ImageSegmenter,
        {"modelFile": "segmenter.py"},
        {},
        PICTURES,
        [(PICTURES[0][:200], 400), (BLACK, 500)],
    ),
    "image segmenter, all scores": (
        AllScores,
        {"modelFile": "segmenter.py"},
        {"resize": [32, 32]},
        PICTURES,
        [(BLACK, 500)],
    ),
    "text embedder": (
        TextEmbedder,
        {"modelFile": "encoder.py"},
        {"max_length": 64, "padding": 8, "token_types": True},
        TEXTS,
        [poison for poison in NO_TEXTS if poison[1] != 500],
    ),
    "text classifier": (
        TextClassifier,
        {"modelFile": "text_scores.py"},
        {"max_length": 64},
        TEXTS,
        NO_TEXTS,
    ),
    "token classifier": (
        TokenClassifier,
        {"modelFile": "token_scores.py"},
        {"max_length": 64, "reply": "tokens", "padding": 4},
        TEXTS,
        NO_TEXTS,
    ),
    "voice activity": (
        VoiceActivity,
        {"modelFile": "listener.py"},
        {"probabilities": True, "threshold": 1.0},
        recordings(),
        [({"body": [[1.0]]}, 400), ({"body": [1000.0] * 600}, 500), (b"RIFFRAFF", 400)],
    ),
    "text generator": (TextGenerator, {"modelFile": "causal.py"}, GENERATOR, PROMPTS, NO_PROMPTS),
    "text generator with a cache": (
        TextGenerator,
        {"modelFile": "causal.py"},
        {**GENERATOR, "cache": True, "max_padding_waste": 1.0},
        PROMPTS,
        NO_PROMPTS,
    ),
}


def build(family, networks, dtype="float32"):
    handler_type, model, settings, _, _ = FAMILIES[family]
    torch.manual_seed(0)
    config = {"handler": {**settings, "dtype": dtype}}
    return load(handler_type, networks, model=model, config=config)


# Where two classes are as good as equal, half precision may name either one.
ROUNDING_DECIDES = {"image segmenter"}
CASES = [(family, dtype) for family in FAMILIES for dtype in ("float32", "bfloat16")
         if dtype == "float32" or family not in ROUNDING_DECIDES]  # fmt: skip


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_answers_are_the_same_alone_and_in_batches_of_every_size(family, dtype, networks):
    handler, samples = build(family, networks, dtype), FAMILIES[family][3]
    assert all(answer.status == 200 for answer in ask(handler, samples))
    assert BATCH_SIZES == (1, 2, 3, 7, 8, 32)
    assert_batch_invariant(handler, samples)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_poisonous_request_fails_alone(family, networks):
    handler, samples = build(family, networks), FAMILIES[family][3]
    alone = [ask(handler, [sample])[0].json() for sample in samples]
    for poison, status in FAMILIES[family][4]:
        for place in range(len(samples) + 1):
            answers = ask(handler, [*samples[:place], poison, *samples[place:]])
            failed = answers.pop(place)
            assert (failed.status, failed.json()["code"]) == (status, status)
            assert "secret" not in failed.json()["message"]
            assert all(answer.status == 200 for answer in answers)
            for answer, expected in zip(answers, alone, strict=True):
                assert answer.json() == approximately(expected)


def approximately(value):
    """Compare nested JSON with the tolerance that other batch sizes need."""
    if isinstance(value, dict):
        return {key: approximately(item) for key, item in value.items()}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-4, abs=1e-4) if isinstance(value, float) else value


@pytest.mark.parametrize("family", FAMILIES)
def test_the_warm_up_runs_and_the_description_holds(family, networks, fits):
    handler = build(family, networks)
    handler.inference(handler.collate([handler.examples()[0]] * 3))
    for answer in ask(handler, FAMILIES[family][3]):
        fits(handler, "output", answer.json())
    assert handler.describe()["handler"] == type(handler).__name__


class MixedSizes(ObjectDetector):
    """Let pictures of any size share a forward, where the larger one pads the smaller one."""

    def length(self, sample):
        return max(sample.shape)


class NoMask(TextEmbedder):
    """Let the padding be looked at."""

    def collate(self, samples):
        batch = super().collate(samples)
        batch.inputs["attention_mask"].fill_(1)
        return batch


@pytest.mark.parametrize(
    ("broken", "family"), [(MixedSizes, "object detector"), (NoMask, "text embedder")]
)
def test_a_family_without_its_care_is_caught(broken, family, networks):
    _, model, settings, samples, _ = FAMILIES[family]
    torch.manual_seed(0)
    settings = {**settings, "max_padding_waste": 1.0}
    handler = load(broken, networks, model=model, config={"handler": settings})
    with pytest.raises(AssertionError, match="gets another answer"):
        assert_batch_invariant(handler, samples)
