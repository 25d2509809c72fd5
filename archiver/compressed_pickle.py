"""A pickle that was compressed as a whole, as joblib does on request."""

from __future__ import annotations

import bz2
import lzma
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from makemar.archiver.pickle_machine import BadPickle

__all__ = ["is_compressed", "open_inflated"]

_CHUNK = 1 << 20
_MOST = 1 << 30


class _Inflater(Protocol):
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...

    @property
    def eof(self) -> bool: ...


class _Zlib:
    """zlib's or gzip's decompressor, which keeps what is left as the others do."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        return self._inflater.decompress(self._inflater.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._inflater.eof


_KINDS: tuple[tuple[bytes, Callable[[], _Inflater]], ...] = (
    (b"\x1f\x8b", _Zlib),
    (b"x\x01", _Zlib),
    (b"x^", _Zlib),
    (b"x\x9c", _Zlib),
    (b"x\xda", _Zlib),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    (b"]\x00\x00", lzma.LZMADecompressor),
)
_LZ4 = b"\x04\x22\x4d\x18"


def is_compressed(start: bytes) -> bool:
    """Tell by a file's start whether joblib would inflate it."""
    return start.startswith((_LZ4, *(magic for magic, _ in _KINDS)))


@contextmanager
def open_inflated(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Open what a compressed stream, read from where it stands, holds.

    Raises BadPickle if it is damaged, holds over a GiB, or is of a kind that Python cannot read.
    """
    start = stream.read(len(_LZ4))
    stream.seek(-len(start), 1)
    inflaters = [make for magic, make in _KINDS if start.startswith(magic[: len(start)])]
    if not inflaters:
        raise BadPickle("it is compressed with LZ4, which is not looked into")
    with tempfile.TemporaryFile() as inflated:
        try:
            for part in _inflate(stream, inflaters[0]()):
                inflated.write(part)
                if inflated.tell() > _MOST:
                    raise BadPickle("it inflates to over a GiB")
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
            raise BadPickle(f"its compression is damaged ({error})") from error
        inflated.seek(0)
        yield inflated


def _inflate(stream: BinaryIO, inflater: _Inflater) -> Iterator[bytes]:
    """Yield parts of at most a chunk, however much a byte may hold."""
    data = stream.read(_CHUNK)
    while data and not inflater.eof:
        part = inflater.decompress(data, _CHUNK)
        while part:
            yield part
            part = b"" if inflater.eof else inflater.decompress(b"", _CHUNK)
        data = stream.read(_CHUNK)
    if not inflater.eof:
        raise EOFError("it ends too early")
