"""What TorchServe makes of a gzipped tar: names without their first component, links as files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from makemar.archiver.content import Content, ContentKind
from makemar.archiver.copying import CHUNK
from makemar.archiver.fault import FETCH_AGAIN, make_warning, stop_reading
from makemar.archiver.gzip_stream import GzipStream
from makemar.errors import Finding, IntegrityError

__all__ = ["read_tarball", "strip_first"]


def read_tarball(path: Path) -> Iterator[Content | Finding]:
    """Yield what a gzipped tar holds, in its order.

    Raises IntegrityError, with a finding, where TorchServe's reader gives up, and OSError.
    """
    with path.open("rb") as file:
        packed = GzipStream(file, path)
        with _translate_damage(packed, path), _open_stream(packed) as archive:
            for info in archive:
                yield _read(archive, info, packed, path)
            _refuse_more(archive, path)
        if packed.rest().strip(b"\0"):
            yield make_warning(
                "trailing-bytes",
                "something follows the first gzip member, and TorchServe does not read it",
                path,
            )


def strip_first(name: str) -> str:
    """Return a tar member's name as TorchServe has it: what follows the first slash, or all."""
    return name.partition("/")[2] if "/" in name else name


def _open_stream(packed: GzipStream) -> tarfile.TarFile:
    # Forwards only, for it is read once; a block is what one read asks for.
    return tarfile.open(fileobj=packed, mode="r|", bufsize=CHUNK)  # type: ignore[call-overload,no-any-return]


def _read(
    archive: tarfile.TarFile, info: tarfile.TarInfo, packed: GzipStream, path: Path
) -> Content:
    # Only of a folder the first component may be all there is.
    name = strip_first(f"{info.name}/" if info.isdir() else info.name)
    if info.isreg():
        return Content(name=name, chunks=_copy(archive, info, packed, path))
    if info.isdir():
        return Content(name=name, kind=ContentKind.FOLDER)
    linked = info.issym() or info.islnk()
    return Content(name=name, kind=ContentKind.LINK if linked else ContentKind.SPECIAL)


def _copy(
    archive: tarfile.TarFile, info: tarfile.TarInfo, packed: GzipStream, path: Path
) -> Iterator[bytes]:
    with _translate_damage(packed, path):
        stream = archive.extractfile(info)
        left = info.size
        while stream is not None and left:
            if not (chunk := stream.read(min(left, CHUNK))):
                raise tarfile.ReadError(f"{info.name} ends too early")
            left -= len(chunk)
            yield chunk


def _refuse_more(archive: tarfile.TarFile, path: Path) -> None:
    """Raise if anything but zeros follows the end mark: no reader gets there."""
    stream = archive.fileobj
    while stream is not None and (block := stream.read(CHUNK)):
        if block.strip(b"\0"):
            message = "more follows where the tar in it ends, and TorchServe does not read on"
            raise stop_reading("damaged-archive", message, path)


@contextmanager
def _translate_damage(packed: GzipStream, path: Path) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        if packed.rest().startswith(b"\x1f\x8b"):
            message = "it is several gzip members, and TorchServe reads the first alone"
            fix = "compress it with gzip, or pack it with make-mar"
            raise stop_reading("gzip-members", message, path, fix=fix) from error
        message = f"the tar in it is broken ({' '.join(str(error).split())})"
        raise stop_reading("damaged-archive", message, path, fix=FETCH_AGAIN) from error
