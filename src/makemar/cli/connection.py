"""Which server a verb talks to, and with which key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from makemar.errors import ServingError

if TYPE_CHECKING:
    from makemar.serving import InferenceClient, ManagementClient, ServerState

__all__ = [
    "DEFAULT_WORK_DIR",
    "InferenceUrl",
    "KeyFile",
    "ManagementUrl",
    "ModelVersion",
    "Timeout",
    "WorkDir",
    "open_inference",
    "open_management",
    "read_state",
]

DEFAULT_WORK_DIR = Path(".makemar")
# A key on a command line is seen by everybody who may list processes; a variable is not.
_TOKEN_VARIABLE = "MAKEMAR_TOKEN"  # noqa: S105 - the name, not the key
_TOKEN_HELP = f"A key itself is taken from {_TOKEN_VARIABLE} only."

WorkDir = Annotated[
    Path,
    typer.Option("--work-dir", envvar="MAKEMAR_WORK_DIR", help="The server's folder."),
]
ManagementUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="MAKEMAR_MANAGEMENT_URL",
        help="Management address [default: that of the server in --work-dir].",
    ),
]
InferenceUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="MAKEMAR_INFERENCE_URL",
        help="Inference address [default: that of the server in --work-dir].",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar="MAKEMAR_KEY_FILE",
        help=f"The server's key_file.json [default: the one in --work-dir]. {_TOKEN_HELP}",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", envvar="MAKEMAR_TIMEOUT", min=0.001, help="Seconds to wait for each answer."
    ),
]
ModelVersion = Annotated[
    str | None, typer.Option("--version", help="The model's version [default: its default one].")
]


def read_state(work_dir: Path) -> ServerState | None:
    """Return what is known of the server in a folder, None if none runs there."""
    from makemar.serving import ServerState

    try:
        state = ServerState.read(work_dir)
    except ServingError:
        return None
    return state if state.alive else None


def open_management(
    work_dir: Path, url: str | None, key_file: Path | None, timeout: float
) -> ManagementClient:
    """Connect to a management API; raises ServingError if it is not known where that is."""
    from makemar.serving import ManagementClient

    state = read_state(work_dir) if url else _running(work_dir)
    token = os.environ.get(_TOKEN_VARIABLE) or None
    if state is not None and not url and not key_file and not token:
        # This client reads the server's log too, so that a failed worker is told at once.
        return state.management(timeout=timeout)
    address, keys = _resolve(state, "management", url, key_file)
    return ManagementClient(address, key_file=keys, token=token, timeout=timeout)


def open_inference(
    work_dir: Path, url: str | None, key_file: Path | None, timeout: float
) -> InferenceClient:
    """Connect to an inference API; raises ServingError if it is not known where that is."""
    from makemar.serving import InferenceClient

    state = read_state(work_dir) if url else _running(work_dir)
    token = os.environ.get(_TOKEN_VARIABLE) or None
    address, keys = _resolve(state, "inference", url, key_file)
    return InferenceClient(address, key_file=keys, token=token, timeout=timeout)


def _running(work_dir: Path) -> ServerState:
    """Return the server in a folder; a dead one's port may be somebody else's by now."""
    from makemar.serving import ServerState

    state = ServerState.read(work_dir)
    if not state.alive:
        raise ServingError(
            f"the server of {work_dir} has ended; start it again with `make-mar serve`"
        )
    return state


def _resolve(
    state: ServerState | None,
    api: Literal["management", "inference"],
    url: str | None,
    key_file: Path | None,
) -> tuple[str, Path | None]:
    """Choose address and key file: what was given first, then what the work directory says."""
    known = None if state is None else getattr(state.addresses, api)
    address = url or known or ""
    if key_file is None and state is not None and address.rstrip("/") == known:
        # The key goes to the server that it belongs to and to no other address.
        key_file = state.key_file
    return address, key_file
