"""`server.json`: what a later command must know about a server to reach it and to stop it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from makemar.errors import ServingError
from makemar.serving.addresses import ServerAddresses
from makemar.serving.archive_links import add_link
from makemar.serving.guard import remove_paths
from makemar.serving.inference import InferenceClient
from makemar.serving.log_file import LogFile
from makemar.serving.management import ManagementClient
from makemar.serving.processes import is_alive, reap, terminate_group
from makemar.serving.work_dir import STATE_NAME, WorkDir
from makemar.serving.work_dir_lock import WorkDirLock

__all__ = ["ServerState", "check_unused", "claim_work_dir", "stop_server"]

_PATIENCE = 10.0  # seconds for a server that is just stopping


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """A server that was started in `work_dir`.

    `started` is the start time of process `pid`, in seconds since 1970. `key_file` is None if the
    server asks for no keys. `tmp_dir` goes when the server goes. `model_store` is None if the
    server has a store that its user keeps, where nothing is to be put.
    """

    work_dir: Path
    pid: int
    started: float
    addresses: ServerAddresses
    key_file: Path | None
    tmp_dir: Path
    model_store: Path | None

    @classmethod
    def read(cls, work_dir: Path) -> ServerState:
        """Read the state in a folder; raise ServingError if there is none or it is damaged."""
        path = work_dir / STATE_NAME
        try:
            data = json.loads(path.read_bytes())
            key_file, store = data["key_file"], data["model_store"]
            return cls(
                work_dir=Path(data["work_dir"]),
                pid=_pid(data["pid"]),
                started=float(data["started"]),
                addresses=ServerAddresses(**data["addresses"]),
                key_file=None if key_file is None else Path(key_file),
                tmp_dir=Path(data["tmp_dir"]),
                model_store=None if store is None else Path(store),
            )
        except FileNotFoundError as error:
            raise ServingError(
                f"no server was started in {work_dir}; start one with `make-mar serve`, or give "
                "its work directory"
            ) from error
        except OSError as error:
            raise ServingError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise ServingError(
                f"{path} is damaged; end the server by hand and remove it"
            ) from error

    @property
    def alive(self) -> bool:
        """Whether that server still runs."""
        return is_alive(self.pid, self.started)

    def management(self, *, timeout: float = 10.0) -> ManagementClient:
        """Return a client that has this server's key and reads its log; `timeout` in seconds."""
        log = LogFile(WorkDir(root=self.work_dir, tmp=self.tmp_dir, private=False).server_log)
        return ManagementClient(
            self.addresses.management, key_file=self.key_file, timeout=timeout, worker_log=log
        )

    def inference(self, *, timeout: float = 30.0) -> InferenceClient:
        """Return a client that has this server's key; `timeout` in seconds."""
        return InferenceClient(self.addresses.inference, key_file=self.key_file, timeout=timeout)

    def add_to_store(self, archive: Path) -> str:
        """Bring an archive within the server's reach; return the URL to register it under.

        TorchServe 0.12 takes the last part of a path for a name in its model store: the archive
        is linked in there, under a name that no other archive has, or named by a file URL if the
        store is its user's. Raises ArchiveError for one that TorchServe cannot load.
        """
        if self.model_store is None or not self.model_store.is_dir():
            return archive.absolute().as_uri()
        return add_link(archive, self.model_store)

    def write(self) -> None:
        """Write the state into its folder, whole or not at all."""
        path = self.work_dir / STATE_NAME
        draft = path.with_suffix(".json.new")
        text = json.dumps(asdict(self), indent=2, default=str)  # paths become texts
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(path)


def _pid(value: object) -> int:
    """Read the id of a process that can be a server: 0 and less are groups to the system."""
    if type(value) is not int or not 1 < value < 2**31:
        raise ValueError("not the id of a server")
    return value


def check_unused(work_dir: Path) -> None:
    """Raise ServingError if a server runs in a folder: a second one would share keys and logs."""
    if not (work_dir / STATE_NAME).exists():
        return
    state = ServerState.read(work_dir)
    if state.alive:
        raise ServingError(
            f"a server runs in {work_dir} already (pid {state.pid}); stop it with `make-mar stop`, "
            "or give another work directory"
        )


def claim_work_dir(work_dir: Path) -> WorkDirLock:
    """Take the lock of a server's folder, which is made if need be, for as long as a server runs.

    Raises ServingError if another server runs, starts or stops there. One that stops gets time.
    """
    return WorkDirLock.take(work_dir, patience=_PATIENCE, check=lambda: check_unused(work_dir))


def stop_server(work_dir: Path, *, grace: float = 15.0) -> bool:
    """Stop the server that was started in a folder, and everything that it started.

    It has `grace` seconds to end by itself before it is killed. Its keys, its temporary folder and
    `server.json` are removed; logs and model store stay. Returns False if it had ended before.
    Raises ServingError if no server was started there.
    """
    state = ServerState.read(work_dir)
    alive = state.alive
    terminate_group(state.pid, state.started, grace=grace, known=alive)
    reap(state.pid)
    _remove_leftovers(state, work_dir)
    return alive


def _remove_leftovers(state: ServerState, work_dir: Path) -> None:
    """Remove what an ended server left, unless its owner has done so and another starts there."""
    places = WorkDir(root=work_dir, tmp=state.tmp_dir, private=False)
    # The file may have come with a folder from elsewhere: it must not choose what is removed.
    leftovers = places.leftovers if places.owns_tmp else (places.key_file, places.state_file)
    with contextlib.ExitStack() as held, contextlib.suppress(ServingError):
        # The owner may hold it still; a server that starts there removes the old state first.
        with contextlib.suppress(ServingError):
            held.callback(WorkDirLock.take(work_dir).release)
        if ServerState.read(work_dir) == state:
            remove_paths(leftovers)
