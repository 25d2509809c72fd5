"""`make-mar models`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.connection import (
    DEFAULT_WORK_DIR,
    KeyFile,
    ManagementUrl,
    ModelVersion,
    Timeout,
    WorkDir,
    open_management,
    read_state,
)
from makemar.cli.failure import complain
from makemar.cli.output import format_size, write_json, write_line, write_table
from makemar.cli.verbs import make_app
from makemar.errors import ModelNotFoundError, ResponseError, ServingError, UnreachableError

if TYPE_CHECKING:
    from makemar.serving import ManagementClient, ModelDescription

__all__ = ["app"]

app = make_app()

Model = Annotated[str, typer.Argument(help="The model's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[
    float,
    typer.Option(
        envvar="MAKEMAR_WAIT", min=0, help="Seconds to wait for READY workers; 0 does not wait."
    ),
]
_SETTLE = 120.0


@app.callback()
def models() -> None:
    """List, register, scale and remove a server's models."""


@app.command("list")
def list_models(
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: ManagementUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """List every version of every model; * marks the default one."""
    with open_management(work_dir, url, key_file, timeout) as client:
        found = _every_version(client)
    if as_json:
        write_json([asdict(item) | {"default": default} for item, default in found])
        return
    columns = ("model", "version", "default", "workers", "batch_size", "max_batch_delay", "archive")
    write_table(columns, (_row(item, default=default) for item, default in found))


@app.command("show")
def show(
    model: Model,
    version: Annotated[
        str | None, typer.Option("--version", help="One version [default: all of them].")
    ] = None,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: ManagementUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Show a model's settings, workers and queue."""
    with open_management(work_dir, url, key_file, timeout) as client:
        found = client.describe(model, version or "all")
    if as_json:
        write_json([asdict(item) for item in found])
        return
    for item in found:
        _print(item)


@app.command("register")
def register(
    archive: Annotated[
        str, typer.Argument(help="An archive: its path, its name in the model store, or a URL.")
    ],
    model_name: Annotated[str | None, typer.Option(help="Another name than the archive's.")] = None,
    handler: Annotated[str | None, typer.Option(help="Another handler than the archive's.")] = None,
    runtime: Annotated[str | None, typer.Option(help="Another runtime than the archive's.")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(envvar="MAKEMAR_BATCH_SIZE", min=1, help="Most requests in a batch."),
    ] = None,
    max_batch_delay: Annotated[
        int | None,
        typer.Option(
            envvar="MAKEMAR_MAX_BATCH_DELAY",
            min=1,
            help="Milliseconds to wait for a batch to fill.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(envvar="MAKEMAR_WORKERS", min=0, help="Worker processes.")
    ] = 1,
    response_timeout: Annotated[
        int | None, typer.Option(min=1, help="Seconds a batch may take in the worker.")
    ] = None,
    startup_timeout: Annotated[
        int | None, typer.Option(min=1, help="Seconds a worker may take to load the model.")
    ] = None,
    wait: Wait = _SETTLE,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: ManagementUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Register an archive and wait until its workers are READY; if they fail, nothing stays."""
    with open_management(work_dir, url, key_file, timeout) as client:
        registered = client.register(
            _reachable(archive, work_dir, url),
            model_name=model_name,
            handler=handler,
            runtime=runtime,
            batch_size=batch_size,
            max_batch_delay=max_batch_delay,
            initial_workers=workers,
            response_timeout=response_timeout,
            startup_timeout=startup_timeout,
            wait=wait or None,
        )
    _print_one(registered, as_json=as_json)


@app.command("scale")
def scale(
    model: Model,
    workers: Annotated[
        int, typer.Option(envvar="MAKEMAR_WORKERS", min=0, help="Worker processes to have.")
    ],
    version: ModelVersion = None,
    wait: Wait = _SETTLE,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: ManagementUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
) -> None:
    """Change a model's number of workers.

    Surplus workers are killed at once: requests inside them get no answer.
    """
    with open_management(work_dir, url, key_file, timeout) as client:
        scaled = client.scale(model, version, min_worker=workers, wait=wait or None)
    _print_one(scaled, as_json=as_json)


@app.command("set-default")
def set_default(
    model: Model,
    version: Annotated[str, typer.Argument(help="The version that requests without one get.")],
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: ManagementUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 10.0,
) -> None:
    """Choose the version that answers requests which name none."""
    with open_management(work_dir, url, key_file, timeout) as client:
        client.set_default(model, version)
    typer.echo(f"{model} {version} is the default", err=True)


@app.command("unregister")
def unregister(
    model: Model,
    version: ModelVersion = None,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: ManagementUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 10.0,
) -> None:
    """Remove a model's version and end its workers.

    Requests that are still in a worker or the queue get no answer; a default version goes last.
    """
    with open_management(work_dir, url, key_file, timeout) as client:
        client.unregister(model, version)
    typer.echo(f"{model} {version or ''}".rstrip() + " is unregistered", err=True)


def _every_version(client: ManagementClient) -> list[tuple[ModelDescription, bool]]:
    """Describe all versions of all models, each with whether it is the default one."""
    found = []
    for entry in client.models():
        try:
            default = client.describe(entry.name)[0].version
            versions = client.describe(entry.name, "all")
        except ModelNotFoundError:
            continue  # gone since the list was made
        except (ResponseError, UnreachableError):
            raise
        except ServingError as error:  # a name that TorchServe takes and no URL can hold
            complain(error)
            continue
        found += [(item, item.version == default) for item in versions]
    return found


def _reachable(archive: str, work_dir: Path, url: str | None) -> str:
    """Turn the path of a local archive into something that the server finds.

    TorchServe 0.12 takes a path's last part for a name in its model store, so a file elsewhere is
    linked into the store of the server in the work directory; another server gets a file URL.
    """
    path = Path(archive)
    if not path.exists():
        return archive
    state = None if url else read_state(work_dir)
    return path.absolute().as_uri() if state is None else state.add_to_store(path)


def _row(item: ModelDescription, *, default: bool) -> tuple[object, ...]:
    return (
        item.name,
        item.version,
        "*" if default else "",
        f"{item.ready_workers}/{item.min_workers} READY",
        item.batch_size,
        f"{item.max_batch_delay} ms",
        item.url,
    )


def _print_one(item: ModelDescription, *, as_json: bool) -> None:
    if as_json:
        write_json(asdict(item))
    else:
        _print(item)


def _print(item: ModelDescription) -> None:
    workers = f"{item.ready_workers} READY of {item.min_workers}"
    if item.max_workers != item.min_workers:
        workers += f" to {item.max_workers}"
    facts = {
        "model": item.name,
        "version": item.version,
        "archive": item.url,
        "runtime": item.runtime,
        "batch_size": item.batch_size,
        "max_batch_delay": f"{item.max_batch_delay} ms",
        "response_timeout": f"{item.response_timeout} s",
        "startup_timeout": f"{item.startup_timeout} s",
        "queue": f"{item.pending_requests} waiting, room for {item.remaining_capacity}",
        "workers": workers,
    }
    for name, value in facts.items():
        write_line(f"{name + ':':<17} {value}")
    for worker in item.workers:
        memory = f", {format_size(worker.memory_usage)}" if worker.memory_usage else ""
        write_line(f"  worker {worker.id}: {worker.status}, pid {worker.pid}{memory}")
