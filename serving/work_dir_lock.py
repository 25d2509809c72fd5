"""The right to run a server in a folder, which one server has at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from makemar.errors import ServingError

__all__ = ["WorkDirLock"]

_NAME = "server.lock"
_POLL_INTERVAL = 0.05  # seconds


class WorkDirLock:
    """An exclusive lock on a folder, which is made if it is not there.

    The system holds it for whoever has the file open: this process, and those that it hands
    `descriptor` on to. When the last of them has ended, however that came about, it is free again;
    the file itself stays.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self.descriptor = descriptor

    @classmethod
    def take(
        cls, folder: Path, *, patience: float = 0.0, check: Callable[[], None] = lambda: None
    ) -> WorkDirLock:
        """Take the lock; raise ServingError if somebody else has it after `patience` seconds.

        `check` is called before every look, and may raise a better reason to give up.
        """
        descriptor = _open(folder)
        try:
            deadline = time.monotonic() + patience
            while True:
                check()
                if _lock(descriptor):
                    break
                if time.monotonic() >= deadline:
                    raise ServingError(
                        f"process {_owner(descriptor)} has {folder} for a server of its own; end "
                        "it, or give another work directory"
                    )
                time.sleep(_POLL_INTERVAL)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(folder, descriptor)

    def release(self) -> None:
        """Let the next one have it, whoever else has the file open. A second call does nothing."""
        if self.descriptor >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            self.leave()

    def leave(self) -> None:
        """Close the file: the processes that it was handed on to keep the lock."""
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)


def _open(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The folder may have come from elsewhere: its file is not to be a link to another.
        return os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ServingError(
            f"cannot make the work directory {folder}: {error.strerror}; give another one"
        ) from error


def _lock(descriptor: int) -> bool:
    """Try to lock; on a file system without locks `server.json` alone has to do."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _owner(descriptor: int) -> str:
    """Read who locked it last; anything may be written there."""
    text = os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()
    return text if text.isdigit() else "?"
