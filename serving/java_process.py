"""The Java process of one server, from its start to the last trace of it."""

from __future__ import annotations

import contextlib
import subprocess
import time

from makemar.errors import ServingError
from makemar.serving.console import STARTED, death_reason
from makemar.serving.guard import Guard, remove_paths
from makemar.serving.launch import Launch
from makemar.serving.log_file import LogFile
from makemar.serving.processes import end_group, start_time
from makemar.serving.work_dir import WorkDir

__all__ = ["JavaProcess"]

_LOOK = 0.03  # seconds between two looks at a starting server


class JavaProcess:
    """A running server: the process that was launched in a work directory, with its guard.

    It leads a process group of its own, so that a Ctrl-C is for the caller and the workers can be
    found. `grace` is how many seconds it has to end by itself once it is told to.
    """

    def __init__(self, launch: Launch, place: WorkDir, *, grace: float) -> None:
        self.place = place
        self._grace = grace
        self._guard: Guard | None = None
        self.server_log = LogFile(place.server_log)
        self.model_log = LogFile(place.model_log)
        # A kept folder may have the logs of earlier servers.
        self.server_log_start = self.server_log.mark()
        self.model_log_start = self.model_log.mark()
        try:
            remove_paths((place.key_file,))
            for path, text in launch.texts.items():
                remove_paths((path,))  # its mode is not to be an older file's
                path.touch(mode=0o600)  # a configuration may have a keystore's password
                path.write_text(text, encoding="utf-8")
            with place.console.open("wb") as console:
                self._process = subprocess.Popen(
                    launch.command,
                    cwd=place.root,
                    env=launch.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ServingError(f"cannot start TorchServe in {place.root}: {error}") from error
        self.pid = self._process.pid
        self.started = start_time(self.pid) or time.time()
        try:
            self._guard = Guard(self.pid, self.started, grace=grace, leftovers=place.leftovers)
        except BaseException:
            self.kill()
            raise

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def console(self) -> str:
        """Return what the server has printed."""
        return LogFile(self.place.console).since(0)

    def log(self) -> str:
        """Return what the server has printed and logged since its start."""
        return self.console() + self.server_log.since(self.server_log_start)

    def worker_words(self) -> str:
        """Return what the workers have printed since the start."""
        return self.model_log.since(self.model_log_start)

    def await_start(self, deadline: float) -> None:
        """Wait until it listens on all its ports.

        Raises ServingError, with Java's own reason, if it ends before or is late.
        """
        while STARTED not in (printed := self.console()):
            code = self.exit_code
            if code is not None:
                raise ServingError(f"TorchServe did not start: {self.reason(code)}")
            if time.monotonic() > deadline:
                reason = death_reason(printed)
                told = f"; it printed: {reason}" if reason else ""
                raise ServingError(f"TorchServe did not start in time{told}; give it longer")
            time.sleep(_LOOK)

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
            end_group(self.pid, self.started, grace=self._grace)
        except BaseException:  # an impatient second Ctrl-C
            end_group(self.pid, self.started, grace=0)
            raise
        finally:
            self._process.wait()

    def kill(self) -> None:
        """End it without asking: it has nothing to finish."""
        self._grace = 0
        self.end()

    def clear(self) -> None:
        """Remove what must not stay."""
        if self._guard is not None:
            self._guard.release()
        remove_paths(self.place.leftovers)

    def detach(self) -> None:
        """Let it outlive this process."""
        if self._guard is not None:
            self._guard.release()
        # It is nobody's child to wait for any more, which Popen would complain about.
        self._process.returncode = self._process.poll() or 0
