"""What TorchServe makes of a `.mar`, and what other programs would make of the same bytes.

TorchServe goes by the local headers, everybody else by the central directory. Where the two
differ, somebody looks at another archive than the one that is served.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.byte_source import ByteSource
from makemar.archiver.content import Content, ContentKind
from makemar.archiver.fault import FETCH_AGAIN, make_error, stop_reading
from makemar.archiver.zip_stream import END_SIGNATURES, LocalEntry, ZipStream
from makemar.errors import Finding

__all__ = ["read_zip"]

_UNIX, _UTF8 = 3, 0x800


def read_zip(path: Path) -> Iterator[Content | Finding]:
    """Yield the members of a `.mar` in their order, then where the central directory differs.

    Raises IntegrityError, with a finding, where TorchServe's reader gives up, and OSError.
    """
    entries: list[LocalEntry] = []
    with path.open("rb") as file:
        stream = ZipStream(ByteSource(file), path)
        for entry, chunks in stream:
            entries.append(entry)
            name = _decode(entry, path)
            kind = ContentKind.FOLDER if name.endswith("/") else ContentKind.FILE
            yield Content(name=name, kind=kind, chunks=chunks)
    if stream.ending not in END_SIGNATURES and stream.ending:
        yield make_error(
            "stray-bytes",
            f"at byte {stream.end:,} no member starts; TorchServe stops reading there",
            path,
            fix=FETCH_AGAIN,
        )
    yield from _compare(entries, path)


def _decode(entry: LocalEntry, path: Path) -> str:
    # Java takes a name for UTF-8, whether or not its header says so.
    try:
        return entry.raw_name.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the name {entry.title} is not UTF-8, and TorchServe refuses the archive"
        raise stop_reading("member-name", message, path) from error


def _compare(entries: list[LocalEntry], path: Path) -> Iterator[Finding]:
    try:
        with zipfile.ZipFile(path) as archive:
            listed = archive.infolist()
    except (zipfile.BadZipFile, ValueError, LookupError, OverflowError, NotImplementedError):
        yield make_error(
            "no-central-directory",
            "there is no usable list of members at its end, so the end of it may be missing",
            path,
            fix=FETCH_AGAIN,
        )
        return
    by_offset = {entry.offset: entry for entry in entries}
    seen: set[int] = set()
    for info in listed:
        entry = by_offset.get(info.header_offset)
        if entry is None or info.header_offset in seen:
            yield make_error(
                "lost-member",
                f"{info.filename!r} is listed at the end, but TorchServe does not come upon it",
                path,
            )
        elif difference := _find_difference(info, entry):
            yield make_error(
                "header-mismatch",
                f"{entry.title} has another {difference} in the list at the end than in front of "
                "it; TorchServe goes by the latter, other programs by the list",
                path,
            )
        elif _is_link(info):
            yield make_error(
                "link-member",
                f"{entry.title} is a symbolic link; on the server it is a file with the name of "
                "the target in it",
                path,
            )
        seen.add(info.header_offset)
    for offset in sorted(by_offset.keys() - seen):
        yield make_error(
            "hidden-member",
            f"{by_offset[offset].title} is not listed at the end: TorchServe unpacks it and other "
            "programs do not show it",
            path,
        )


def _find_difference(info: zipfile.ZipInfo, entry: LocalEntry) -> str:
    encoding = "utf-8" if info.flag_bits & _UTF8 else "cp437"
    pairs = {
        "name": (info.orig_filename.encode(encoding, "surrogateescape"), entry.raw_name),
        "compression": (info.compress_type, entry.method),
        "size": ((info.file_size, info.compress_size), (entry.size, entry.packed)),
        "checksum": (info.CRC, entry.crc),
    }
    return next((name for name, (listed, local) in pairs.items() if listed != local), "")


def _is_link(info: zipfile.ZipInfo) -> bool:
    return info.create_system == _UNIX and stat.S_ISLNK(info.external_attr >> 16)
