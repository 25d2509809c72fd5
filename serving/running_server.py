"""A server that is up: its process, its clients and its models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from makemar.errors import ServingError, UnreachableError
from makemar.serving.archive_links import ArchiveLink
from makemar.serving.descriptions import ModelDescription
from makemar.serving.inference import InferenceClient
from makemar.serving.java_process import JavaProcess
from makemar.serving.launch import Launch, loads_at_start
from makemar.serving.loading import await_loaded, check_loaded, register_archives
from makemar.serving.management import ManagementClient
from makemar.serving.model_settings import ModelSettings
from makemar.serving.state import ServerState

__all__ = ["RunningServer", "await_running"]


@dataclass(frozen=True, kw_only=True)
class RunningServer:
    """What there is from the moment that all models are READY until the server ends."""

    java: JavaProcess
    launch: Launch
    management: ManagementClient
    inference: InferenceClient
    models: tuple[ModelDescription, ...]

    @property
    def key_file(self) -> Path | None:
        """The file with the keys, None if the server asks for none."""
        return _key_file(self.java, self.launch)

    @property
    def state(self) -> ServerState:
        """What a later command must know about it."""
        work_dir = self.java.work_dir
        own = self.launch.config.model_store == str(work_dir.model_store)
        return ServerState(
            work_dir=work_dir.root,
            pid=self.java.pid,
            started=self.java.started,
            addresses=self.launch.addresses,
            key_file=self.key_file,
            tmp_dir=work_dir.tmp,
            model_store=work_dir.model_store if own else None,
        )

    def close(self) -> None:
        """Close the clients."""
        self.management.close()
        self.inference.close()


def await_running(
    java: JavaProcess,
    launch: Launch,
    *,
    links: Sequence[ArchiveLink],
    settings: ModelSettings,
    deadline: float,
) -> RunningServer:
    """Wait until Java listens, load the models, and wait until they are READY.

    Raises what `TorchServe.start` raises; the process is the caller's to end then.
    """
    java.await_start(deadline)
    # The server has written its keys by now.
    key_file, addresses = _key_file(java, launch), launch.addresses
    management = ManagementClient(
        addresses.management, key_file=key_file, worker_log=java.server_log
    )
    try:
        models = _load(java, launch, management, links, settings, deadline)
    except BaseException:
        management.close()
        raise
    return RunningServer(
        java=java,
        launch=launch,
        management=management,
        inference=InferenceClient(addresses.inference, key_file=key_file),
        models=models,
    )


def _load(
    java: JavaProcess,
    launch: Launch,
    management: ManagementClient,
    links: Sequence[ArchiveLink],
    settings: ModelSettings,
    deadline: float,
) -> tuple[ModelDescription, ...]:
    config = launch.config
    try:
        loaded = await_loaded(management, java, deadline) if config.load_models else ()
        if loads_at_start(config):
            check_loaded(loaded, links, settings)
            return loaded
        return loaded + register_archives(management, links, settings, deadline)
    except UnreachableError as error:
        code = java.exit_code
        if code is None:
            raise
        raise ServingError(f"TorchServe ended while it started: {java.reason(code)}") from error


def _key_file(java: JavaProcess, launch: Launch) -> Path | None:
    return None if launch.config.disable_token_authorization else java.work_dir.key_file
