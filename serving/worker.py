"""One backend worker of TorchServe as a context manager, without the server and its Java."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from makemar.archiver import Archive, ArchiveFormat, read_archive
from makemar.configs import ServerConfig
from makemar.errors import ServingError
from makemar.serving.guard import remove_paths
from makemar.serving.interrupts import postponed_interrupts
from makemar.serving.launch import torchserve_home
from makemar.serving.work_dir import WorkDir, make_work_dir
from makemar.serving.worker_connection import WorkerConnection
from makemar.serving.worker_exchange import exchange
from makemar.serving.worker_launch import WorkerLaunch, plan_worker
from makemar.serving.worker_messages import WorkerReply, WorkerRequest, with_ids
from makemar.serving.worker_model import place_model
from makemar.serving.worker_process import WorkerProcess
from makemar.serving.worker_protocol import encode_load
from makemar.serving.worker_times import WorkerTimes, warm_up_ms

__all__ = ["Worker"]

_OK = 200
_KEPT = 1_000_000  # characters of the log that are kept when the worker has ended


class Worker:
    """The process that TorchServe 0.12 would start for an archive, with its socket and protocol.

    A `.mar` or `.tar.gz` is unpacked into a private temporary folder, a directory is used as it is.
    Settings come from the archive and from `config`, as for a registration that names none;
    `batch_size` overrides. `gpu_id` None is the CPU. Timeouts are in seconds: `load_timeout` for
    the model, `response_timeout` for each message of a batch's answer; the process has two minutes
    to start, as TorchServe 0.12 gives it. `environ` adds variables to the few that the worker gets:
    those of the locale, of CUDA and of the mathematical libraries.
    """

    def __init__(
        self,
        archive: Path | str,
        *,
        batch_size: int | None = None,
        config: ServerConfig | None = None,
        gpu_id: int | None = None,
        environ: Mapping[str, str] | None = None,
        load_timeout: float | None = None,
        response_timeout: float | None = None,
    ) -> None:
        self.path = Path(archive)
        self._batch_size = batch_size
        self._config = ServerConfig() if config is None else config
        self._gpu_id = gpu_id
        self._additions = dict(environ or {})
        self._load_timeout, self._response_timeout = load_timeout, response_timeout
        self._running: tuple[WorkerProcess, WorkerConnection, WorkerLaunch] | None = None
        self._archive: Archive | None = None
        self._times: WorkerTimes | None = None
        self._log = ""

    def __repr__(self) -> str:
        state = "stopped" if self._running is None else f"pid {self.pid}"
        return f"Worker({str(self.path)!r}, {state})"

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the worker and load the model.

        Raises ArchiveError for an archive that TorchServe cannot load, WorkerError with the
        worker's own exception if the model does not load, and ServingError for the rest. Then
        nothing stays.
        """
        if self._running is not None:
            raise ServingError(f"this worker runs already (pid {self.pid}); stop it first")
        home = torchserve_home()
        archive = self._archive = read_archive(self.path)
        with contextlib.ExitStack() as undo:
            work_dir = make_work_dir(None)
            undo.callback(remove_paths, work_dir.leftovers)
            started = time.perf_counter()
            model_dir = place_model(archive, work_dir.root / "model")
            unpack_ms = _since(started)
            launch = plan_worker(
                archive,
                model_dir=model_dir,
                tmp=work_dir.tmp,
                home=home,
                config=self._config,
                batch_size=self._batch_size,
                gpu_id=self._gpu_id,
                environ=os.environ,
                additions=self._additions,
            )
            launch = replace(
                launch,
                load_timeout=self._load_timeout or launch.load_timeout,
                response_timeout=self._response_timeout or launch.response_timeout,
            )
            times = self._bring_up(launch, work_dir, undo)
            if archive.archive_format is not ArchiveFormat.DIRECTORY:
                times = replace(times, unpack_ms=unpack_ms)
            self._times = times
            undo.pop_all()

    def stop(self) -> None:
        """End the worker and remove its folder; does nothing to one that does not run."""
        self._end(hung=False)

    def predict(self, requests: Sequence[WorkerRequest]) -> tuple[WorkerReply, ...]:
        """Send requests as one batch; return one reply each, in order.

        Raises WorkerError if the worker dies or does not answer in time, and ServingError if what
        it sends is no answer: then it has been ended, as the server would do. Raises ServingError
        for more than `batch_size` requests, which the server never sends.
        """
        process, connection, launch = self._state()
        if len(requests) > self.batch_size:
            raise ServingError(
                f"{len(requests)} requests are more than a batch of {self.batch_size}; start the "
                "worker with a larger batch_size"
            )
        named = with_ids(requests)
        if not named:
            return ()
        started = time.perf_counter()
        try:
            replies = exchange(process, connection, launch, named)
        except BaseException:
            self._end(hung=True)
            raise
        if self._times is not None and self._times.first_answer_ms is None:
            self._times = replace(self._times, first_answer_ms=_since(started))
        return replies

    def describe(self) -> WorkerReply:
        """Send TorchServe's describe job: a request without parts, alone."""
        (reply,) = self.predict([WorkerRequest(headers={"describe": "True", "explain": "False"})])
        return reply

    @property
    def archive(self) -> Archive:
        """What the archive says of itself; known from the start on."""
        if self._archive is None:
            raise ServingError("this worker was never started; call start()")
        return self._archive

    @property
    def batch_size(self) -> int:
        """The most requests of one batch."""
        return self._state()[2].order.batch_size

    @property
    def times(self) -> WorkerTimes:
        """How long the cold start took; known after the end, too."""
        if self._times is None:
            raise ServingError("this worker was never started; call start()")
        return self._times

    @property
    def pid(self) -> int:
        """The process id, which is the id of its group."""
        return self._state()[0].pid

    def log(self) -> str:
        """Return what the worker has printed; after its end the last million characters."""
        return self._log if self._running is None else self._running[0].log.since(0)

    def _bring_up(
        self, launch: WorkerLaunch, work_dir: WorkDir, undo: contextlib.ExitStack
    ) -> WorkerTimes:
        # A Ctrl-C between a process and its name would leave it to nobody.
        with postponed_interrupts():
            process = WorkerProcess(launch, work_dir)
            undo.callback(process.end, grace=0)
        try:
            connection = process.connect(launch)
            undo.callback(connection.close)
            start_ms, started = _since(process.launched), time.perf_counter()
            _load(process, connection, launch)
        finally:
            self._log = process.log.since(0)[-_KEPT:]
        self._running = process, connection, launch
        return WorkerTimes(
            unpack_ms=None,
            start_ms=start_ms,
            load_ms=_since(started),
            warm_up_ms=warm_up_ms(self._log),
        )

    def _end(self, *, hung: bool) -> None:
        running, self._running = self._running, None
        if running is not None:
            process, connection, _ = running
            connection.close()
            try:
                self._log = process.log.since(0)[-_KEPT:]
            finally:
                process.end(**({"grace": 0.0} if hung else {}))

    def _state(self) -> tuple[WorkerProcess, WorkerConnection, WorkerLaunch]:
        if self._running is None:
            raise ServingError("the worker is not running; call start(), or use it as a context")
        return self._running


def _load(process: WorkerProcess, connection: WorkerConnection, launch: WorkerLaunch) -> None:
    """Have the model loaded; raises WorkerError with the worker's own exception."""
    seconds, mark = launch.load_timeout, process.log.mark()
    try:
        connection.send(encode_load(launch.order), seconds=seconds)
        message = connection.receive(seconds=seconds, longest=launch.longest)
    except TimeoutError as error:
        raise process.hang("did not load the model", seconds, mark) from error
    except (ConnectionError, EOFError) as error:
        raise process.death("while it loaded the model", mark) from error
    if message.code != _OK:
        raise process.death("while it loaded the model", mark)


def _since(started: float) -> float:
    """Milliseconds since then."""
    return round((time.perf_counter() - started) * 1000, 1)
