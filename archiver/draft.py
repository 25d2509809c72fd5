"""A file that gets its name only when it is whole."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from makemar.errors import ArchiveError, ArchiveExistsError

__all__ = [
    "hidden_sibling",
    "open_draft",
    "refuse_existing",
    "sync_path",
    "translate_errors",
    "write_text",
]

# Smaller than a chunk, so that chunks go past it without another copy.
_BUFFER = 1 << 16
# The file system knows no hard links: exFAT, some network mounts.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def open_draft(target: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a new, seekable file in the target's folder; it gets the target's name at the end.

    If the block fails, is interrupted or its process is killed, the target is as it was. On Linux
    nothing at all is left then; elsewhere a kill leaves a hidden `.NAME.XXXX.tmp`. Without `force`
    an existing target raises ArchiveExistsError, one that appears in the meantime too. Raises
    ArchiveError if the folder is not there or cannot be written, or the disk is full.

    What replaces a file is on the disk before it does, so that a power cut loses neither. A new
    file gets there in the system's own time, as with `cp`.
    """
    refuse_existing(target, force=force)
    with translate_errors(target):
        descriptor, name = _open_descriptor(target)
        with os.fdopen(descriptor, "w+b", buffering=_BUFFER) as stream:
            try:
                yield stream
                stream.flush()
                # Network file systems, which have no files without a name, tell of a full disk
                # only now.
                if durable := name is not None or os.path.lexists(target):
                    os.fsync(descriptor)
                _publish(descriptor, name, target, force=force)
            finally:
                if name is not None:
                    name.unlink(missing_ok=True)
        if durable:
            sync_path(target.parent)


def write_text(target: Path, text: str, *, force: bool = False) -> None:
    """Write a text, as UTF-8, to a file that is there as a whole or not at all.

    Raises ArchiveExistsError if the target is there and `force` is not set, ArchiveError if it
    cannot be written; in both cases it is as it was.
    """
    contents = text.encode("utf-8")
    with open_draft(target, force=force) as stream:
        stream.write(contents)


def refuse_existing(target: Path, *, force: bool) -> None:
    """Raise ArchiveExistsError if the target is there and must not be replaced."""
    if not force and os.path.lexists(target):
        raise _exists(target)


def hidden_sibling(target: Path) -> Path:
    """Return an unused name beside the target: TorchServe passes hidden ones over."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def sync_path(path: Path) -> None:
    """Have a file, or a folder's entries, survive a power cut, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def translate_errors(target: Path) -> Iterator[None]:
    """Turn the system's refusals to write into an ArchiveError that names the target."""
    try:
        yield
    except FileNotFoundError as error:
        raise ArchiveError(
            f"{target}: the folder {target.parent} is not there; make it first", path=target
        ) from error
    except OSError as error:
        advice = "free some space" if error.errno == errno.ENOSPC else "choose another folder"
        raise ArchiveError(
            f"{target}: cannot be written: {error.strerror or error}; {advice}", path=target
        ) from error


def _open_descriptor(target: Path) -> tuple[int, Path | None]:
    """Open a file without a name if the system has such, else under a hidden one."""
    unnamed = getattr(os, "O_TMPFILE", 0)
    if unnamed and Path("/proc/self/fd").is_dir():
        # Not every file system has them; the ordinary way below then says what is wrong, if it is.
        with suppress(OSError):
            return os.open(target.parent, unnamed | os.O_RDWR, 0o666), None
    name = hidden_sibling(target)
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), name


def _publish(descriptor: int, name: Path | None, target: Path, *, force: bool) -> None:
    if not force:
        _publish_new(descriptor, name, target)
        return
    if name is not None:
        name.replace(target)
        return
    # A link cannot replace a file, so the draft needs a name for a moment.
    sibling = hidden_sibling(target)
    _link(descriptor, name, sibling)
    try:
        sibling.replace(target)
    except BaseException:
        sibling.unlink(missing_ok=True)
        raise


def _publish_new(descriptor: int, name: Path | None, target: Path) -> None:
    try:
        _link(descriptor, name, target)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        if name is None or error.errno not in _NO_LINKS:
            raise
        refuse_existing(target, force=False)
        name.rename(target)


def _link(descriptor: int, name: Path | None, target: Path) -> None:
    """Give the draft another name; raises FileExistsError rather than replace a file."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        # With a folder's descriptor Python calls linkat, which can follow the link in /proc.
        source = f"/proc/self/fd/{descriptor}" if name is None else name.absolute()
        os.link(source, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _exists(target: Path) -> ArchiveExistsError:
    return ArchiveExistsError(
        f"{target}: is there already; replace it with force=True (--force), or choose another name",
        path=target,
    )
