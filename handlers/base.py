"""The base class of every handler: TorchServe's contract outside, one request at a time inside."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch

from makemar.handlers import tensors
from makemar.handlers.answers import answer_batch, describe
from makemar.handlers.codecs import Envelope, open_envelope, to_tensor, wants_arrays
from makemar.handlers.counts import checked
from makemar.handlers.decoding import Decoding
from makemar.handlers.device import pick_device
from makemar.handlers.errors import RequestError
from makemar.handlers.exchange import is_describe, read_requests
from makemar.handlers.forwards import Forwards
from makemar.handlers.guard import cleanly_failing, guarded
from makemar.handlers.labels import load_labels
from makemar.handlers.loading import load_model
from makemar.handlers.preparation import place_inputs
from makemar.handlers.request import Request, Samples
from makemar.handlers.settings import HandlerSettings, read_settings
from makemar.handlers.warmup import warm_up

__all__ = ["BaseHandler"]

Rows = Sequence[Mapping[str, object]]
_STAGES = ("preprocess", "inference", "postprocess")


class BaseHandler:
    """Answer every request of a batch on its own; subclass it and write `decode` and `encode`.

    Hooks see one request or one sample: `decode(request)` gives a sample (or `Samples`),
    `collate(samples)` a batch, `forward(batch)` the outputs, `split(outputs, count)` one output
    per sample, `encode(output, request)` the reply.

    The whole-batch stages keep TorchServe's names and signatures, so a subclass written for its
    BaseHandler works after changing the import line: `preprocess(rows)`, `inference(batch)`,
    `postprocess(outputs)`, or `handle(rows, context)` itself. What raises is run again on halves
    of the rows, so it must be safe to repeat.

    Whatever a request does, one reply goes out for each, in order, and nothing is raised.
    """

    settings_type: ClassVar[type[HandlerSettings]] = HandlerSettings

    # Defaults on the class: a subclass written for TorchServe may skip our __init__.
    settings: HandlerSettings = HandlerSettings()
    model: Any = None
    mapping: dict[str, str] | None = None
    device: Any = None
    context: Any = None
    manifest: Any = None
    model_pt_path: str | None = None
    model_yaml_config: Mapping[str, Any] = MappingProxyType({})
    initialized = False
    # The whole-batch stages that a subclass wrote itself, TorchServe's way.
    _own_stages: frozenset[str] = frozenset()
    # Whether it wrote anything of what TorchServe's handlers consist of.
    _old_style = False
    # Whether a `handle` that a subclass wrote is running; it may call ours.
    inside_handle = False
    # The requests whose rows are in the stages right now; a bisection runs only some.
    running: Sequence[Request] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give a subclass its settings' defaults, and isolation to a `handle` of its own."""
        super().__init_subclass__(**kwargs)
        cls.settings = cls.settings_type()
        cls._own_stages = frozenset(
            name for name in _STAGES if getattr(cls, name) is not getattr(BaseHandler, name)
        )
        cls._old_style = any(
            not getattr(cls, name).__module__.startswith("makemar.handlers")
            for name in (*_STAGES, "initialize", "handle")
        )
        if "initialize" in vars(cls):
            cls.initialize = cleanly_failing(cls.initialize)  # type: ignore[method-assign]
        if "handle" in vars(cls) and not inspect.iscoroutinefunction(cls.handle):
            cls.handle = guarded(cls.handle)  # type: ignore[method-assign]

    def __init__(self) -> None:
        self.device = torch.device("cpu")

    @functools.cached_property
    def decoding(self) -> Decoding:
        """What decodes requests, in threads that it keeps."""
        return Decoding(threads=self.settings.decode_threads)

    @functools.cached_property
    def forwards(self) -> Forwards:
        """What runs the model, and remembers between batches how much fits into memory."""
        return Forwards()

    # -- TorchServe calls these two ------------------------------------------------------------

    @cleanly_failing
    def initialize(self, context: Any) -> None:
        """Read the settings and load model and labels from the archive.

        Raises `LoadError` (a `ValueError`): after it TorchServe unregisters a failed model
        cleanly, while a `RuntimeError` would leave it stuck.
        """
        self._read_context(context)
        self._load(Path(context.system_properties["model_dir"]))
        self.initialized = True
        if self.settings.warmup:
            warm_up(self, batch_size=context.system_properties.get("batch_size") or 1)

    def _read_context(self, context: Any) -> None:
        """Take what TorchServe and the configuration say of this model and its worker."""
        self.context = context
        self.manifest = context.manifest
        self.model_yaml_config = getattr(context, "model_yaml_config", None) or {}
        self.settings = read_settings(
            self.settings_type, self.model_yaml_config, own_keys=self._old_style
        )
        gpu = context.system_properties.get("gpu_id")
        self.device = pick_device(gpu, self.settings.device)

    def _load(self, model_dir: Path) -> None:
        """Load what the handler works with: the network and its labels."""
        model = self.manifest.get("model", {})
        if model.get("serializedFile"):
            self.model_pt_path = str(model_dir / model["serializedFile"])
        self.model = load_model(model_dir, model, self.device, self.settings)
        self.mapping = load_labels(model_dir / "index_to_name.json")

    def handle(self, data: Rows, context: Any) -> list[bytes]:
        """Answer a batch: `data` holds one row per request, the result one body per row."""
        self.context = context
        if is_describe(data, context):
            return [describe(self, context)]
        return answer_batch(
            self, data, context, own_stages=self._own_stages, inside=self.inside_handle
        )

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
        if type(self).encode is BaseHandler.encode:
            return outputs
        every = checked(outputs, len(self.running), "split")
        return [self.encode(output, request) for output, request in zip(every, self.running)]

    # -- One request or sample: the hooks -------------------------------------------------------

    def decode(self, request: Request) -> Any:
        """Turn one request into a sample, or into `Samples` where it carries several.

        Here: open its envelope and `read` each value in it. Raise a `RequestError` to answer this
        request alone; any other exception is a 400.
        """
        envelope = request.envelope = open_envelope(request, self.settings)
        if envelope.several:
            return Samples(self.read(value) for value in envelope.values)
        return self.read(envelope.values[0])

    def read(self, value: object) -> Any:
        """Turn one value that a client sent into a sample: here a tensor, or a dict of them.

        JSON numbers and all floats become float32; integers whose type the client named (`.npy`,
        safetensors, protocol v2) keep it. The names of a dict are the model's arguments.
        """
        if isinstance(value, dict):
            return {str(name): to_tensor(item) for name, item in value.items()}
        return to_tensor(value)

    def collate(self, samples: Sequence[Any]) -> Any:
        """Stack n samples of one shape (…) to a batch (n, …)."""
        return tensors.stack(samples)

    def forward(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the model on a batch, on its device."""
        batch = place_inputs(batch, self.device, self.settings)
        if isinstance(batch, dict):
            return self.model(*args, **batch, **kwargs)
        if isinstance(batch, tuple):
            return self.model(*batch, *args, **kwargs)
        return self.model(batch, *args, **kwargs)

    def split(self, outputs: Any, count: int) -> list[Any]:
        """Split the model's outputs (count, …) into one output per sample."""
        if type(self).encode is BaseHandler.encode and not any(map(wants_arrays, self.running)):
            # Numbers are all that will go out: one conversion for the whole batch.
            outputs = tensors.apply(lambda tensor: tensor.tolist(), outputs)
        return tensors.split(outputs, count)

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn one output into a reply: bytes, text, anything that JSON can hold, or a `Reply`."""
        return output

    def assemble(self, results: Sequence[object], request: Request, *, several: bool) -> object:
        """Turn what `encode` made of a request's outputs into its reply.

        A request whose samples came out of its envelope is answered in the same protocol; one
        that a subclass decoded itself gets the result, or the list of them.
        """
        envelope = request.envelope
        if not isinstance(envelope, Envelope) or (several and not envelope.several):
            # Its samples are of the subclass's own making, whatever it came in.
            envelope = Envelope((), several=several)
        return envelope.close(results, request, self.context)

    def length(self, sample: Any) -> int | None:  # noqa: ARG002
        """Return the length of a ragged sample (tokens, frames), or None where shapes are equal.

        Samples with a length are sorted by it and share forwards as far as padding allows;
        `collate` must pad them.
        """
        return None

    def examples(self) -> Sequence[Any]:
        """Return samples to warm the model up with, one for each shape it will meet."""
        return ()

    def explain(self, request: Request) -> object:
        """Answer a request to /explanations.

        Here with TorchServe's own hooks, if a subclass has them: `explain_handle(batch, rows)` or
        `get_insights(batch, text, target)`, each called for one request.
        """
        whole_batch = getattr(self, "explain_handle", None)
        if whole_batch is not None:
            return whole_batch(self.preprocess([request.row]), [request.row])[0]
        insights = getattr(self, "get_insights", None)
        if insights is None:
            raise RequestError(501, "this handler explains nothing; it has no explain(request)")
        target = request.row.get("target") or 0
        return insights(self.preprocess([request.row]), request.payload(), target)[0]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema, for GET /models/NAME?customized=true."""
        return {"handler": type(self).__name__, "input": {}, "output": {}}
