"""A text file that is there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from makemar.errors import ConfigError

__all__ = ["write_whole"]

# The file system knows no hard links: exFAT, some network mounts.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def write_whole(target: Path, text: str, *, force: bool) -> None:
    """Write a text beside its target and give it the target's name in the end.

    Raises ConfigError if the target cannot be written, or is there and `force` is not set, also if
    it appears in the meantime; in all cases it is as it was.
    """
    if target.is_dir():
        raise ConfigError(f"{target}: is a directory; name a file in it", path=target)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if not force:
            _reserve(draft, target)
        draft.replace(target)
    except FileExistsError as error:
        raise ConfigError(
            f"{target}: is there already; use --force to replace it", path=target
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{target}: cannot be written: {reason}", path=target) from error
    finally:
        draft.unlink(missing_ok=True)


def _reserve(draft: Path, target: Path) -> None:
    """Take the target's name for the draft; raise FileExistsError if somebody has it."""
    try:
        os.link(draft, target)  # unlike a rename this never replaces a file
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        target.touch(exist_ok=False)
