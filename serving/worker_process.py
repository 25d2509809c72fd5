"""The process of one worker, from its start to the last trace of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from makemar.errors import ServingError
from makemar.serving.guard import Guard, remove_paths
from makemar.serving.log_file import LogFile
from makemar.serving.processes import start_time, terminate_group
from makemar.serving.work_dir import WorkDir
from makemar.serving.worker_connection import WorkerConnection
from makemar.serving.worker_error import WorkerError, worker_error
from makemar.serving.worker_launch import WorkerLaunch

__all__ = ["WorkerProcess"]

_STARTED = "Torch worker started."
_POLL_INTERVAL = 0.01  # seconds
_START_TIMEOUT = 120.0  # seconds; TorchServe 0.12
_PATIENCE = 5.0  # seconds for a worker to end by itself, with what it has at exit
_LAST_WORDS = 2.0  # seconds for a worker to tell where it hangs


class WorkerProcess:
    """A running worker, the leader of a process group of its own, with its guard."""

    def __init__(self, launch: WorkerLaunch, work_dir: WorkDir) -> None:
        self._work_dir = work_dir
        self.log = LogFile(work_dir.model_log)
        # The guard comes first: while there is none, nothing is started that could be orphaned.
        self._guard = Guard(grace=0, leftovers=work_dir.leftovers)
        self.launched = time.perf_counter()
        try:
            self._process = _spawn(launch, work_dir)
        except BaseException:
            self._guard.release()
            raise
        self.pid = self._process.pid
        try:
            self.started = start_time(self.pid) or time.time()
            self._guard.watch(self.pid, self.started)
        except BaseException:
            self.end(grace=0)
            raise

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def connect(self, launch: WorkerLaunch) -> WorkerConnection:
        """Wait until it listens, and connect; raises WorkerError if it ends or is late."""
        deadline = time.monotonic() + _START_TIMEOUT
        while _STARTED not in self.log.since(0):
            if not self.alive:
                raise self.death("before it listened", 0)
            if time.monotonic() > deadline:
                raise self.hang("did not start", _START_TIMEOUT, 0)
            time.sleep(_POLL_INTERVAL)
        try:
            return WorkerConnection(launch.socket, alive=lambda: self.alive)
        except OSError as error:
            raise self.death("before it took the connection", 0) from error

    def death(self, when: str, mark: int) -> WorkerError:
        """Tell why it ended; `mark` is where the log was before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        code = self._process.poll()
        if code is None:
            how = "the worker hung up"
        elif code < 0:
            how = f"the worker was ended by {signal.Signals(-code).name}"
        else:
            how = f"the worker ended with exit code {code}"
        return worker_error(f"{how} {when}", self.log.since(mark), uncaught=mark == 0)

    def hang(self, what: str, seconds: float, mark: int) -> WorkerError:
        """Have it tell where it is, which ends it, and tell that it was too slow."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            import resource

            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, 0))
            os.kill(self.pid, signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LAST_WORDS)
        return worker_error(
            f"the worker {what} within {seconds:g} s",
            self.log.since(mark),
            advice="give it longer if that is normal",
        )

    def end(self, *, grace: float = _PATIENCE) -> None:
        """End it and all that it started; its connection should be closed by then."""
        try:
            if grace:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(grace)
        finally:
            terminate_group(self.pid, self.started, grace=0)
            self._process.wait()
            self._guard.release()
            remove_paths(self._work_dir.leftovers)


def _spawn(launch: WorkerLaunch, work_dir: WorkDir) -> subprocess.Popen[bytes]:
    try:
        with work_dir.model_log.open("wb") as log:
            return subprocess.Popen(
                launch.command,
                cwd=launch.order.model_dir,  # TorchServe 0.12's choice too
                env=launch.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for the caller
            )
    except OSError as error:
        raise ServingError(f"cannot start {launch.command[0]}: {error.strerror}") from error
