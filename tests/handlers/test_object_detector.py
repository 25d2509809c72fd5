"""ObjectDetector: boxes in the pixels of the picture that was sent, whatever its size."""

import io

import pytest
import torch
from PIL import Image

from makemar.handlers import ModelError, ObjectDetector
from makemar.handlers.testing import ask, load


def square_on_black(width, height, left, top, size):
    """A white square on black, as PNG."""
    picture = Image.new("RGB", (width, height))
    picture.paste((255, 255, 255), (left, top, left + size, top + size))
    file = io.BytesIO()
    picture.save(file, "png")
    return file.getvalue()


class Bright(torch.nn.Module):
    """Find what is bright: one box around it."""

    def forward(self, pictures):
        self.sizes = [tuple(picture.shape[1:]) for picture in pictures]
        return [self.found(picture.mean(0) > 0.5) for picture in pictures]

    def found(self, bright):
        rows, columns = (bright.any(axis).nonzero()[:, 0] for axis in (1, 0))
        edges = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        box = torch.stack(edges).float()
        return {
            "boxes": torch.stack([box, box + 1, box + 2]),
            "labels": torch.tensor([1, 2, 1]),
            "scores": torch.tensor([0.4, 0.9, 0.6]),
        }


@pytest.fixture
def bright():
    handler = ObjectDetector()
    handler.model = Bright()
    handler.mapping = {"1": "square"}
    return handler


def test_a_box_is_in_pixels_of_the_picture_that_was_sent(bright, fits):
    pictures = [square_on_black(64, 40, 10, 20, 8), square_on_black(30, 90, 1, 70, 5)]
    first, second = ask(bright, pictures)
    assert first.json() == [
        {"label": "2", "score": pytest.approx(0.9), "box": [11, 21, 19, 29]},
        {"label": "square", "score": pytest.approx(0.6), "box": [12, 22, 20, 30]},
    ]
    assert second.json()[0]["box"] == [2, 71, 7, 76]
    fits(bright, "output", first.json())


def test_pictures_of_different_sizes_do_not_share_a_forward(bright):
    sizes = [(64, 40), (30, 90), (64, 40)]
    answers = ask(bright, [square_on_black(*size, 10, 20, 8) for size in sizes])
    assert [answer.status for answer in answers] == [200] * 3
    assert bright.model.sizes in ([(40, 64)] * 2, [(90, 30)])


def test_only_the_best_detections_over_the_threshold_are_told(bright):
    picture = square_on_black(64, 40, 10, 20, 8)
    for settings, scores in [
        ({"threshold": 0.0}, [0.9, 0.6, 0.4]),
        ({"threshold": 0.95}, []),
        ({"threshold": 0.0, "max_detections": 2}, [0.9, 0.6]),
    ]:
        bright.settings = ObjectDetector.settings_type(**settings)
        (answer,) = ask(bright, [picture])
        assert [found["score"] for found in answer.json()] == pytest.approx(scores)


def test_losses_from_a_compiled_detector_are_passed_over(bright):
    found = bright.model.found(torch.ones(4, 4, dtype=torch.bool))
    assert bright.split(({}, [found]), 1) == [found]


@pytest.mark.parametrize(
    "output",
    [
        torch.zeros(3),
        {"boxes": torch.zeros(1, 4)},
        {"boxes": torch.zeros(2, 4), "labels": torch.zeros(1), "scores": torch.zeros(1)},
        {
            "boxes": torch.zeros(1, 4),
            "labels": torch.zeros(1),
            "scores": torch.full((1,), torch.nan),
        },
    ],
)
def test_what_is_no_detection_is_the_models_fault(bright, output):
    with pytest.raises(ModelError, match="the network"):
        bright.encode(output, None)


def test_the_warm_up_runs_a_common_size(networks):
    torch.manual_seed(0)
    handler = load(ObjectDetector, networks, model={"modelFile": "detector.py"})
    assert len(handler.inference(handler.collate(handler.examples()))[0]["boxes"]) == 9
