"""TorchServe as a context manager."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from makemar.configs import ServerConfig, load_profile
from makemar.errors import ServingError
from makemar.serving.addresses import (
    PortInUseError,
    ServerAddresses,
    check_ports,
    with_free_ports,
)
from makemar.serving.archive_links import ArchiveLink, link_archives, plan_links
from makemar.serving.descriptions import ModelDescription
from makemar.serving.guard import remove_paths
from makemar.serving.inference import InferenceClient
from makemar.serving.interrupts import postponed_interrupts
from makemar.serving.java import find_java
from makemar.serving.java_process import JavaProcess
from makemar.serving.launch import Launch, effective_config, plan_launch, torchserve_home
from makemar.serving.management import ManagementClient
from makemar.serving.model_settings import ModelSettings
from makemar.serving.running_server import RunningServer, await_running
from makemar.serving.state import ServerState, check_unused, claim_work_dir
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
        self._server: RunningServer | None = None
        self._logs = ("", "")

    def __repr__(self) -> str:
        state = "stopped" if self._server is None else f"pid {self._server.java.pid}"
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
        if self._server is not None:
            raise ServingError(f"this server runs already (pid {self.pid}); stop it first")
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
            except PortInUseError:
                if not (self._free_ports and tries_left):
                    raise

    def stop(self) -> None:
        """End the server and its workers and remove keys and temporary files.

        TorchServe takes three to five seconds to end: it waits for open connections. Does nothing
        to a server that is not running or was detached.
        """
        server, self._server = self._server, None
        if server is not None:
            server.close()
            self._end(server.java)

    def detach(self) -> ServerState:
        """Let the server outlive this process; `stop_server` ends it.

        Raises ServingError if it has no work directory of its own to be found in.
        """
        server = self._running()
        if server.java.work_dir.private:
            raise ServingError("a server in a temporary folder cannot be detached; give a work_dir")
        server.java.detach()
        self._server = None
        return server.state

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the server ends by itself and return its exit code.

        Returns None if it still runs after `timeout` seconds. Negative codes are signals.
        """
        return self._running().java.wait(timeout)

    @property
    def management(self) -> ManagementClient:
        """A client of the management API that has the key and reads the log."""
        return self._running().management

    @property
    def inference(self) -> InferenceClient:
        """A client of the inference API that has the key."""
        return self._running().inference

    @property
    def models(self) -> tuple[ModelDescription, ...]:
        """What was loaded at the start, in the order of the archives."""
        return self._running().models

    @property
    def addresses(self) -> ServerAddresses:
        """Where the server is reached."""
        return self._running().launch.addresses

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds the metrics; no key is needed."""
        return f"{self.addresses.metrics}/metrics"

    @property
    def key_file(self) -> Path | None:
        """The file with the keys, None if the server asks for none."""
        return self._running().key_file

    @property
    def work_dir(self) -> Path:
        """The folder that the server lives in."""
        return self._running().java.work_dir.root

    @property
    def pid(self) -> int:
        """The process id of Java, which leads the group of its workers."""
        return self._running().java.pid

    def log(self) -> str:
        """Return what the server printed and logged; after its end the last million characters."""
        return self._logs[0] if self._server is None else self._server.java.log()

    def model_log(self) -> str:
        """Return what the workers printed; after the end the last million characters."""
        return self._logs[1] if self._server is None else self._server.java.model_log()

    def _bring_up(
        self, plan: Callable[..., Launch], links: tuple[ArchiveLink, ...], deadline: float
    ) -> None:
        """Start Java, then the models; on any failure leave nothing behind."""
        with contextlib.ExitStack() as undo:
            lock = None if self._folder is None else claim_work_dir(self._folder)
            if lock is not None:
                undo.callback(lock.release)
            work_dir = make_work_dir(self._folder)
            undo.callback(remove_paths, work_dir.leftovers)
            launch = plan(work_dir=work_dir)
            if launch.config.model_store == str(work_dir.model_store):
                link_archives(links, work_dir.model_store)
            # A Ctrl-C between a process and its name would leave it to nobody.
            with postponed_interrupts():
                java = JavaProcess(launch, work_dir, grace=self._stop_timeout, lock=lock)
                undo.pop_all()  # the folder and its lock are Java's now
                undo.callback(self._abandon, java)
            server = await_running(
                java, launch, links=links, settings=self._settings, deadline=deadline
            )
            if not work_dir.private:
                server.state.write()
            self._server = server
            undo.pop_all()

    def _abandon(self, java: JavaProcess) -> None:
        """End a server that did not come up."""
        self._server = None
        try:
            java.kill()
        finally:
            self._end(java)

    def _end(self, java: JavaProcess) -> None:
        try:
            java.end()
        finally:
            self._logs = (java.log()[-_KEPT:], java.model_log()[-_KEPT:])
            java.clear()

    def _running(self) -> RunningServer:
        if self._server is None:
            raise ServingError("the server is not running; call start(), or use it as a context")
        return self._server
