"""ImageClassifier on real photographs with the real weights of MobileNetV2."""

import base64

import pytest

from makemar.handlers import ImageClassifier
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
    classifier.mapping = {str(i): "thing" for i in range(1000)}
    try:
        reply = ask(classifier, [photographs["coffee.png"]])[0].json()
    finally:
        classifier.mapping = None
    assert len(reply) == 3
    (answer,) = ask(classifier, [photographs["coffee.png"]])
    assert best(answer)[0] == "967"
