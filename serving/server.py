"""TorchServe as a context manager."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from makemar.configs import ServerConfig, load_profile
from makemar.errors import ServingError, UnreachableError
from makemar.serving.addresses import ServerAddresses, check_ports, with_free_ports
from makemar.serving.archive_links import ArchiveLink, link_archives, plan_links
from makemar.serving.descriptions import ModelDescription
from makemar.serving.guard import remove_paths
from makemar.serving.inference import InferenceClient
from makemar.serving.java import find_java
from makemar.serving.java_process import JavaProcess
from makemar.serving.launch import (
    Launch,
    effective_config,
    loads_at_start,
    plan_launch,
    torchserve_home,
)
from makemar.serving.loading import await_loaded, check_loaded, register_archives
from makemar.serving.management import ManagementClient
from makemar.serving.model_settings import ModelSettings
from makemar.serving.state import ServerState, check_unused
from makemar.serving.work_dir import make_work_dir

__all__ = ["TorchServe"]

_TRIES = 3  # with other free ports, when somebody else took one in between
_KEPT = 1_000_000  # characters of a log that stay readable after the server has ended


class TorchServe:
    """One TorchServe 0.12 on this machine, started on entry and gone on exit.

    `archives` are served from the start: with `workers` workers each, and with `batch_size` and
    `max_batch_delay` (milliseconds) unless those are None. The server's settings are `config`, or
    else the ready-made `profile` on five free ports; `free_ports` replaces the ports of a given
    `config` too. Tokens are on unless the settings say otherwise.

    Everything the server writes is in `work_dir`. Without one it is a temporary folder that goes
    with the server; a given one is kept, except for keys and temporary files, and `stop_server`
    finds the server there. `start_timeout` (seconds) bounds the start, `stop_timeout` how long the
    server may take to end before it is killed. `environ` is added to the environment of the server
    and its workers.

    TorchServe 0.12: when the settings switch the model API off, archives are loaded at start, where
    the settings in an archive's own model-config.yaml beat the ones given here.
    """

    def __init__(
        self,
        archives: Sequence[Path | str] = (),
        *,
        config: ServerConfig | None = None,
        profile: str = "development",
        free_ports: bool | None = None,
        work_dir: Path | None = None,
        workers: int = 1,
        batch_size: int | None = None,
        max_batch_delay: int | None = None,
        start_timeout: float = 120.0,
        stop_timeout: float = 15.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._archives = tuple(archives)
        self._config = load_profile(profile) if config is None else config
        self._free_ports = config is None if free_ports is None else free_ports
        self._folder = work_dir
        self._settings = ModelSettings(
            workers=workers, batch_size=batch_size, max_batch_delay=max_batch_delay
        )
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._additions = dict(environ or {})
        self._java: JavaProcess | None = None
        self._launch: Launch | None = None
        self._management: ManagementClient | None = None
        self._inference: InferenceClient | None = None
        self._models: tuple[ModelDescription, ...] = ()
        self._logs = ("", "")

    def __repr__(self) -> str:
        state = "stopped" if self._java is None else f"pid {self._java.pid}"
        return f"TorchServe({[str(archive) for archive in self._archives]}, {state})"

    def __enter__(self) -> TorchServe:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and wait until the workers of every model are READY.

        Raises ArchiveError for an archive that cannot be loaded, WorkersFailedError with the
        worker's own traceback for one whose handler fails, and ServingError, with Java's reason,
        for the rest: no Java, a busy port, a setting that the server refuses. Then nothing stays.
        """
        if self._java is not None:
            raise ServingError(f"this server runs already (pid {self._java.pid}); stop it first")
        if self._folder is not None:
            check_unused(self._folder)
        environ = {**os.environ, **self._additions}
        config = effective_config(self._config, environ)
        store = Path(config.model_store) if config.model_store else None
        links = plan_links(self._archives, store=store)
        java, home = find_java(environ), torchserve_home()
        deadline = time.monotonic() + self._start_timeout
        for tries_left in reversed(range(_TRIES)):
            try:
                if self._free_ports:
                    config = with_free_ports(config)
                check_ports(config)
                plan = partial(
                    plan_launch,
                    config,
                    java=java,
                    home=home,
                    links=links,
                    settings=self._settings,
                    environ=environ,
                )
                return self._bring_up(plan, links, deadline)
            except ServingError as error:
                taken = self._free_ports and "Failed to bind" in str(error)
                if not (taken and tries_left):
                    raise

    def stop(self) -> None:
        """End the server and its workers and remove keys and temporary files.

        TorchServe takes three to five seconds to end: it waits for open connections. Does nothing
        to a server that is not running or was detached.
        """
        java, self._java = self._java, None
        if java is None:
            return
        for client in (self._management, self._inference):
            if client is not None:
                client.close()
        try:
            java.end()
        finally:
            self._logs = (java.log()[-_KEPT:], java.worker_words()[-_KEPT:])
            java.clear()

    def detach(self) -> ServerState:
        """Let the server outlive this process; `stop_server` ends it.

        Raises ServingError if it has no work directory of its own to be found in.
        """
        java = self._running()
        if java.place.private:
            raise ServingError("a server in a temporary folder cannot be detached; give a work_dir")
        state = self._state(java)
        java.detach()
        self._java = None
        return state

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the server ends by itself and return its exit code.

        Returns None if it still runs after `timeout` seconds. Negative codes are signals.
        """
        return self._running().wait(timeout)

    @property
    def management(self) -> ManagementClient:
        """A client of the management API that has the key and reads the log."""
        self._running()
        assert self._management is not None  # noqa: S101 - set before anything runs
        return self._management

    @property
    def inference(self) -> InferenceClient:
        """A client of the inference API that has the key."""
        self._running()
        assert self._inference is not None  # noqa: S101 - set before anything runs
        return self._inference

    @property
    def models(self) -> tuple[ModelDescription, ...]:
        """What was loaded at the start, in the order of the archives."""
        return self._models

    @property
    def addresses(self) -> ServerAddresses:
        """Where the server is reached."""
        return self._launched().addresses

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds the metrics; no key is needed."""
        return f"{self.addresses.metrics}/metrics"

    @property
    def key_file(self) -> Path | None:
        """The file with the keys, None if the server asks for none."""
        java, launch = self._running(), self._launched()
        return None if launch.config.disable_token_authorization else java.place.key_file

    @property
    def work_dir(self) -> Path:
        """The folder that the server lives in."""
        return self._running().place.root

    @property
    def pid(self) -> int:
        """The process id of Java, which leads the group of its workers."""
        return self._running().pid

    def log(self) -> str:
        """Return what the server printed and logged; after its end the last million characters."""
        return self._logs[0] if self._java is None else self._java.log()

    def model_log(self) -> str:
        """Return what the workers printed; after the end the last million characters."""
        return self._logs[1] if self._java is None else self._java.worker_words()

    def _bring_up(
        self, plan: Callable[..., Launch], links: tuple[ArchiveLink, ...], deadline: float
    ) -> None:
        """Start Java, then the models; on any failure leave nothing behind."""
        place = make_work_dir(self._folder)
        try:
            launch = self._launch = plan(place=place)
            if launch.config.model_store == str(place.model_store):
                link_archives(links, place.model_store)
            java = self._java = JavaProcess(launch, place, grace=self._stop_timeout)
            java.await_start(deadline)
            self._connect(java, launch)
            self._models = self._load(java, links, deadline)
            if not place.private:
                self._state(java).write()
        except BaseException:
            if self._java is None:
                remove_paths(place.leftovers)
            else:
                self._java.kill()
                self.stop()
            raise

    def _connect(self, java: JavaProcess, launch: Launch) -> None:
        """Make the clients; the server has written its keys by now."""
        self._management = ManagementClient(
            launch.addresses.management, key_file=self.key_file, worker_log=java.server_log
        )
        self._inference = InferenceClient(launch.addresses.inference, key_file=self.key_file)

    def _load(
        self, java: JavaProcess, links: tuple[ArchiveLink, ...], deadline: float
    ) -> tuple[ModelDescription, ...]:
        config = self._launched().config
        try:
            loaded = await_loaded(self.management, java, deadline) if config.load_models else ()
            if loads_at_start(config):
                check_loaded(loaded, links, self._settings)
                return loaded
            return loaded + register_archives(self.management, links, self._settings, deadline)
        except UnreachableError as error:
            code = java.exit_code
            if code is None:
                raise
            raise ServingError(f"TorchServe ended while it started: {java.reason(code)}") from error

    def _state(self, java: JavaProcess) -> ServerState:
        own = self._launched().config.model_store == str(java.place.model_store)
        return ServerState(
            work_dir=java.place.root,
            pid=java.pid,
            started=java.started,
            addresses=self.addresses,
            key_file=self.key_file,
            tmp_dir=java.place.tmp,
            model_store=java.place.model_store if own else None,
        )

    def _running(self) -> JavaProcess:
        if self._java is None:
            raise ServingError("the server is not running; call start(), or use it as a context")
        return self._java

    def _launched(self) -> Launch:
        self._running()
        assert self._launch is not None  # noqa: S101 - set before anything runs
        return self._launch
