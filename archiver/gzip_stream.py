"""A gzip file as TorchServe reads it: its first member alone.

TorchServe 0.12: Commons Compress stops behind the first gzip member; others that follow, as
parallel compressors and `cat` write them, are not read.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO

from makemar.archiver.copying import CHUNK
from makemar.archiver.fault import FETCH_AGAIN, stop_reading

__all__ = ["GzipStream"]

_GZIP = 16 + zlib.MAX_WBITS


class GzipStream:
    """A readable stream of what the first gzip member of a file holds.

    Raises IntegrityError, with a finding, where it is damaged or cut.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._inflater = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        parts: list[bytes] = []
        while size and not self._inflater.eof:
            packed = self._inflater.unconsumed_tail or self._file.read(CHUNK)
            try:
                part = self._inflater.decompress(packed, size)
            except zlib.error as error:
                message = f"it cannot be unpacked ({error})"
                raise stop_reading(
                    "damaged-archive", message, self._path, fix=FETCH_AGAIN
                ) from error
            if not packed and not part and not self._inflater.eof:
                message = "the file ends too early"
                raise stop_reading("truncated-archive", message, self._path, fix=FETCH_AGAIN)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def rest(self) -> bytes:
        """Return the first bytes of the file that follow the member, none if it ends there."""
        return self._inflater.unused_data or self._file.read(CHUNK)
