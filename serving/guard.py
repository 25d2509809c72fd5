"""A small process that ends a server whose owner died without ending it.

The owner holds one end of a pipe. When it is gone, however that came about, the other end reads
the end of the file. Unlike PR_SET_PDEATHSIG this does not depend on the thread that started the
server, runs no code between fork and exec, and is not Linux alone.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from makemar.serving.processes import end_group

__all__ = ["Guard", "remove_paths", "watch"]

_RELEASE = b"released"
_PATIENCE = 10.0  # seconds for the guard to end once it is told to


class Guard:
    """Watches over the process group of `pid` until it is released.

    If this process dies first, the group is ended as `end_group` does and `leftovers`, files or
    whole folders, are removed.
    """

    def __init__(
        self, pid: int, started: float, *, grace: float, leftovers: Sequence[Path]
    ) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from makemar.serving.guard import watch; watch()",
                str(pid),
                repr(started),
                repr(grace),
                *map(str, leftovers),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the owner
        )

    def release(self) -> None:
        """Let the guard go without doing anything."""
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.communicate(_RELEASE, timeout=_PATIENCE)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def watch() -> None:
    """Be the guard: the command line is pid, start time, grace in seconds, leftovers."""
    pid, started, grace, *leftovers = sys.argv[1:]
    if sys.stdin.buffer.read() != _RELEASE:
        end_group(int(pid), float(started), grace=float(grace))
        remove_paths([Path(path) for path in leftovers])


def remove_paths(paths: Sequence[Path]) -> None:
    """Remove files and folders; what is not there, or cannot go, is passed over."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
