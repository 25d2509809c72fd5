"""The Java process of one server, from its start to the last trace of it."""

from __future__ import annotations

import contextlib
import subprocess
import time

from makemar.errors import ServingError
from makemar.serving.addresses import PortInUseError
from makemar.serving.console import STARTED, could_not_bind, death_reason
from makemar.serving.guard import Guard, remove_paths
from makemar.serving.launch import Launch
from makemar.serving.log_file import LogFile
from makemar.serving.processes import start_time, terminate_group
from makemar.serving.work_dir import WorkDir
from makemar.serving.work_dir_lock import WorkDirLock

__all__ = ["JavaProcess"]

_POLL_INTERVAL = 0.03  # seconds


class JavaProcess:
    """A running server: the process that was launched in a work directory, with its guard.

    It leads a process group of its own, so that a Ctrl-C is for the caller and the workers can be
    found. `grace` is how many seconds it has to end by itself once it is told to. `lock` is the
    folder's, if others may want the folder too; it is held until the last trace is gone.
    """

    def __init__(
        self, launch: Launch, work_dir: WorkDir, *, grace: float, lock: WorkDirLock | None
    ) -> None:
        self.work_dir = work_dir
        self._grace = grace
        self._lock = lock
        self.server_log = LogFile(work_dir.server_log)
        self._worker_output = LogFile(work_dir.model_log)
        # A kept folder may have the logs of earlier servers.
        self.server_log_start = self.server_log.mark()
        self._worker_output_start = self._worker_output.mark()
        descriptor = None if lock is None else lock.descriptor
        # The guard comes first: while there is none, nothing is started that could be orphaned.
        self._guard = Guard(grace=grace, leftovers=work_dir.leftovers, descriptor=descriptor)
        try:
            self._process = _spawn(launch, work_dir, descriptor)
        except BaseException:
            self._guard.release()
            raise
        self.pid = self._process.pid
        try:
            self.started = start_time(self.pid) or time.time()
            self._guard.watch(self.pid, self.started)
        except BaseException:
            self.kill()
            self._guard.release()
            raise

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def console(self) -> str:
        """Return what the server has printed."""
        return LogFile(self.work_dir.console).since(0)

    def log(self) -> str:
        """Return what the server has printed and logged since its start."""
        return self.console() + self.server_log.since(self.server_log_start)

    def model_log(self) -> str:
        """Return what the workers have printed since the start."""
        return self._worker_output.since(self._worker_output_start)

    def await_start(self, deadline: float) -> None:
        """Wait until it listens on all its ports.

        Raises ServingError, with Java's own reason, if it ends before or is late; PortInUseError if
        the reason is that somebody took one of its ports.
        """
        while STARTED not in (printed := self.console()):
            code = self.exit_code
            if code is not None:
                printed = self.console()  # it may have said why after the last look
                error = PortInUseError if could_not_bind(printed) else ServingError
                raise error(f"TorchServe did not start: {self.reason(code)}")
            if time.monotonic() > deadline:
                reason = death_reason(printed)
                told = f"; it printed: {reason}" if reason else ""
                raise ServingError(f"TorchServe did not start in time{told}; give it longer")
            time.sleep(_POLL_INTERVAL)

    def reason(self, code: int) -> str:
        """Tell why it ended."""
        return death_reason(self.console()) or f"Java ended with exit code {code}"

    def wait(self, timeout: float | None) -> int | None:
        """Wait until it ends by itself; return its exit code, or None after `timeout` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout)
        return None

    def end(self) -> None:
        """End it with all its workers; its files stay until `clear`."""
        try:
            terminate_group(self.pid, self.started, grace=self._grace)
        except BaseException:  # an impatient second Ctrl-C
            terminate_group(self.pid, self.started, grace=0)
            raise
        finally:
            self._process.wait()

    def kill(self) -> None:
        """End it without asking: it has nothing to finish."""
        self._grace = 0
        self.end()

    def clear(self) -> None:
        """Remove what must not stay, and give the folder back."""
        self._guard.release()
        remove_paths(self.work_dir.leftovers)
        if self._lock is not None:
            self._lock.release()

    def detach(self) -> None:
        """Let it outlive this process; from now on it keeps the folder by itself."""
        self._guard.release()
        if self._lock is not None:
            self._lock.leave()
        # It is nobody's child to wait for any more, which Popen would complain about.
        self._process.returncode = self._process.poll() or 0


def _spawn(launch: Launch, work_dir: WorkDir, descriptor: int | None) -> subprocess.Popen[bytes]:
    """Write the server's files and start it; it inherits the open file `descriptor`."""
    try:
        # What an earlier server left there tells nothing about this one.
        remove_paths((work_dir.state_file, work_dir.key_file))
        for path, text in launch.texts.items():
            remove_paths((path,))  # its mode is not to be an older file's
            path.touch(mode=0o600)  # a configuration may have a keystore's password
            path.write_text(text, encoding="utf-8")
        with work_dir.console.open("wb") as console:
            return subprocess.Popen(
                launch.command,
                cwd=work_dir.root,
                env=launch.environ,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                pass_fds=() if descriptor is None else (descriptor,),
                start_new_session=True,
            )
    except OSError as error:
        raise ServingError(f"cannot start TorchServe in {work_dir.root}: {error}") from error
