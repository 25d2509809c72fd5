"""ImageClassifier on real photographs with the real weights of MobileNetV2."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from makemar.handlers import ImageClassifier, RequestError
from makemar.handlers.testing import ask, load


@pytest.fixture(scope="module")
def classifier(mobilenet):
    return load(
        ImageClassifier,
        mobilenet,
        model={"modelFile": "network.py", "serializedFile": "mobilenet_v2.pth"},
        config={"handler": {"top_k": 3}},
    )


def best(answer):
    return max(answer.json().items(), key=lambda item: item[1])


def test_photographs_get_their_classes(classifier, photographs):
    names = ("chelsea.png", "coffee.png", "motorcycle_left.png")
    cat, coffee, moped = (best(a) for a in ask(classifier, [photographs[n] for n in names]))
    assert cat == ("Egyptian cat", pytest.approx(0.717, abs=0.01))
    assert coffee == ("espresso", pytest.approx(0.992, abs=0.01))
    assert moped[0] == "moped"


def test_seven_pictures_are_answered_beside_one_that_is_none(classifier, photographs):
    rows = [photographs["coffee.png"]] * 7
    rows.insert(3, b"not a picture")
    answers = ask(classifier, rows)
    assert [a.status for a in answers] == [200, 200, 200, 400, 200, 200, 200, 200]
    assert answers[3].json()["message"] == "the 13 bytes sent are not a picture"


def test_base64_text_and_data_urls_are_pictures_too(classifier, photographs):
    text = base64.b64encode(photographs["coffee.png"]).decode()
    answers = ask(classifier, [text, f"data:image/png;base64,{text}", "no base64!", {"body": [1]}])
    assert [best(a)[0] for a in answers[:2]] == ["espresso", "espresso"]
    assert [a.status for a in answers[2:]] == [400, 400]


def test_a_picture_alone_gets_the_answer_it_gets_in_a_batch(classifier, photographs):
    pictures = list(photographs.values()) * 2
    together = ask(classifier, pictures)
    for picture, answer in zip(pictures, together, strict=True):
        (alone,) = ask(classifier, [picture])
        assert alone.json() == pytest.approx(answer.json(), abs=1e-5)


def test_classes_with_one_name_are_both_in_the_reply(classifier, photographs):
    names, classifier.mapping = classifier.mapping, {str(i): "thing" for i in range(1000)}
    try:
        assert len(ask(classifier, [photographs["coffee.png"]])[0].json()) == 3
        classifier.mapping = None
        (answer,) = ask(classifier, [photographs["coffee.png"]])
        assert best(answer)[0] == "967"
    finally:
        classifier.mapping = names


def v2(pixels, datatype="UINT8"):
    """Write an array as a request of the Open Inference Protocol."""
    tensor = {"name": "x", "shape": list(pixels.shape), "datatype": datatype}
    return {"body": {"inputs": [{**tensor, "data": pixels.ravel().tolist()}]}}


def test_a_tensor_of_pixels_is_a_picture_too(classifier, photographs):
    picture = Image.open(io.BytesIO(photographs["coffee.png"])).convert("RGB").resize((64, 64))
    pixels = np.asarray(picture)[None]
    wrong = [v2(pixels, "FP32"), v2(pixels.transpose(0, 3, 1, 2)), v2(pixels[:, :0])]
    answers = ask(classifier, [v2(pixels), *wrong])
    assert [answer.status for answer in answers] == [200, 400, 400, 400]
    assert "espresso" in str(answers[0].json())
    (answer,) = ask(classifier, [v2(np.zeros((1, 2, 3, 3), np.uint8))])
    assert answer.status == 200
    with pytest.raises(RequestError, match="9000 x 9000 pixels, the limit is 64000000") as caught:
        classifier.read(torch.zeros(9000, 9000, dtype=torch.uint8))
    assert caught.value.status == 413


def test_an_explanation_points_at_what_counts(classifier, photographs):
    headers = [{"explain": "True"}, {}, {"explain": "True"}]
    bodies = [photographs["chelsea.png"], photographs["chelsea.png"], b"no picture"]
    explained, predicted, failed = ask(classifier, bodies, headers=headers)
    assert explained.json()["class"] == best(predicted)[0] == "Egyptian cat"
    assert explained.json()["probability"] == pytest.approx(best(predicted)[1], abs=1e-5)
    cells = np.array(explained.json()["saliency"])
    assert cells.shape == (14, 14)
    assert cells.max() == 1
    assert failed.status == 400
    # Grey over what it points at costs the cat more than grey over what it calls unimportant.
    ranks = cells.ravel().argsort().argsort().reshape(14, 14)
    kept = [torch.from_numpy(mask).float() for mask in (ranks < 147, ranks >= 49)]
    sample = classifier.read(photographs["chelsea.png"])
    masked = [sample * mask.repeat_interleave(16, 0).repeat_interleave(16, 1) for mask in kept]
    without_best, without_least = torch.softmax(
        classifier.inference(classifier.collate(masked)), 1
    )[:, 285].tolist()
    assert without_best < without_least / 2


def test_the_description_and_the_warm_up_fit_what_is_answered(classifier, photographs, fits):
    assert classifier.examples()[0].shape == (3, 224, 224)
    (answer,) = ask(classifier, [photographs["coffee.png"]])
    fits(classifier, "output", answer.json())
    fits(classifier, "input", base64.b64encode(photographs["coffee.png"]).decode())


@pytest.fixture
def torchserves_own(monkeypatch):
    """TorchServe's ImageClassifier; what it imports for explanations and detection stays away."""
    import sys
    import types

    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    attributions = types.ModuleType("captum.attr")
    attributions.IntegratedGradients = lambda model: None
    monkeypatch.setitem(sys.modules, "captum", types.ModuleType("captum"))
    monkeypatch.setitem(sys.modules, "captum.attr", attributions)
    from ts.torch_handler.image_classifier import ImageClassifier as Theirs

    return Theirs


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_same_bytes_get_the_classes_that_torchserves_own_handler_gives(
    torchserves_own, mobilenet, photographs, tmp_path
):
    network = (mobilenet / "network.py").read_text()
    # TorchServe's loader wants one class in the model file.
    (tmp_path / "building_blocks.py").write_text(network)
    (tmp_path / "network.py").write_text(
        "from building_blocks import MobileNetV2 as Blocks\nclass MobileNetV2(Blocks):\n    pass\n"
    )
    for name in ("mobilenet_v2.pth", "index_to_name.json"):
        (tmp_path / name).symlink_to(mobilenet / name)
    model = {"modelFile": "network.py", "serializedFile": "mobilenet_v2.pth"}
    theirs = load(torchserves_own, tmp_path, model=model)
    ours = load(ImageClassifier, tmp_path, model=model)
    theirs.context = None  # its stages read request headers from it otherwise
    pictures = list(photographs.values())
    scores = theirs.inference(theirs.preprocess([{"body": bytearray(p)} for p in pictures]))
    for want, answer in zip(theirs.postprocess(scores), ask(ours, pictures), strict=True):
        # A pixel here and there is one level of 255 apart.
        assert answer.json() == pytest.approx(want, abs=1e-3)
        assert list(answer.json()) == list(want)
