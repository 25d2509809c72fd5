"""ImageSegmenter: a class for every pixel, in the size of the picture that was sent."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from makemar.handlers import ImageSegmenter, LoadError
from makemar.handlers.image_segmenter import ImageSegmenterSettings, runs_of
from makemar.handlers.testing import ask


class Colours(torch.nn.Module):
    """Class 0 is red, 1 is green, 2 is blue."""

    def forward(self, x):
        return {"out": x}


def halves(width, height):
    """A picture whose left half is red and whose right half is blue, as PNG."""
    picture = Image.new("RGB", (width, height), (255, 0, 0))
    picture.paste((0, 0, 255), (width // 2, 0, width, height))
    file = io.BytesIO()
    picture.save(file, "png")
    return file.getvalue()


@pytest.fixture
def build():
    def build(**settings):
        handler = ImageSegmenter()
        handler.settings = ImageSegmenterSettings(**settings)
        handler.model = Colours()
        handler.mapping = {"0": "red", "2": "blue"}
        return handler

    return build


def expected(width, height):
    return [[0] * (width // 2) + [2] * (width // 2)] * height


def test_runs_say_where_each_class_is(build, fits):
    handler = build()
    (answer,) = ask(handler, [halves(6, 2)])
    assert answer.json() == {
        "height": 2,
        "width": 6,
        "runs": {"red": [0, 3, 6, 3], "blue": [3, 3, 9, 3]},
    }
    fits(handler, "output", answer.json())


def test_a_map_has_a_class_for_every_pixel(build, fits):
    handler = build(reply="map")
    small, large = ask(handler, [halves(6, 2), halves(10, 8)])
    assert small.json()["map"] == expected(6, 2)
    assert large.json()["map"] == expected(10, 8)
    assert large.json()["classes"] == {"0": "red", "2": "blue"}
    fits(handler, "output", large.json())


def test_a_png_has_the_classes_as_its_values(build):
    (answer,) = ask(build(reply="png"), [halves(6, 2)])
    assert answer.headers["content-type"] == "image/png"
    assert np.asarray(Image.open(io.BytesIO(answer.body))).tolist() == expected(6, 2)


def test_several_pngs_of_one_request_come_as_base64(build):
    picture = {"b64": base64.b64encode(halves(6, 2)).decode()}
    (answer,) = ask(build(reply="png"), [{"body": {"instances": [picture, picture]}}])
    decoded = [base64.b64decode(text) for text in answer.json()["predictions"]]
    for data in decoded:
        assert np.asarray(Image.open(io.BytesIO(data))).tolist() == expected(6, 2)


def test_the_reply_has_the_size_of_the_picture_not_of_the_network(build):
    handler = build(reply="map", resize=[16, 16])
    for answer, (width, height) in zip(
        ask(handler, [halves(40, 20), halves(12, 30)]), [(40, 20), (12, 30)], strict=True
    ):
        found = np.array(answer.json()["map"])
        assert found.shape == (height, width)
        assert (found == np.array(expected(width, height))).mean() > 0.9


def test_pictures_of_any_size_share_a_forward_once_they_are_resized(build):
    handler = build(resize=[16, 16])
    seen = []
    handler.model = lambda x: (seen.append(len(x)), x)[1]
    ask(handler, [halves(40, 20), halves(12, 30), halves(6, 2)])
    assert seen == [3]


@given(arrays.arrays(np.int64, st.tuples(*[st.integers(1, 8)] * 2), elements=st.integers(0, 4)))
def test_runs_hold_every_pixel_once(classes):
    found = np.full(classes.size, -1)
    for value, runs in runs_of(torch.from_numpy(classes)).items():
        for start, length in zip(runs[::2], runs[1::2], strict=True):
            assert length > 0
            assert (found[start : start + length] == -1).all()
            found[start : start + length] = value
    assert found.tolist() == classes.ravel().tolist()
    json.dumps(runs_of(torch.from_numpy(classes)))


@pytest.mark.parametrize("settings", [{"reply": "gif"}, {"resize": (3,)}, {"resize": (0, 3)}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(LoadError, match=r"handler\.(reply|resize)"):
        ImageSegmenterSettings(**settings)


def test_a_network_without_a_score_per_pixel_is_named(build):
    handler = build()
    handler.model = lambda x: x.mean((2, 3))
    (answer,) = ask(handler, [halves(6, 2)])
    assert (answer.status, "scores are (n, classes, h, w)" in answer.json()["message"]) == (
        500,
        True,
    )
