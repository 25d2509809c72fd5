"""Pictures become exactly what the classic transforms make of them."""

import io
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from makemar.handlers.errors import BadRequestError, PayloadTooLargeError
from makemar.handlers.images import normalize, read_image, resize_and_crop

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def classic():
    """torchvision's own Resize, CenterCrop, ToTensor, Normalize.

    Its compiled operators need the torch build they were made for; the transforms do not, so
    they are declared here to let the import pass.
    """
    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision import transforms

    return transforms


def encoded(picture, kind="PNG"):
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return buffer.getvalue()


def noise(width, height):
    values = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(values)


@pytest.mark.parametrize("name", ["chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg"])
def test_photographs_equal_the_classic_transforms_to_one_level_of_255(classic, photographs, name):
    picture = read_image(photographs[name], max_pixels=10**8)
    expected = classic.Compose(
        [
            classic.Resize(256),
            classic.CenterCrop(224),
            classic.ToTensor(),
            classic.Normalize(MEAN, STD),
        ]
    )(picture)
    got = normalize(resize_and_crop(picture, 256, 224), MEAN, STD)
    level = 1 / 255 / min(STD) * 1.001
    assert np.abs(got - expected.numpy()).max() <= level


@given(
    st.tuples(st.integers(1, 400), st.integers(1, 400)), st.integers(1, 300), st.integers(1, 300)
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_size_is_within_two_levels_of_the_classic_resize_and_crop(classic, size, scaled, crop):
    # The classic way computes the whole scaled picture, however thin it is.
    assume(max(size) / min(size) * scaled**2 < 3_000_000)
    picture = noise(*size)
    expected = np.asarray(classic.CenterCrop(crop)(classic.Resize(scaled)(picture)))
    got = np.asarray(resize_and_crop(picture, scaled, crop))
    assert got.shape == expected.shape
    # Pillow rounds between its two passes, in the order that costs less.
    assert np.abs(got.astype(int) - expected).max() <= 2


def test_a_picture_as_thin_as_a_hair_costs_no_more_than_what_is_seen_of_it():
    thin = Image.new("RGB", (60_000, 1), "red")
    assert np.array_equal(
        np.asarray(resize_and_crop(thin, 256, 224)), np.full((224, 224, 3), (255, 0, 0))
    )


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "1", "I;16"])
def test_every_mode_becomes_rgb(mode):
    picture = noise(20, 10).convert("L").convert(mode) if mode != "I;16" else None
    if picture is None:
        picture = Image.fromarray(np.arange(200, dtype=np.uint16).reshape(10, 20))
    kind = "TIFF" if mode == "CMYK" else "PNG"
    assert read_image(encoded(picture, kind), max_pixels=1000).mode == "RGB"


def test_bytes_that_are_no_picture_are_a_400():
    with pytest.raises(BadRequestError, match="the 5 bytes sent are not a picture"):
        read_image(b"hello", max_pixels=100)


def test_a_picture_cut_short_is_a_400():
    with pytest.raises(BadRequestError, match="cannot be decoded"):
        read_image(encoded(noise(64, 64))[:-400], max_pixels=10_000)


@pytest.mark.parametrize("edge", [100, 10_000, 20_000])
def test_too_many_pixels_are_refused_before_they_are_decoded(edge):
    bomb = encoded(Image.new("1", (edge, edge)))
    with pytest.raises(PayloadTooLargeError, match="pixels, the limit is 1000"):
        read_image(bomb, max_pixels=1000)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux says who may use a core")
def test_pictures_are_decoded_in_as_many_threads_as_the_process_has_cores():
    code = """
        import os
        from makemar.handlers.pictures import PictureSettings
        every = sorted(os.sched_getaffinity(0))
        for count in (1, len(every)):
            os.sched_setaffinity(0, every[:count])
            assert PictureSettings().decode_threads == min(4, count), count
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
