"""The base class of every handler: TorchServe's contract outside, one request at a time inside."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from makemar.handlers import tensors
from makemar.handlers.engine import BatchRun
from makemar.handlers.errors import BadRequestError, RequestError, as_request_error
from makemar.handlers.exchange import read_requests, send, take_reply
from makemar.handlers.isolation import Failed
from makemar.handlers.labels import load_labels
from makemar.handlers.loading import load_model, pick_device
from makemar.handlers.reply import Reply, error_reply, render
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings, read_settings

__all__ = ["BaseHandler"]

logger = logging.getLogger(__name__)

Rows = Sequence[Mapping[str, object]]
_STAGES = ("preprocess", "inference", "postprocess")


class BaseHandler:
    """Answer every request of a batch on its own; subclass it and write `decode` and `encode`.

    Hooks see one request or one sample: `decode(request)` gives a sample (or `Samples`),
    `collate(samples)` a batch, `forward(batch)` the outputs, `split(outputs, count)` one output
    per sample, `encode(output, request)` the reply.

    The whole-batch stages keep TorchServe's names and signatures, so a subclass written for its
    BaseHandler works after changing the import line: `preprocess(rows)`, `inference(batch)`,
    `postprocess(outputs)`. A stage that raises is run again on halves of the rows, so it must be
    safe to repeat.

    Whatever a request does, `handle` returns one reply for each, in order, and raises nothing.
    """

    settings_type: ClassVar[type[HandlerSettings]] = HandlerSettings

    def __init__(self) -> None:
        self.model: Any = None
        self.mapping: dict[str, str] | None = None
        self.device = torch.device("cpu")
        self.initialized = False
        self.context: Any = None
        self.manifest: dict[str, Any] = {}
        self.model_yaml_config: dict[str, Any] = {}
        self.settings = self.settings_type()
        # The requests whose rows are in the stages right now; a bisection runs only some.
        self.running: Sequence[Request] = ()

    # -- TorchServe calls these two ------------------------------------------------------------

    def initialize(self, context: Any) -> None:
        """Read the settings and load model and labels from the archive.

        Raises `LoadError` (a `ValueError`): after it TorchServe unregisters a failed model
        cleanly, while a `RuntimeError` would leave it stuck.
        """
        properties = context.system_properties
        model_dir = Path(properties["model_dir"])
        self.context = context
        self.manifest = context.manifest
        self.model_yaml_config = getattr(context, "model_yaml_config", None) or {}
        self.settings = read_settings(self.settings_type, self.model_yaml_config)
        self.device = pick_device(properties.get("gpu_id"), self.settings.device)
        self.model = load_model(model_dir, self.manifest.get("model", {}), self.device)
        self.mapping = load_labels(model_dir / "index_to_name.json")
        self.initialized = True

    def handle(self, data: Rows, context: Any) -> list[bytes]:
        """Answer a batch: `data` holds one row per request, the result one body per row."""
        started = time.perf_counter()
        self.context = context
        run = BatchRun(self, data, context, own_stages=self._own_stages())
        outcomes = run.outcomes()
        replies = [self._reply(o, r, context) for o, r in zip(outcomes, run.requests)]
        self._record(replies, run.forwards, (time.perf_counter() - started) * 1000)
        return [send(reply, context, index) for index, reply in enumerate(replies)]

    # -- The whole batch at once: TorchServe's stages -------------------------------------------

    def preprocess(self, data: Rows) -> Any:
        """Turn rows into the model's input: decode each, then collate."""
        requests = read_requests(data, self.context)
        return self.collate([self.decode(request) for request in requests])

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the model on a collated batch, without gradients."""
        with torch.inference_mode():
            return self.forward(data, *args, **kwargs)

    def postprocess(self, data: Any) -> Sequence[object]:
        """Turn the model's outputs into one result per row: split, then encode each."""
        outputs = self.split(data, len(self.running))
        return [self.encode(output, request) for output, request in zip(outputs, self.running)]

    # -- One request or sample: the hooks -------------------------------------------------------

    def decode(self, request: Request) -> Any:
        """Turn one request into a sample: here a number or nested list of numbers to a tensor.

        Raise a `RequestError` to answer this request alone; any other exception is a 400.
        """
        payload = request.payload()
        if not isinstance(payload, (list, int, float)):
            raise BadRequestError(
                f"expected JSON numbers, got {type(payload).__name__} "
                f"(content type {request.content_type() or 'not given'}); "
                "send a list of numbers as application/json"
            )
        try:
            return torch.tensor(payload, dtype=torch.float32)
        except (TypeError, ValueError) as error:
            raise BadRequestError(f"the list is not a regular array of numbers: {error}") from error

    def collate(self, samples: Sequence[Any]) -> Any:
        """Stack n samples of one shape (…) to a batch (n, …)."""
        return tensors.stack(samples)

    def forward(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the model on a batch, on its device."""
        batch = tensors.apply(lambda tensor: tensor.to(self.device), batch)
        if isinstance(batch, dict):
            return self.model(*args, **batch, **kwargs)
        if isinstance(batch, tuple):
            return self.model(*batch, *args, **kwargs)
        return self.model(batch, *args, **kwargs)

    def split(self, outputs: Any, count: int) -> list[Any]:
        """Split the model's outputs (count, …) into one output per sample."""
        return tensors.split(outputs, count)

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn one output into a reply: bytes, text, anything that JSON can hold, or a `Reply`."""
        return tensors.apply(lambda tensor: tensor.cpu(), output)

    # -- Answers and their record ------------------------------------------------------------------

    def _reply(self, outcome: object | Failed, request: Request, context: Any) -> Reply:
        """Turn one request's outcome into a reply that TorchServe can send."""
        reply = take_reply(outcome, context, request.index)
        if not isinstance(outcome, Failed):
            try:
                return render(reply, max_bytes=self.settings.max_response_bytes)
            except RequestError as error:
                outcome = Failed(error)
        told = as_request_error(outcome.error, outcome.stage)
        _log_failure(request, told, outcome.error)
        return error_reply(told, request.id)

    @classmethod
    def _own_stages(cls) -> frozenset[str]:
        """Name the whole-batch stages that a subclass wrote itself, TorchServe's way."""
        return frozenset(n for n in _STAGES if getattr(cls, n) is not getattr(BaseHandler, n))

    def _record(self, replies: Sequence[Reply], forwards: int, took_ms: float) -> None:
        failed = sum(reply.status >= 400 for reply in replies)
        logger.info(
            "batch=%d forwards=%d failed=%d ms=%.1f", len(replies), forwards, failed, took_ms
        )
        metrics = getattr(self.context, "metrics", None)
        if metrics is not None:
            metrics.add_time("HandlerTime", round(took_ms, 2), None, "ms")


def _log_failure(request: Request, error: RequestError, cause: BaseException) -> None:
    """Log what the client was told; with the traceback when the handler did not choose it."""
    chosen = error is cause and error.status < 500
    logger.log(
        logging.INFO if chosen else logging.ERROR,
        "request %s answered %d: %s",
        request.id,
        error.status,
        error.message,
        exc_info=None if chosen else cause,
    )
