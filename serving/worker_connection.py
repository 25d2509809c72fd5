"""The socket between this process and a worker; nothing is waited for without a deadline."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from makemar.serving.worker_protocol import WorkerMessage, read_message

__all__ = ["WorkerConnection"]

_CHUNK = 1 << 20
# A worker's own children may hold its end of the socket open when it is gone.
_LOOK_INTERVAL = 0.5  # seconds


class WorkerConnection:
    """Talks to one worker.

    A dead worker raises ConnectionError or EOFError, a slow one TimeoutError. `alive` says whether
    it still runs.
    """

    def __init__(self, path: Path, *, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Hang up, which an idle worker takes as the order to end."""
        self._socket.close()

    def send(self, data: bytes, *, seconds: float) -> None:
        """Send everything."""
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    def receive(self, *, seconds: float, longest: int) -> WorkerMessage:
        """Wait for one whole message; raises what `read_message` raises, too."""
        deadline = time.monotonic() + seconds
        return read_message(lambda length: self._read(length, deadline), longest=longest)

    def _read(self, length: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < length:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(min(left, _LOOK_INTERVAL))
            try:
                piece = self._socket.recv(min(length - len(data), _CHUNK))
            except TimeoutError:
                if not self._alive():
                    raise EOFError from None
                continue
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)
