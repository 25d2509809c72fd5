"""A small process that ends a server whose owner died without ending it.

The owner holds one end of a pipe. When it is gone, however that came about, the other end reads
the end of the file. Unlike PR_SET_PDEATHSIG this does not depend on the thread that started the
server, runs no code between fork and exec, and is not Linux alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from makemar.errors import ServingError
from makemar.serving.processes import start_time, terminate_group

__all__ = ["Guard", "remove_paths", "watch"]

_RELEASE = b"released"
_READY = b"!"
_PATIENCE = 10.0  # seconds for the guard to end once it is told to
_START_PATIENCE = 60.0  # seconds for it to start, which takes a quarter of one on a quiet machine
# What the owner can import the guard can too, after Python's own and what is installed: no module
# that happens to lie in the owner's folders comes before them.
_CODE = (
    "import os, sys; sys.path += sys.argv.pop(1).split(os.pathsep); "
    "from makemar.serving.guard import watch; watch()"
)


class Guard:
    """Stands ready to watch over a process group, until it is released.

    If this process dies first, the group is ended as `terminate_group` does, with `grace` seconds,
    and `leftovers`, files or whole folders, are removed. It keeps the open file `descriptor`, and
    the lock on it, until that is done. Raises ServingError if it does not start.
    """

    def __init__(
        self, *, grace: float, leftovers: Sequence[Path], descriptor: int | None = None
    ) -> None:
        folders = [folder for folder in sys.path if Path(folder).is_absolute()]
        self._process = subprocess.Popen(
            # -I: neither the current folder nor a variable decides what is run.
            [sys.executable, "-I", "-c", _CODE, os.pathsep.join(folders), repr(grace)]
            + [str(path) for path in leftovers],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=() if descriptor is None else (descriptor,),
            start_new_session=True,  # a Ctrl-C is for the owner
        )
        try:
            self._await_ready()
        except BaseException:
            self._process.kill()
            self.release()
            raise

    def watch(self, pid: int, started: float) -> None:
        """Watch over the group that process `pid` leads; `started` is its start time."""
        try:
            self._tell(f"{pid} {started!r}\n".encode())
        except BrokenPipeError as error:
            raise ServingError("the guard of the server has died; start it again") from error

    def release(self) -> None:
        """Let the guard go without doing anything."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._tell(_RELEASE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, words: bytes) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            pipe.write(words)
            pipe.flush()

    def _await_ready(self) -> None:
        """Wait until it says that it can do its work: one that cannot is no guard."""
        process = self._process
        if process.stdout is None or process.stderr is None:
            return
        ready = select.select([process.stdout], [], [], _START_PATIENCE)[0]
        if ready and process.stdout.read(1) == _READY:
            return
        process.kill()
        words = process.stderr.read().decode(errors="replace").strip().splitlines()
        why = words[-1] if words else "it says nothing"
        raise ServingError(f"cannot start the guard of the server: {why}")


def watch() -> None:
    """Be the guard: the command line is grace in seconds, and leftovers."""
    grace, *leftovers = sys.argv[1:]
    start_time(os.getpid())  # loads what the end of a server will need
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    told = sys.stdin.buffer.read()
    if told.endswith(_RELEASE):
        return
    if told:
        pid, started = told.split()
        terminate_group(int(pid), float(started), grace=float(grace))
    remove_paths([Path(path) for path in leftovers])


def remove_paths(paths: Sequence[Path]) -> None:
    """Remove files and folders; what is not there, or cannot go, is passed over."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
