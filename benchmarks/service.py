"""Two handlers behind TorchServe's own `Service.predict`, asked in turn with the same batches."""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

__all__ = ["Service", "alternate", "batch_of", "load_service"]

Service = Any


def load_service(
    folder: Path, source: str, *, batch_size: int, config: Mapping[str, object] | None = None
) -> Service:
    """Load a handler as a worker does: an unpacked archive with `handler.py` and the network.

    `folder` holds the model's files; `source` is the handler's code.
    """
    import ts
    from ts.metrics.metric_cache_yaml_impl import MetricsCacheYamlImpl
    from ts.service import Service as TorchServeService

    (folder / "handler.py").write_text(source)
    manifest = json.loads((folder / "MAR-INF" / "MANIFEST.json").read_text())
    sys.path.insert(0, str(folder))
    try:
        # The worker's own metrics: each one is a line that the worker logs.
        metrics = MetricsCacheYamlImpl(str(Path(ts.__file__).parent / "configs" / "metrics.yaml"))
        metrics.initialize_cache()
        metrics.model_name = "model"
        module = importlib.import_module("handler")
        entry = module.Handler()
        service = TorchServeService(
            "model", str(folder), manifest, entry.handle, None, batch_size, True, metrics
        )
        service.context.model_yaml_config = dict(config or {})
        entry.initialize(service.context)
    finally:
        sys.path.remove(str(folder))
        for name in ("handler", "network"):
            sys.modules.pop(name, None)
    service.set_cl_socket(None)
    return service


def batch_of(bodies: list[object], content_type: str) -> list[dict[str, object]]:
    """Build the batch that the worker reads from its socket for these bodies."""
    return [
        {
            "requestId": f"request-{i}".encode(),
            "headers": [],
            "parameters": [{"name": "body", "value": body, "contentType": content_type}],
        }
        for i, body in enumerate(bodies)
    ]


def alternate(
    first: Callable[[], object], second: Callable[[], object], *, rounds: int
) -> tuple[float, float, float]:
    """Time two calls in turn; return the median seconds of each and the median ratio first/second.

    The machine's speed drifts; what is run in turn drifts together.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, taken in zip((first, second), times, strict=True):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


torch.set_num_threads(1)
