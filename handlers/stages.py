"""The stages of a pipeline: a function of one request, or a model that all requests share."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from makemar.handlers.base import BaseHandler
from makemar.handlers.counts import checked
from makemar.handlers.errors import LoadError
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.request import Request, Samples
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.statistics import BatchStatistics

__all__ = ["FunctionStage", "ModelStage", "Stage"]

# Between stages arrays stay tensors; only a reply is written as numbers.
_INSIDE = Request({}, headers={"accept": "application/x-npy"})
_SHARED = frozenset(field.name for field in dataclasses.fields(HandlerSettings))


class Stage:
    """A step of a pipeline: takes the values of the stages it `needs`, gives one of its own.

    `needs` names earlier stages; `request` stands for what the client sent.
    """

    def __init__(self, name: str, *, needs: Sequence[str] = ("request",)) -> None:
        self.name = name
        self.needs = tuple(needs)

    def load(self, context: Any) -> None:
        """Make ready to run; called once, before the worker is READY."""

    def run(
        self, inputs: Sequence[Sequence[Any]], statistics: BatchStatistics
    ) -> Sequence[Any | Failed]:
        """Return one value or failure for each request; `inputs` holds what it needs, in order."""
        raise NotImplementedError

    @property
    def lost(self) -> str:
        """Return why the device is lost to this process, or ''."""
        return ""

    def failed(self, error: BaseException) -> Failed:
        """Blame the client for what it sent, and the model for what came in between."""
        return Failed(error, stage="decode" if self.needs == ("request",) else "model")


class FunctionStage(Stage):
    """Call `function` with the needed values of one request after the other."""

    def __init__(
        self, name: str, function: Callable[..., Any], *, needs: Sequence[str] = ("request",)
    ) -> None:
        super().__init__(name, needs=needs)
        self.function = function

    def run(
        self,
        inputs: Sequence[Sequence[Any]],
        statistics: BatchStatistics,  # noqa: ARG002
    ) -> list[Any | Failed]:
        """Return what the function gives, or raises, for each request."""
        outcomes: list[Any | Failed] = []
        for values in inputs:
            try:
                outcomes.append(self.function(*values))
            except BaseException as error:  # noqa: BLE001
                let_interrupt_through(error)
                outcomes.append(self.failed(error))
        return outcomes


class ModelStage(Stage):
    """Run a model on the samples of all requests together, in as few forwards as fit.

    `handler_type` is a family or a handler of your own: it reads values, collates, runs and
    encodes. `model` names its files as the manifest does (`modelFile`, `serializedFile`; default:
    the manifest's own), `config` its settings beside those of the pipeline, `folder` where in the
    archive its weights, labels and tokenizer lie. `prepare` turns the needed values into what the
    handler reads; with `Samples` a request gets a list of values. Without it, several needed
    values are read as a dict of them.
    """

    handler: BaseHandler

    def __init__(
        self,
        name: str,
        handler_type: type[BaseHandler],
        *,
        needs: Sequence[str] = ("request",),
        model: Mapping[str, str] | None = None,
        config: Mapping[str, object] | None = None,
        folder: str = "",
        prepare: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name, needs=needs)
        self.handler_type = handler_type
        self.model = model
        self.config = dict(config or {})
        self.folder = folder
        self.prepare = prepare

    def load(self, context: Any) -> None:
        """Initialize the handler, as a worker would if it were alone."""
        self.handler = self.handler_type()
        try:
            self.handler.initialize(_StageContext(context, self))
        except LoadError as error:
            raise LoadError(f"stage {self.name}: {error}") from error
        self.handler.running = [_INSIDE]

    @property
    def lost(self) -> str:
        """Return why the device is lost to this process, or ''."""
        return self.handler.forwards.lost

    def run(
        self, inputs: Sequence[Sequence[Any]], statistics: BatchStatistics
    ) -> list[Any | Failed]:
        """Return each request's value: a list where `prepare` gave `Samples`."""
        statistics.lap()
        read = [self._read(values) for values in inputs]
        statistics.decode_ms += statistics.lap()
        outputs = iter(self._run_samples(read, statistics))
        statistics.lap()
        values = [
            own if isinstance(own, Failed) else self._value(own, [next(outputs) for _ in own])
            for own in read
        ]
        statistics.encode_ms += statistics.lap()
        return values

    def _run_samples(
        self, read: Sequence[Sequence[Any] | Failed], statistics: BatchStatistics
    ) -> list[Any | Failed]:
        """Run the samples of all requests; return one outcome per sample, in order."""
        lists = [[] if isinstance(own, Failed) else own for own in read]
        samples = [sample for own in lists for sample in own]
        statistics.samples += len(samples)

        def forward(positions: Sequence[int]) -> Sequence[Any]:
            batch = self.handler.collate([samples[i] for i in positions])
            statistics.forwards += 1
            statistics.lap()
            try:
                outputs = self.handler.inference(batch)
            finally:
                statistics.forward_ms += statistics.lap()
            return checked(self.handler.split(outputs, len(positions)), len(positions), "split")

        return self.handler.forwards.run(
            samples,
            forward,
            length=self.handler.length,
            limits=self.handler.settings,
            statistics=statistics,
            owners=[owner for owner, own in enumerate(lists) for _ in own],
        )

    def _read(self, values: Sequence[Any]) -> Sequence[Any] | Failed:
        try:
            if self.prepare is not None:
                value = self.prepare(*values)
            else:
                value = values[0] if len(values) == 1 else dict(zip(self.needs, values))
            if isinstance(value, Samples):
                return Samples(self.handler.read(item) for item in value)
            return [self.handler.read(value)]
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            return self.failed(error)

    def _value(self, own: Sequence[Any], outputs: Sequence[Any]) -> Any | Failed:
        several = isinstance(own, Samples)
        for position, output in enumerate(outputs):
            if isinstance(output, Failed):
                return output.in_sample(position) if several else output
        try:
            values = [self.handler.encode(output, _INSIDE) for output in outputs]
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            return Failed(error)
        return values if several else values[0]


class _StageContext:
    """TorchServe's context as one stage's handler sees it: its own files, model and settings."""

    def __init__(self, context: Any, stage: ModelStage) -> None:
        self._context = context
        model_dir = Path(context.system_properties["model_dir"]) / stage.folder
        self.system_properties = {**context.system_properties, "model_dir": str(model_dir)}
        self.manifest = copy.copy(context.manifest)
        if stage.model is not None:
            self.manifest["model"] = {**self.manifest.get("model", {}), **_NO_FILES, **stage.model}
        config = getattr(context, "model_yaml_config", None) or {}
        # What holds for every handler holds for the stages too; the rest is the pipeline's own.
        shared = {k: v for k, v in (config.get("handler") or {}).items() if k in _SHARED}
        self.model_yaml_config = {**config, "handler": {**shared, **stage.config}}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


_NO_FILES: Mapping[str, str] = {"modelFile": "", "serializedFile": ""}
