"""What the management API tells about models, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "ModelDescription",
    "ModelEntry",
    "WorkerDescription",
    "read_descriptions",
    "read_page",
]


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One line of the list of models: the name, and the archive of its default version."""

    name: str
    url: str


@dataclass(frozen=True, kw_only=True)
class WorkerDescription:
    """One worker of a model version.

    TorchServe 0.12 knows two states: READY, and UNLOADING for one that loads, crashed or is being
    tried again. `pid` is -1 before the first start, `memory_usage` is in bytes and 0 when nobody
    measured it.
    """

    id: str
    status: str
    pid: int
    memory_usage: int
    start_time: str
    gpu: bool

    @property
    def ready(self) -> bool:
        """Whether this worker answers requests."""
        return self.status == "READY"


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """One version of a model as the server sees it.

    `max_batch_delay` is in milliseconds, both timeouts in seconds. `min_workers` and
    `max_workers` are what was asked for; `workers` is what there is. `pending_requests` wait in
    the queue, those inside a worker are not counted.
    """

    name: str
    version: str
    url: str
    runtime: str
    min_workers: int
    max_workers: int
    batch_size: int
    max_batch_delay: int
    response_timeout: int
    startup_timeout: int
    device_type: str
    loaded_at_startup: bool
    workers: tuple[WorkerDescription, ...]
    pending_requests: int
    remaining_capacity: int

    @property
    def ready_workers(self) -> int:
        """How many workers answer requests."""
        return sum(worker.ready for worker in self.workers)


def read_page(data: object) -> tuple[tuple[ModelEntry, ...], str | None]:
    """Read the answer to `GET /models`: the entries, and the token of the next page.

    Raises LookupError, TypeError or ValueError for what TorchServe would not answer, as
    `read_descriptions` does.
    """
    if not isinstance(data, dict):
        raise TypeError("no object")
    token = data.get("nextPageToken")
    entries = tuple(
        ModelEntry(name=_text(item, "modelName"), url=_text(item, "modelUrl"))
        for item in data["models"]
    )
    return entries, None if token is None else str(token)


def read_descriptions(data: object) -> tuple[ModelDescription, ...]:
    """Read the answer to `GET /models/{name}`: one description for each version."""
    if not isinstance(data, list) or not data:
        raise TypeError("no list, or an empty one")
    return tuple(_description(item) for item in data)


def _description(data: Mapping[str, object]) -> ModelDescription:
    """Read one version; keys that are there in some configurations only are optional."""
    queue = data.get("jobQueueStatus")
    status: Mapping[str, object] = queue if isinstance(queue, Mapping) else {}
    workers = data.get("workers")
    return ModelDescription(
        name=_text(data, "modelName"),
        version=_text(data, "modelVersion"),
        url=_text(data, "modelUrl"),
        runtime=_text(data, "runtime", ""),
        min_workers=_whole(data, "minWorkers"),
        max_workers=_whole(data, "maxWorkers"),
        batch_size=_whole(data, "batchSize"),
        max_batch_delay=_whole(data, "maxBatchDelay"),
        response_timeout=_whole(data, "responseTimeout", 0),
        startup_timeout=_whole(data, "startupTimeout", 0),
        device_type=_text(data, "deviceType", ""),
        loaded_at_startup=data.get("loadedAtStartup") is True,
        workers=tuple(_worker(item) for item in workers) if isinstance(workers, list) else (),
        pending_requests=_whole(status, "pendingRequests", 0),
        remaining_capacity=_whole(status, "remainingCapacity", 0),
    )


def _worker(data: Mapping[str, object]) -> WorkerDescription:
    return WorkerDescription(
        id=_text(data, "id"),
        status=_text(data, "status"),
        pid=_whole(data, "pid", -1),
        memory_usage=_whole(data, "memoryUsage", 0),
        start_time=_text(data, "startTime", ""),
        gpu=data.get("gpu") is True,
    )


def _text(data: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}, not text")
    return value


def _whole(data: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = data.get(key, default)
    if not isinstance(value, int):
        raise TypeError(f"{key} is {value!r}, not a number")
    return value
