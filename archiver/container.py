"""The files inside an archive of any format, one after the other, without unpacking it."""

from __future__ import annotations

import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.copying import CHUNK
from makemar.archiver.directory_contents import find_top
from makemar.archiver.fault import make_error
from makemar.archiver.tar_contents import strip_first
from makemar.archiver.zip_stream import find_unreadable
from makemar.errors import ArchiveError, IntegrityError, MakeMarError

__all__ = [
    "Opener",
    "StoredMember",
    "detect_format",
    "read_small",
    "translate_damage",
    "walk_archive",
]

_ZIP, _EMPTY_ZIP, _GZIP = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b"
_SMALL = 16 << 20
# What zipfile, tarfile and gzip raise over wild bytes, documented and not.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    LookupError,
    OverflowError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, kw_only=True)
class StoredMember:
    """A file inside an archive: its name there, and its unpacked size in bytes.

    `compression` is empty for one that is stored or deflated, else the name of a method that
    TorchServe cannot read.
    """

    name: str
    size: int
    compression: str = ""


# Opens a member's contents, while walk_archive stands at it.
Opener = Callable[[], IO[bytes]]


def detect_format(path: Path) -> ArchiveFormat:
    """Return the format that TorchServe takes an archive for, which its name alone decides.

    Raises ArchiveError if it is not there, and, with a finding, if its contents are of another
    format. Pipes and devices are not opened.
    """
    if path.is_dir():
        return ArchiveFormat.DIRECTORY
    named_mar = path.name.endswith(".mar")
    if reason := _find_misfit(path, _read_start(path), named_mar=named_mar):
        code, message, fix = reason
        finding = make_error(code, message, path, fix=fix)
        raise ArchiveError(f"{path}: {message}; {fix}", path=path, findings=(finding,))
    return ArchiveFormat.MAR if named_mar else ArchiveFormat.TGZ


def _read_start(path: Path) -> bytes:
    try:
        # Opening a pipe would wait for whoever writes into it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ArchiveError(
                f"{path}: is a pipe, a device or a socket; copy it to a file first", path=path
            )
        with path.open("rb") as file:
            return file.read(len(_ZIP))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArchiveError(
            f"{path}: cannot be read: {reason}; check the path", path=path
        ) from error


def _find_misfit(path: Path, start: bytes, *, named_mar: bool) -> tuple[str, str, str] | None:
    """Return code, message and fix where what a file's name promises does not begin in it."""
    if start == _ZIP if named_mar else start.startswith(_GZIP):
        return None
    if named_mar:
        message = "named .mar, but no zip starts here"
        if start.startswith(_GZIP):
            return "misnamed-archive", message, "rename it to .tar.gz"
        junk = start != _EMPTY_ZIP and zipfile.is_zipfile(path)
        code = "leading-bytes" if junk else "not-an-archive"
        return code, message, "pack it again"
    if start == _ZIP:
        message = "is a zip, which TorchServe reads only if its name ends with .mar"
        return "misnamed-archive", message, "rename it"
    message = "is neither a .mar nor a .tar.gz archive"
    code = "plain-tar" if start and tarfile.is_tarfile(path) else "not-an-archive"
    return code, message, "name one, or pack it again"


def walk_archive(path: Path) -> Iterator[tuple[StoredMember, Opener]]:
    """Yield the regular files of an archive in their order, each with what opens it.

    Names are as TorchServe would unpack them: of a tar without the first component, of a
    directory that holds nothing but another one from inside that. Nothing is unpacked or run.
    Raises ArchiveError for what is no archive; a damaged one raises what the standard library does,
    here and out of an opened member, so walk under `translate_damage`.
    """
    walk = {
        ArchiveFormat.MAR: _walk_zip,
        ArchiveFormat.TGZ: _walk_tarball,
        ArchiveFormat.DIRECTORY: _walk_directory,
    }[detect_format(path)]
    yield from walk(path)


@contextmanager
def translate_damage(path: Path) -> Iterator[None]:
    """Turn what the standard library raises over a bad archive into an IntegrityError."""
    try:
        yield
    except MakeMarError:
        raise
    except PermissionError as error:
        raise ArchiveError(
            f"{path}: cannot be read: {error.strerror}; make it readable", path=path
        ) from error
    except NotImplementedError as error:
        raise IntegrityError(
            f"{path}: a compression that TorchServe cannot read ({error}); pack it again", path=path
        ) from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or "it ends too early"
        raise IntegrityError(
            f"{path}: damaged, {reason}; fetch or pack it again", path=path
        ) from error


def read_small(member: StoredMember, open_it: Opener, path: Path) -> bytes:
    """Return the contents of a member that is text; raises ArchiveError if it is over 16 MiB."""
    with open_it() as stream:
        contents = stream.read(_SMALL + 1)
    if len(contents) > _SMALL:
        raise ArchiveError(
            f"{path}: {member.name} is over {_SMALL >> 20} MiB, which no such file needs; "
            "pack it again",
            path=path,
        )
    return contents


def _walk_zip(path: Path) -> Iterator[tuple[StoredMember, Opener]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.filename.endswith("/"):
                # By info, not by name: that would open the last of two duplicates.
                member = StoredMember(
                    name=info.filename,
                    size=info.file_size,
                    compression=find_unreadable(info.compress_type),
                )
                yield member, partial(archive.open, info)


def _walk_tarball(path: Path) -> Iterator[tuple[StoredMember, Opener]]:
    with gzip.open(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
        for info in archive:
            name = strip_first(info.name)
            if info.isreg() and name:
                yield StoredMember(name=name, size=info.size), partial(_extract, archive, info)
        # tarfile takes a broken header for the end; gzip's checksum, at the real end, tells.
        while packed.read(CHUNK):
            pass


def _extract(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(info)
    if stream is None:
        raise tarfile.ExtractError(f"{info.name} has no contents")
    return stream


def _walk_directory(path: Path) -> Iterator[tuple[StoredMember, Opener]]:
    top = find_top(path)
    for folder, folders, files in os.walk(top):
        # A server that loaded the directory leaves compiled files in it.
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for file in (Path(folder, name) for name in sorted(files)):
            if file.is_file():
                name, size = file.relative_to(top).as_posix(), file.stat().st_size
                yield StoredMember(name=name, size=size), partial(_open, file)


def _open(file: Path) -> IO[bytes]:
    return file.open("rb")
