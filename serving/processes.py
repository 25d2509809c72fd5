"""Processes by identity: a server's, and all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import time

__all__ = ["is_alive", "reap", "start_time", "terminate_group"]

# A stored start time comes back through the clock of the machine, which may have been set.
_TOLERANCE = 2.0  # seconds
_POLL_INTERVAL = 0.02  # seconds
_KILL_PATIENCE = 5.0  # seconds until what was killed is gone


def start_time(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None if there is none."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def is_alive(pid: int, started: float) -> bool:
    """Whether the process that had this id at that time still runs: ids are used again."""
    import psutil

    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) <= _TOLERANCE
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def terminate_group(leader: int, started: float, *, grace: float, known: bool = True) -> None:
    """End a process and everything in its group.

    The leader is asked first and has `grace` seconds to end its workers itself; then all that is
    left is killed. Does nothing to a process that only has the leader's old id. If the group is
    not `known` to be the leader's own, because that ended unwatched, only workers are killed.
    """
    if leader <= 1:  # 0 is the caller's own group, 1 the system's first process
        raise ValueError(f"{leader} is no server's process")
    if is_alive(leader, started) and grace > 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGTERM)
        _until_gone(leader, started, grace)
    now = start_time(leader)
    if now is not None and abs(now - started) > _TOLERANCE:
        return
    if not known and start_time(leader) is None:
        # The leader is gone since before: a group of that number may be anybody's by now.
        for pid in _members(leader):
            _kill_worker(pid)
        return
    # While one member lives, the kernel gives the leader's id to nobody else.
    deadline = time.monotonic() + _KILL_PATIENCE
    while _members(leader) and time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)


def _kill_worker(pid: int) -> None:
    """Kill a process if it is one of TorchServe's workers, which are all that a server leaves."""
    import psutil

    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if any("model_service_worker" in word for word in psutil.Process(pid).cmdline()):
            os.kill(pid, signal.SIGKILL)


def reap(pid: int) -> None:
    """Collect an ended child, if it is one of this process, so that its id is free again."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _until_gone(pid: int, started: float, patience: float) -> None:
    deadline = time.monotonic() + patience
    while is_alive(pid, started) and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)


def _members(group: int) -> list[int]:
    """List the living processes of a group; ended ones that nobody collected do not count."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
