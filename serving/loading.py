"""Getting a started server's models READY."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from makemar.errors import ServingError
from makemar.serving.archive_links import ArchiveLink
from makemar.serving.console import unloaded_models
from makemar.serving.descriptions import ModelDescription
from makemar.serving.java_process import JavaProcess
from makemar.serving.management import ManagementClient
from makemar.serving.model_settings import ModelSettings
from makemar.serving.readiness import WorkerWatch, await_workers

__all__ = ["await_loaded", "check_loaded", "register_archives"]


def register_archives(
    client: ManagementClient,
    links: Iterable[ArchiveLink],
    settings: ModelSettings,
    deadline: float,
) -> tuple[ModelDescription, ...]:
    """Register archives one after the other, each READY before the next."""
    return tuple(
        client.register(
            link.name,
            model_name=link.model,
            batch_size=settings.batch_size,
            max_batch_delay=settings.max_batch_delay,
            initial_workers=settings.workers,
            wait=_left(deadline),
        )
        for link in links
    )


def await_loaded(
    client: ManagementClient, java: JavaProcess, deadline: float
) -> tuple[ModelDescription, ...]:
    """Wait for the models that the server loads at start by itself.

    Raises ServingError for one that it left out: TorchServe 0.12 only logs that.
    """
    for name, reason in unloaded_models(java.server_log.since(java.server_log_start)).items():
        raise ServingError(f"the server could not load {name} from load_models: {reason}")
    found = [item for entry in client.models() for item in client.describe(entry.name, "all")]
    return tuple(
        await_workers(
            partial(_describe, client, item),
            wait=_left(deadline),
            watch=WorkerWatch(java.server_log, java.server_log_start),
            url=client.url,
        )
        for item in found
    )


def check_loaded(
    models: Iterable[ModelDescription], links: Iterable[ArchiveLink], settings: ModelSettings
) -> None:
    """Raise ServingError if an archive that was loaded at start has other settings than asked."""
    sources = {(link.model, link.version): link.source for link in links}
    for model in models:
        source = sources.get((model.name, model.version))
        for key, asked, got in (
            ("batch_size", settings.batch_size, model.batch_size),
            ("max_batch_delay", settings.max_batch_delay, model.max_batch_delay),
        ):
            if source is not None and asked not in (None, got):
                raise ServingError(
                    f"{source} runs with {key} {got} instead of {asked}: its own model-config.yaml "
                    "wins at start; change it there, or set enable_model_api=true"
                )


def _describe(client: ManagementClient, model: ModelDescription) -> ModelDescription:
    return client.describe(model.name, model.version)[0]


def _left(deadline: float) -> float:
    """Seconds until then; a start that is late gets one more look, and its reason."""
    return max(1.0, deadline - time.monotonic())
