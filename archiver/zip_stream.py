"""A zip as TorchServe reads it: one local header after the other, without the central directory.

TorchServe 0.12: `java.util.zip.ZipInputStream` ends at the first four bytes that start no local
header, and takes sizes and names from the local headers alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from makemar.archiver.byte_source import ByteSource
from makemar.archiver.copying import CHUNK
from makemar.archiver.fault import FETCH_AGAIN, PACK_AGAIN, stop_reading
from makemar.errors import IntegrityError

__all__ = ["END_SIGNATURES", "LOCAL_SIGNATURE", "LocalEntry", "ZipStream", "find_unreadable"]

LOCAL_SIGNATURE = b"PK\x03\x04"
# The central directory, its zip64 end, its end: what may follow the last member.
END_SIGNATURES = (b"PK\x01\x02", b"PK\x06\x06", b"PK\x05\x06")
_DESCRIPTOR = b"PK\x07\x08"
_HEADER = struct.Struct("<4s5H3I2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _HAS_DESCRIPTOR = 1, 8
_BIG, _ZIP64 = 0xFFFFFFFF, 1
_METHODS = {9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstandard", 95: "xz"}


@dataclass(kw_only=True)
class LocalEntry:
    """A local header; once the contents are read, `size`, `packed` and `crc` are what they were.

    `offset` is where the header starts, `packed` the bytes in the file, `size` those unpacked.
    """

    raw_name: bytes
    offset: int
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    zip64: bool

    @property
    def title(self) -> str:
        """Return the name, fit for a message."""
        return repr(self.raw_name.decode("utf-8", "backslashreplace"))


class ZipStream:
    """The members of a zip, each with its contents, in the order of their bytes.

    Raises IntegrityError with one finding where TorchServe's reader gives up. After the last
    member `ending` is the four bytes that follow it, and `end` where they are.
    """

    def __init__(self, source: ByteSource, path: Path) -> None:
        self._source = source
        self._path = path
        self.ending = b""
        self.end = 0

    def __iter__(self) -> Iterator[tuple[LocalEntry, Iterator[bytes]]]:
        while (entry := self._read_header()) is not None:
            contents = self._read_contents(entry)
            yield entry, contents
            # As Java does: what nobody read is read and checked before the next header.
            for _ in contents:
                pass

    def _read_header(self) -> LocalEntry | None:
        self.end = self._source.position
        header = self._source.read(_HEADER.size)
        self.ending = header[:4]
        if self.ending != LOCAL_SIGNATURE:
            return None
        if len(header) < _HEADER.size:
            raise self._truncated("a member's header")
        _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _HEADER.unpack(
            header
        )
        name = self._read_exactly(name_length, "a member's name")
        extra = self._read_exactly(extra_length, "a member's header")
        long_sizes = _read_zip64(extra) if _BIG in (packed, size) else None
        entry = LocalEntry(
            raw_name=name,
            offset=self.end,
            flags=flags,
            method=method,
            crc=crc,
            packed=packed if long_sizes is None else long_sizes[1],
            size=size if long_sizes is None else long_sizes[0],
            zip64=long_sizes is not None,
        )
        self._refuse_unreadable(entry)
        return entry

    def _refuse_unreadable(self, entry: LocalEntry) -> None:
        if entry.flags & _ENCRYPTED:
            raise self._stop(
                "encrypted-member", f"{entry.title} is encrypted; TorchServe has no key"
            )
        if name := find_unreadable(entry.method):
            raise self._stop(
                "compression",
                f"{entry.title} is compressed with {name}; TorchServe reads stored and deflated "
                "members only",
            )
        if entry.method == _STORED and entry.flags & _HAS_DESCRIPTOR:
            raise self._stop(
                "stored-descriptor",
                f"{entry.title} is stored and its size follows its contents; TorchServe reads the "
                "file as a stream and cannot know where it ends",
            )

    def _read_contents(self, entry: LocalEntry) -> Iterator[bytes]:
        found = LocalEntry(**{**vars(entry), "crc": 0, "packed": 0, "size": 0})
        chunks = self._copy(entry) if entry.method == _STORED else self._inflate(entry, found)
        for chunk in chunks:
            found.size += len(chunk)
            found.crc = zlib.crc32(chunk, found.crc)
            yield chunk
        if entry.method == _STORED:
            # Java goes by the unpacked size of a stored member and never looks at the other.
            found.packed = entry.packed
        if entry.flags & _HAS_DESCRIPTOR:
            self._read_descriptor(entry, found)
        self._compare(entry, found)

    def _copy(self, entry: LocalEntry) -> Iterator[bytes]:
        left = entry.size
        while left:
            chunk = self._source.read_some(min(left, CHUNK))
            if not chunk:
                raise self._truncated(entry.title)
            left -= len(chunk)
            yield chunk

    def _inflate(self, entry: LocalEntry, found: LocalEntry) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        start = self._source.position
        while not inflater.eof:
            packed = inflater.unconsumed_tail or self._source.read_some(CHUNK)
            try:
                chunk = inflater.decompress(packed, CHUNK)
            except zlib.error as error:
                raise self._damaged(entry, f"cannot be inflated ({error})") from error
            if not packed and not chunk and not inflater.eof:
                raise self._truncated(entry.title)
            if chunk:
                yield chunk
        self._source.put_back(inflater.unused_data)
        found.packed = self._source.position - start

    def _read_descriptor(self, entry: LocalEntry, found: LocalEntry) -> None:
        """Take checksum and sizes from behind the contents; Java guesses how long they are."""
        start = self._read_exactly(4, entry.title)
        values = self._read_exactly(12, entry.title) if start == _DESCRIPTOR else b""
        if not values:
            values = start + self._read_exactly(8, entry.title)
        sizes = (found.crc, found.packed, found.size)
        if struct.unpack("<3I", values) == sizes:
            entry.crc, entry.packed, entry.size = sizes
            return
        long_values = values + self._source.read(8)
        big = max(found.packed, found.size) > _BIG
        if len(long_values) == 20 and struct.unpack("<I2Q", long_values) == sizes:
            if not big:
                raise self._stop(
                    "zip64-descriptor",
                    f"{entry.title} has its size behind its contents in 8 bytes where TorchServe's "
                    "Java expects 4",
                )
            entry.crc, entry.packed, entry.size = sizes
            return
        raise self._damaged(entry, "does not match the checksum and sizes behind it")

    def _compare(self, entry: LocalEntry, found: LocalEntry) -> None:
        if (entry.size, entry.packed) != (found.size, found.packed):
            raise self._damaged(entry, "is not as long as its header says")
        if entry.crc != found.crc:
            raise self._damaged(entry, "does not match its checksum")

    def _read_exactly(self, size: int, what: str) -> bytes:
        data = self._source.read(size)
        if len(data) < size:
            raise self._truncated(what)
        return data

    def _truncated(self, what: str) -> IntegrityError:
        return self._stop(
            "truncated-archive",
            f"the file ends within {what}, at byte {self._source.position:,}",
            FETCH_AGAIN,
        )

    def _damaged(self, entry: LocalEntry, how: str) -> IntegrityError:
        return self._stop("damaged-member", f"{entry.title} {how}", FETCH_AGAIN)

    def _stop(self, code: str, message: str, fix: str = PACK_AGAIN) -> IntegrityError:
        return stop_reading(code, message, self._path, fix=fix)


def find_unreadable(method: int) -> str:
    """Return the name of a compression that TorchServe cannot read, empty if it can."""
    if method in (_STORED, _DEFLATED):
        return ""
    return _METHODS.get(method, f"method {method}")


def _read_zip64(extra: bytes) -> tuple[int, int] | None:
    """Return the sizes, unpacked and packed, from a header's extra fields; Java wants both."""
    while len(extra) >= 4:
        kind, length = struct.unpack("<2H", extra[:4])
        if kind == _ZIP64 and length >= 16 and len(extra) >= 20:
            size, packed = struct.unpack("<2Q", extra[4:20])
            return size, packed
        extra = extra[4 + length :]
    return None
