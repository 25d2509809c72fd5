"""PipelineHandler: stages in one call, each in a batch; a request that fails, fails alone."""

import logging

import pytest
import torch

from makemar.handlers import (
    BadRequestError,
    FunctionStage,
    LoadError,
    ModelStage,
    PipelineHandler,
    Samples,
    Stage,
    TextClassifier,
    TextEmbedder,
)
from makemar.handlers.invariance import assert_batch_invariant
from makemar.handlers.testing import Context, ask, load

PASSAGES = ["the cat sat on the mat", "anna lives in bonn", "a big cat", "bonn"]


class Reranker(PipelineHandler):
    """Answer a question with passages: embedded, looked up, then scored in pairs."""

    def stages(self):
        settings = {"max_length": 64}
        return [
            FunctionStage("question", self.question),
            ModelStage(
                "vector",
                TextEmbedder,
                needs=["question"],
                model={"modelFile": "encoder.py"},
                config=settings,
            ),
            FunctionStage("nearest", self.nearest, needs=["question", "vector"]),
            ModelStage(
                "scores",
                TextClassifier,
                needs=["question", "nearest"],
                prepare=self.pairs,
                model={"modelFile": "text_scores.py"},
                config=settings,
            ),
            FunctionStage("reply", self.reply, needs=["nearest", "scores"]),
        ]

    def question(self, value):
        if not isinstance(value, str):
            raise BadRequestError("send a question as text")
        return value

    def nearest(self, question, vector):
        if "nothing" in question:
            raise KeyError("secret path")
        # Longer questions look at more passages: a different number of samples per request.
        count = 1 + len(question) % 3
        assert vector.shape == (16,)
        return PASSAGES[:count]

    def pairs(self, question, passages):
        return Samples({"text": question, "pair": passage} for passage in passages)

    def reply(self, passages, scores):
        return [{"passage": p, "scores": s} for p, s in zip(passages, scores, strict=True)]


QUESTIONS = ["the cat", "where", "Anna lives", "a"]


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def reranker(networks, request):
    torch.manual_seed(0)
    config = {"handler": {"dtype": request.param, "log_batches": True}}
    return load(Reranker, networks, config=config)


def lines(caplog):
    """What each stage logged of itself: its counts and times by name."""
    return {
        record.args[0]: dict(part.split("=") for part in record.args[1].split())
        for record in caplog.records
        if record.msg == "stage=%s %s"
    }


def forwards(caplog):
    return {stage: int(line["forwards"]) for stage, line in lines(caplog).items()}


def test_every_stage_runs_once_for_all_requests(reranker, caplog):
    with caplog.at_level(logging.INFO, "makemar.handlers.pipeline"):
        answers = ask(reranker, QUESTIONS)
    assert [len(answer.json()) for answer in answers] == [2, 3, 2, 2]
    assert forwards(caplog) == {"question": 0, "vector": 1, "nearest": 0, "scores": 1, "reply": 0}


def test_a_stage_says_how_long_each_part_of_it_took_and_how_many_failed(reranker, caplog):
    with caplog.at_level(logging.INFO, "makemar.handlers"):
        ask(reranker, [*QUESTIONS, {"body": [1]}])
    told = lines(caplog)
    assert {stage: line["failed"] for stage, line in told.items()} == {
        "question": "1", "vector": "0", "nearest": "0", "scores": "0", "reply": "0"
    }  # fmt: skip
    vector = {name: float(told["vector"][name]) for name in ("forward_ms", "total_ms")}
    assert 0 < vector["forward_ms"] <= vector["total_ms"]
    assert {int(line["batch"]) for line in told.values()} == {5, 4}


class Metrics:
    """Keeps what TorchServe's metrics are told."""

    def __init__(self):
        self.told = {}

    def add_counter(self, name, value, *_, **__):
        self.told[name] = value

    add_time = add_percent = add_counter


def counted(handler, rows):
    """Answer a batch; return what the metrics were told of it."""
    context = Context(model_dir="", model={}, config={}, headers=[{} for _ in rows])
    context.metrics = Metrics()
    handler.handle(rows, context)
    return context.metrics.told


def test_a_batch_without_an_event_is_not_logged(networks, caplog):
    quiet = load(Reranker, networks)
    with caplog.at_level(logging.INFO, "makemar.handlers"):
        assert {answer.status for answer in ask(quiet, QUESTIONS)} == {200}
    assert caplog.messages == []


