"""A file read forwards only, as a stream is, with room to put back what was read too far."""

from __future__ import annotations

from typing import BinaryIO

__all__ = ["ByteSource"]


class ByteSource:
    """Reads a binary file from where it stands to its end; `position` counts the bytes taken."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._returned = b""
        self.position = 0

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end of the file."""
        data, self._returned = self._returned[:size], self._returned[size:]
        if len(data) < size:
            data += self._file.read(size - len(data))
        self.position += len(data)
        return data

    def read_some(self, size: int) -> bytes:
        """Return between 1 and `size` bytes, none at the end: whatever costs no copy."""
        if not self._returned:
            return self.read(size)
        data, self._returned = self._returned[:size], self._returned[size:]
        self.position += len(data)
        return data

    def put_back(self, data: bytes) -> None:
        """Have the bytes that were read last come again."""
        self._returned = data + self._returned
        self.position -= len(data)
