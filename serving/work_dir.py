"""The folder that a server lives in, and its places."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from makemar.errors import ServingError

__all__ = ["STATE_NAME", "WorkDir", "make_work_dir"]

STATE_NAME = "server.json"

# A worker listens on `<tmp>/.ts.sock.<port>`, and a unix socket's path has 107 bytes on Linux, 103
# on macOS.
_LONGEST_SOCKET = 103
_SOCKET = ".ts.sock.65535"
_PREFIX = "makemar-"


@dataclass(frozen=True, kw_only=True)
class WorkDir:
    """The places in a server's folder; `tmp` may lie elsewhere, where paths are shorter.

    `private` says that the folder was made for this one run and goes with it.
    """

    root: Path
    tmp: Path
    private: bool

    @property
    def config_file(self) -> Path:
        """The configuration as the server got it."""
        return self.root / "config.properties"

    @property
    def log_config(self) -> Path:
        """What is changed in the server's own log configuration."""
        return self.root / "log4j2-console.xml"

    @property
    def key_file(self) -> Path:
        """Where the server writes its keys: TorchServe 0.12 does so in its current folder."""
        return self.root / "key_file.json"

    @property
    def state_file(self) -> Path:
        """Where a later command finds out about the server."""
        return self.root / STATE_NAME

    @property
    def model_store(self) -> Path:
        """The model store that holds links to the archives."""
        return self.root / "model_store"

    @property
    def logs(self) -> Path:
        """The folder of the server's logs."""
        return self.root / "logs"

    @property
    def console(self) -> Path:
        """What the server printed."""
        return self.logs / "console.log"

    @property
    def server_log(self) -> Path:
        """The server's own log, which has the workers' words too."""
        return self.logs / "ts_log.log"

    @property
    def model_log(self) -> Path:
        """The workers' words alone."""
        return self.logs / "model_log.log"

    @property
    def leftovers(self) -> tuple[Path, ...]:
        """What must not stay when the server has ended."""
        if self.private:
            return (self.tmp, self.root)
        return (self.key_file, self.state_file, self.tmp)

    @property
    def owns_tmp(self) -> bool:
        """Whether `tmp` is a folder that `make_work_dir` may have made for this one."""
        if self.tmp.absolute() == self.root.absolute() / "tmp":
            return True
        return self.tmp.name.startswith(_PREFIX) and self.tmp.parent in _temporary_folders()


def make_work_dir(root: Path | None) -> WorkDir:
    """Make a server's folder, a private temporary one if None, with its subfolders.

    Raises ServingError if that cannot be done.
    """
    try:
        private = root is None
        # Absolute, because the server's current folder is this one.
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX)) if root is None else root.absolute()
        work_dir = WorkDir(root=folder, tmp=_short_tmp(folder), private=private)
        for needed in (work_dir.tmp, work_dir.model_store, work_dir.logs):
            needed.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServingError(
            f"cannot make the work directory {root or tempfile.gettempdir()}: {error.strerror}; "
            "give another one"
        ) from error
    return work_dir


def _short_tmp(folder: Path) -> Path:
    """Choose a temporary folder whose sockets have paths that are short enough."""
    inside = folder / "tmp"
    if _fits(inside):
        return inside
    folders = _temporary_folders()
    base = next((base for base in folders if _fits(base / f"{_PREFIX}12345678")), folders[-1])
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))


def _temporary_folders() -> tuple[Path, Path]:
    return Path(tempfile.gettempdir()), Path("/tmp")  # noqa: S108 - only mkdtemp makes something there


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / _SOCKET)) <= _LONGEST_SOCKET
