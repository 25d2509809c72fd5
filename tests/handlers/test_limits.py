"""A setting out of its range is refused in one line: the key, the value and what is allowed."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import makemar.handlers
from makemar.handlers import BaseHandler, HandlerSettings, ImageClassifier, LoadError
from makemar.handlers.limits import limited
from makemar.handlers.settings import read_settings
from makemar.handlers.testing import load

INF, NAN = float("inf"), float("nan")
EVERYWHERE = {
    "threads": [0, -1, 10**9],
    "decode_threads": [0, -1, 10**9],
    "dtype": ["float64"],
    "compile": ["fast"],
    "quantize": ["int4"],
    "max_forward_batch": [0],
    "max_tokens": [0],
    "max_padding_waste": [-0.1, 1.1, NAN],
    "max_request_bytes": [0],
    "max_samples": [0],
    "max_nesting": [0],
    "max_response_bytes": [0],
}
NORMALIZED = {
    "mean": [[], [0.5], [0.5] * 4, [0.5, NAN, 0.5]],
    "std": [[0.5], [0.5, 0, 0.5], [-1] * 3],
}
PICTURES = {"max_pixels": [0, -1], **NORMALIZED}
TEXTS = {"max_characters": [0], "max_length": [0, -1], "padding": [0]}
FAMILIES = {
    "ImageClassifier": {"top_k": [0, -1], "crop": [0, 10**6], "resize": [0, -5], **PICTURES},
    "ImageSegmenter": {"reply": ["gif"], "resize": [[3], [0, 3], [1, 2, 3]], **PICTURES},
    "ObjectDetector": {"threshold": [-0.1, 1.1, NAN], "max_detections": [0, -1], **PICTURES},
    "TensorHandler": {"input_dtype": ["float"], "shape": [[3, 0], [-2]]},
    "TextClassifier": {"top_k": [0, -1], "explain_words": [-1], **TEXTS},
    "TextEmbedder": {"pooling": ["sum"], **TEXTS},
    "TextGenerator": {"max_new_tokens": [0], "most_new_tokens": [0], **TEXTS},
    "TokenClassifier": {"reply": ["words"], "threshold": [-0.1, 1.1], **TEXTS},
    "VoiceActivity": {
        "sample_rate": [0, 10**9],
        "window": [0],
        "max_seconds": [0, -1, INF],
        "threshold": [1.5],
        "release": [-0.1],
        "min_speech_ms": [-1],
        "min_silence_ms": [-1],
        "pad_ms": [-1, NAN],
    },
}


@pytest.mark.parametrize(
    ("family", "key", "value"),
    [
        (family, key, value)
        for family, own in {"BaseHandler": {}, **FAMILIES}.items()
        for key, values in {**EVERYWHERE, **own}.items()
        for value in values
    ],
)
def test_a_value_out_of_range_is_refused_with_key_value_and_range(family, key, value):
    kind = getattr(makemar.handlers, family).settings_type
    with pytest.raises(LoadError) as caught:
        read_settings(kind, {"handler": {key: value}})
    told = str(caught.value)
    assert told.startswith(f"model-config.yaml: handler.{key} is ")
    shown = [float(item) if key in NORMALIZED else item for item in value] if isinstance(
        value, list) else value  # fmt: skip
    assert repr(shown) in told or repr(float(value)) in told
    assert re.search(r"it must be .*\d|not one of \w|it must be 3 numbers|at least 1, or -1", told)
    assert "\n" not in told


@pytest.mark.parametrize("family", ["BaseHandler", *FAMILIES])
def test_what_only_texts_have_is_no_setting_of_another_family(family):
    kind = getattr(makemar.handlers, family).settings_type
    for key in ("max_length", "padding"):
        if family.startswith(("Text", "Token")):
            assert getattr(read_settings(kind, {"handler": {key: 8}}), key) == 8
        else:
            with pytest.raises(LoadError, match=f"handler.{key} is not a setting"):
                read_settings(kind, {"handler": {key: 8}})


def test_a_number_field_that_says_nothing_of_its_range_is_one_that_was_forgotten():
    # -1 is a shape's free size; a mean may be any number.
    for family in FAMILIES:
        kind = getattr(makemar.handlers, family).settings_type
        for name in (field.name for field in dataclasses.fields(kind)):
            default = getattr(kind(), name)
            if isinstance(default, (int, float)) and not isinstance(default, bool):
                with pytest.raises(LoadError, match=rf"handler\.{name} is "):
                    dataclasses.replace(kind(), **{name: -1})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"top_k": -1}, "handler.top_k is -1, it must be at least 1"),
        ({"crop": 0}, "handler.crop is 0, it must be at least 1 and at most 32768"),
        ({"std": [1, 0, 1]}, "handler.std is [1.0, 0.0, 1.0], it must be 3 numbers, each above 0"),
        ({"mean": [0.5]}, "handler.mean is [0.5], it must be 3 numbers"),
        ({"dtype": "int8"}, "handler.dtype is 'int8', not one of float32, bfloat16, float16"),
        ({"max_padding_waste": 2}, "handler.max_padding_waste is 2.0, it must be at least 0 and at "
         "most 1"),
    ],
)  # fmt: skip
def test_the_line_says_what_is_allowed(settings, told):
    with pytest.raises(LoadError, match=f"^model-config.yaml: {re.escape(told)}$"):
        read_settings(ImageClassifier.settings_type, {"handler": settings})


@given(low=st.integers(-5, 5), high=st.integers(-5, 5), value=st.integers(-9, 9))
def test_a_range_holds_both_its_ends(low, high, value):
    @dataclasses.dataclass(frozen=True)
    class Settings(HandlerSettings):
        number: int = limited(100, at_least=low, at_most=high)

    if low <= value <= high:
        assert Settings(number=value).number == value
    else:
        with pytest.raises(LoadError, match=f"number is {value}, it must be at least {low} and"):
            Settings(number=value)


@dataclasses.dataclass(frozen=True)
class Thorough(ImageClassifier.settings_type):
    """Settings of a user's own: another default, a range of its own, and a wider one."""

    top_k: int = 3
    tries: int = limited(1, at_least=1, at_most=9)
    crop: int = limited(0, at_least=-1)


def test_a_subclass_keeps_the_limits_of_the_defaults_that_it_changes(tmp_path):
    class Handler(BaseHandler):
        settings_type = Thorough

    assert Thorough(crop=-1).top_k == 3
    for settings, told in [({"top_k": 0}, "top_k is 0"), ({"tries": 10}, "tries is 10"),
                           ({"crop": -2}, "crop is -2")]:  # fmt: skip
        with pytest.raises(LoadError, match=told):
            load(Handler, tmp_path, config={"handler": settings})


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"threads": "all"}, {"thread": 1}, "fast",
                                   {"release": 0.9}])  # fmt: skip
def test_every_line_names_the_file_once(wrong):
    with pytest.raises(LoadError, match=r"^model-config\.yaml: handler\b") as caught:
        read_settings(makemar.handlers.VoiceActivitySettings, {"handler": wrong})
    assert str(caught.value).count("model-config") == 1


def test_a_long_value_is_cut_in_the_line():
    with pytest.raises(LoadError) as caught:
        ImageClassifier.settings_type(mean=(0.5,) * 10_000)
    assert len(str(caught.value)) < 200