def test_the_metrics_count_the_forwards_of_the_stages(networks):
    handler = load(Reranker, networks, config={"handler": {"metrics": True}})
    told = counted(handler, [{"body": question} for question in QUESTIONS])
    assert (told["MakemarForwards"], told["MakemarSamples"]) == (2, 4)
    assert told["MakemarPaddingPercent"] > 0


def test_a_cut_that_healed_within_a_stage_is_told_and_counted(networks, caplog):
    class Tight(TextEmbedder):
        def forward(self, batch):
            if len(batch) > 2:
                raise MemoryError
            return super().forward(batch)

    class Pipeline(PipelineHandler):
        def stages(self):
            return [ModelStage("vector", Tight, model={"modelFile": "encoder.py"})]

    handler = load(Pipeline, networks, config={"handler": {"metrics": True}})
    with caplog.at_level(logging.INFO, "makemar.handlers"):
        told = counted(handler, [{"body": question} for question in QUESTIONS])
    assert (told["MakemarMemorySplits"], told["MakemarFailed"]) == (1, 0)
    stage, batch = caplog.messages
    assert stage.startswith("stage=vector batch=4 forwards=3 ")
    assert batch.startswith("batch=4 forwards=3 samples=4 failed=0 bisections=0 memory_splits=1 ")


def test_answers_are_the_same_alone_and_in_batches(reranker):
    assert_batch_invariant(reranker, QUESTIONS)


@pytest.mark.parametrize(
    ("poison", "status", "message"),
    [
        ({"body": [1]}, 400, "send a question as text"),
        ("nothing", 500, "the model failed on this input"),
        ("the house", 500, "sample 0: the model failed on this input"),
        ("a " * 63, 413, "the text has 65 tokens, the limit is 64"),
    ],
)
def test_a_request_fails_alone_whichever_stage_it_fails_in(reranker, poison, status, message):
    alone = [ask(reranker, [question])[0].json() for question in QUESTIONS]
    for place in range(len(QUESTIONS) + 1):
        answers = ask(reranker, [*QUESTIONS[:place], poison, *QUESTIONS[place:]])
        failed = answers.pop(place)
        assert failed.status == status
        assert failed.json()["message"].startswith(message)
        assert "secret" not in failed.json()["message"]
        for answer, expected in zip(answers, alone, strict=True):
            assert [p["passage"] for p in answer.json()] == [p["passage"] for p in expected]
            for pair, wanted in zip(answer.json(), expected, strict=True):
                assert pair["scores"] == pytest.approx(wanted["scores"], abs=5e-2)


def test_the_settings_of_the_pipeline_hold_for_its_stages(networks):
    torch.manual_seed(0)
    config = {"handler": {"dtype": "bfloat16", "max_forward_batch": 2}}
    handler = load(Reranker, networks, config=config)
    models = [stage for stage in handler._loaded if isinstance(stage, ModelStage)]
    for stage in models:
        assert stage.handler.settings.dtype == "bfloat16"
        assert stage.handler.settings.max_forward_batch == 2
        assert stage.handler.settings.max_length == 64


def test_values_between_stages_are_tensors(networks):
    class Ends(PipelineHandler):
        def stages(self):
            return [
                ModelStage(
                    "vector",
                    TextEmbedder,
                    model={"modelFile": "encoder.py"},
                    config={"max_length": 64},
                ),
                FunctionStage("norm", lambda vector: vector.norm(), needs=["vector"]),
            ]

    torch.manual_seed(0)
    handler = load(Ends, networks)
    (answer,) = ask(handler, ["the cat"])
    assert answer.json() == pytest.approx(1.0)
    described = handler.describe()
    assert described["stages"] == ["vector", "norm"]
    assert described["input"] == handler._loaded[0].handler.describe()["input"]


def test_a_device_that_a_stage_lost_is_lost_to_the_pipeline(networks, monkeypatch):
    class Broken(TextEmbedder):
        def forward(self, batch):
            raise RuntimeError("CUDA error: device-side assert triggered")

    class Lost(PipelineHandler):
        def stages(self):
            return [
                ModelStage(
                    "vector", Broken, model={"modelFile": "encoder.py"}, config={"warmup": False}
                )
            ]

    ended = []
    monkeypatch.setattr("makemar.handlers.answers.end_worker", ended.append)
    answers = ask(load(Lost, networks), ["a", "b"])
    assert [answer.status for answer in answers] == [503, 503]
    assert ended == ["CUDA error: device-side assert triggered"]


