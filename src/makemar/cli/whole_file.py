"""A text file that is there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from makemar.errors import ConfigError

__all__ = ["write_whole"]


def write_whole(target: Path, text: str, *, force: bool) -> None:
    """Write a text beside its target and rename it in the end.

    Raises ConfigError if the target cannot be written, or is there and `force` is not set; in both
    cases it is as it was.
    """
    if target.is_dir():
        raise ConfigError(f"{target}: is a directory; name a file in it", path=target)
    if not force and os.path.lexists(target):
        raise ConfigError(f"{target}: is there already; use --force to replace it", path=target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with draft.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{target}: cannot be written: {reason}", path=target) from error
    finally:
        draft.unlink(missing_ok=True)
