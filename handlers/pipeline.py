"""Several models in one call of the server: tokenizer, encoder, reranker, each in batches."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from makemar.handlers.base import BaseHandler
from makemar.handlers.counts import checked
from makemar.handlers.errors import LoadError
from makemar.handlers.failures import Failed
from makemar.handlers.labels import load_labels
from makemar.handlers.stages import ModelStage, Stage
from makemar.handlers.statistics import BatchStatistics

__all__ = ["PipelineHandler"]

logger = logging.getLogger(__name__)


class PipelineHandler(BaseHandler):
    """Answer each request with the value of the last stage; write `stages()`.

    Each stage runs for all requests of a batch before the next one starts, and its model sees the
    samples of all of them together. Where a stage fails for a request, that request gets its
    error and meets no further stage; the others go on.

        def stages(self):
            return [
                ModelStage("vector", TextEmbedder, folder="encoder"),
                FunctionStage("nearest", self.look_up, needs=["vector"]),
                ModelStage("scores", TextClassifier, needs=["request", "nearest"],
                           folder="reranker", prepare=pair_up),
            ]
    """

    _loaded: Sequence[Stage] = ()

    def stages(self) -> Sequence[Stage]:
        """Return the stages in an order in which each one needs only earlier ones."""
        raise LoadError(f"{type(self).__name__} has no stages(); return a list of them")

    def _load(self, model_dir: Path) -> None:
        """Load every stage, and no model beside them."""
        self.mapping = load_labels(model_dir / "index_to_name.json")
        self._loaded = list(self.stages())
        _check(self._loaded)
        for stage in self._loaded:
            stage.load(self.context)

    def read(self, value: object) -> Any:
        """Take a value as it came: reading it is a stage's work."""
        return value

    def length(self, sample: Any) -> int:  # noqa: ARG002
        """Count every request alike: whatever they carry, they go through the stages together."""
        return 1

    def collate(self, samples: Sequence[Any]) -> list[Any]:
        """Leave the samples as they are; each stage has a batch of its own."""
        return list(samples)

    def forward(self, batch: Any, *args: Any, **kwargs: Any) -> list[Any | Failed]:  # noqa: ARG002
        """Run stage after stage; return the last one's value, or the failure, of each request."""
        known: list[dict[str, Any]] = [{"request": value} for value in batch]
        failures: dict[int, Failed] = {}
        # The engine has counted this call; it is the models of the stages that run.
        self.forwards.statistics.forwards -= 1
        for stage in self._loaded:
            running = [i for i in range(len(batch)) if i not in failures]
            for i, outcome in zip(running, self._run_stage(stage, [known[i] for i in running])):
                known[i][stage.name] = outcome
                if isinstance(outcome, Failed):
                    failures[i] = outcome
        last = self._loaded[-1].name
        return [failures.get(i) or known[i][last] for i in range(len(batch))]

    def _run_stage(self, stage: Stage, known: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Run one stage for requests of which this is known; note what it was like."""
        statistics = BatchStatistics(len(known))
        inputs = [[values[name] for name in stage.needs] for values in known]
        try:
            outcomes = checked(stage.run(inputs, statistics), len(known), f"stage {stage.name}")
            statistics.failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
        finally:
            self.forwards.statistics.add(statistics)
            self.forwards.lost = self.forwards.lost or stage.lost
        if self.settings.log_batches or statistics.eventful:
            logger.info("stage=%s %s", stage.name, statistics.line())
        return outcomes

    def split(self, outputs: Any, count: int) -> list[Any]:  # noqa: ARG002
        """Return the outcomes as they are: one per request already."""
        return list(outputs)

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema, by the models that stand at both ends."""
        models = {s.name: s.handler.describe() for s in self._loaded if isinstance(s, ModelStage)}
        first = next((s for s in self._loaded if s.needs == ("request",)), None)
        told = {
            "input": models.get(first.name, {}).get("input", {}) if first else {},
            "output": models.get(self._loaded[-1].name, {}).get("output", {}),
        }
        return {"handler": type(self).__name__, **told, "stages": [s.name for s in self._loaded]}


def _check(stages: Sequence[Stage]) -> None:
    """Insist on names of their own, and on needs that an earlier stage has met."""
    if not stages:
        raise LoadError("a pipeline needs at least one stage")
    known = {"request"}
    for stage in stages:
        if stage.name in known:
            raise LoadError(f"stage {stage.name}: another one has that name")
        missing = sorted(set(stage.needs) - known)
        if missing or not stage.needs:
            raise LoadError(
                f"stage {stage.name} needs {', '.join(missing) or 'nothing'}; "
                f"earlier stages are: {', '.join(sorted(known))}"
            )
        known.add(stage.name)