@pytest.mark.parametrize("surplus", [-1, 1])
def test_a_stage_whose_split_gives_too_many_or_too_few_answers_nobody(networks, surplus):
    class Shifted(TextEmbedder):
        def split(self, outputs, count):
            outputs = super().split(outputs, count)
            return [outputs[0], *outputs] if surplus > 0 else outputs[1:]

    class Pipeline(PipelineHandler):
        def stages(self):
            return [ModelStage("vector", Shifted, model={"modelFile": "encoder.py"})]

    answers = ask(load(Pipeline, networks), QUESTIONS)
    assert [answer.status for answer in answers] == [500] * len(QUESTIONS)
    told = f"split gave {1 + surplus} results for 1 samples; return a list of one each"
    assert {answer.json()["message"] for answer in answers} == {told}


@pytest.mark.parametrize("surplus", [-1, 1])
def test_a_stage_of_ones_own_that_gives_too_many_or_too_few_answers_nobody(tmp_path, surplus):
    class Shifted(Stage):
        def run(self, inputs, statistics):
            values = [value for (value,) in inputs]
            return ["stray", *values] if surplus > 0 else values[1:]

    class Pipeline(PipelineHandler):
        def stages(self):
            return [Shifted("own")]

    answers = ask(load(Pipeline, tmp_path), QUESTIONS)
    assert [answer.status for answer in answers] == [500] * len(QUESTIONS)
    assert answers[0].json()["message"].startswith(f"stage own gave {1 + surplus} results for 1 ")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "a pipeline needs at least one stage"),
        ([FunctionStage("a", str), FunctionStage("a", str)], "stage a: another one has that name"),
        ([FunctionStage("a", str, needs=["b"])], "stage a needs b; earlier stages are: request"),
        ([FunctionStage("a", str, needs=[])], "stage a needs nothing"),
        ([ModelStage("a", TextEmbedder, folder="none")], "stage a: tokenizer.json is not in"),
    ],
)
def test_stages_that_cannot_run_are_named(stages, message, networks):
    class Pipeline(PipelineHandler):
        def stages(self):
            return stages

    with pytest.raises(LoadError, match=message):
        load(Pipeline, networks)


def test_a_pipeline_with_an_initialize_of_its_own_may_have_keys_of_its_own(tmp_path):
    class Own(PipelineHandler):
        def initialize(self, context):
            super().initialize(context)
            self.greeting = self.model_yaml_config["handler"]["greeting"]

        def stages(self):
            return [FunctionStage("greet", lambda name: f"{self.greeting} {name}")]

    handler = load(Own, tmp_path, config={"handler": {"greeting": "hello"}})
    assert ask(handler, ["anna"])[0].body == b"hello anna"


def test_a_pipeline_without_stages_is_named(networks):
    with pytest.raises(LoadError, match=r"PipelineHandler has no stages\(\)"):
        load(PipelineHandler, networks)


def test_a_request_with_many_bad_passages_costs_its_neighbours_a_few_forwards(networks, caplog):
    class Pairs(PipelineHandler):
        def stages(self):
            return [
                ModelStage(
                    "vector",
                    TextEmbedder,
                    model={"modelFile": "encoder.py"},
                    prepare=lambda texts: Samples(texts),
                ),
            ]

    handler = load(Pairs, networks)
    model, calls = handler._loaded[0].handler.model, []

    def picky(**inputs):
        calls.append(len(inputs["input_ids"]))
        if poison in inputs["input_ids"]:
            raise ValueError("poison")
        return model(**inputs)

    poison = handler._loaded[0].handler.tokenizer.token_to_id("house")
    handler._loaded[0].handler.model = picky
    answers = ask(handler, [{"body": ["a cat"]}, {"body": ["house"] * 500}, {"body": ["the mat"]}])
    assert [answer.status for answer in answers] == [200, 500, 200]
    assert answers[1].json()["message"].startswith("sample 0: ")
    assert len(calls) <= 1 + 2 * 9
