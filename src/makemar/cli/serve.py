"""`make-mar serve`."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.config import ProfileName
from makemar.cli.connection import DEFAULT_WORK_DIR, WorkDir
from makemar.cli.failure import EXIT_FAILURE, complain
from makemar.cli.output import write_json, write_line
from makemar.cli.progress import waiting

if TYPE_CHECKING:
    from makemar.configs import ServerConfig
    from makemar.serving import ServerState, TorchServe

__all__ = ["serve"]

# What Java ends with after an orderly stop: by itself, or at the request of `make-mar stop`.
_ORDERLY = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


class _Terminated(BaseException):
    """Somebody asked this process to end."""


def serve(
    archives: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[ARCHIVE]...", help="What to serve from the start."),
    ] = None,
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
        int, typer.Option(envvar="MAKEMAR_WORKERS", min=1, help="Worker processes of each archive.")
    ] = 1,
    profile: Annotated[
        ProfileName, typer.Option(envvar="MAKEMAR_PROFILE", help="Settings; see `config init`.")
    ] = ProfileName.DEVELOPMENT,
    config: Annotated[
        Path | None,
        typer.Option(envvar="MAKEMAR_CONFIG", help="A config.properties, in place of a profile."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            envvar="MAKEMAR_PORT",
            min=0,
            max=65531,
            help="Inference on this port, management and metrics on the next two, gRPC on the two "
            "after; 0 finds free ones [default: 8080, 8081, 8082, 7070, 7071].",
        ),
    ] = None,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it is ready; end it with `make-mar stop`.")
    ] = False,
    start_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until every worker must be READY.")
    ] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run TorchServe and wait until every worker is READY.

    Prints where it listens. Runs until Ctrl-C (exit code 130) or SIGTERM (exit code 0), unless
    detached.
    """
    from makemar.serving import TorchServe, with_ports

    chosen = _choose_config(config, profile)
    server = TorchServe(
        archives or (),
        config=with_ports(chosen, port) if port else chosen,
        free_ports=port == 0,
        work_dir=work_dir,
        workers=workers,
        batch_size=batch_size,
        max_batch_delay=max_batch_delay,
        start_timeout=start_timeout,
    )
    try:
        with _termination_raises():
            with waiting("starting TorchServe"):
                server.start()
            _print(server, as_json=as_json)
            if detach:
                _announce(server.detach())
                return
            code = server.wait()
    except _Terminated:
        return
    finally:
        server.stop()
    if code not in _ORDERLY:
        complain(
            f"TorchServe ended by itself with exit code {code}; see the logs in {work_dir}/logs"
        )
        raise typer.Exit(EXIT_FAILURE)


def _choose_config(path: Path | None, profile: ProfileName) -> ServerConfig:
    import os

    from makemar.configs import load_profile, parse_server_config

    if path is None:
        return load_profile(profile.value)
    # Java reads a properties file as ISO-8859-1, whatever the locale.
    text = path.read_text(encoding="latin-1")
    return parse_server_config(text, path=path, environ=os.environ)


@contextmanager
def _termination_raises() -> Iterator[None]:
    """Make SIGTERM, and the loss of the terminal, end the block by an exception.

    So that the server is stopped and not left behind. A signal that is ignored (nohup) stays so.
    """

    def handle(*_: object) -> None:
        raise _Terminated

    caught = [signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.getsignal(number) for number in caught}
    for number in caught:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(server: TorchServe, *, as_json: bool) -> None:
    import sys

    addresses = asdict(server.addresses)
    if as_json:
        write_json(
            {
                "work_dir": str(server.work_dir),
                "pid": server.pid,
                "addresses": addresses,
                "key_file": None if server.key_file is None else str(server.key_file),
                "models": [asdict(model) for model in server.models],
            }
        )
    else:
        for name, address in addresses.items():
            write_line(f"{name + ':':<16} {address}")
        for model in server.models:
            ready = f"{model.ready_workers} of {model.min_workers} workers READY"
            write_line(f"{'model:':<16} {model.name} {model.version}, {ready}")
        if server.models:
            write_line(f"{'try:':<16} {_curl_line(server)}")
    sys.stdout.flush()  # whoever waits for these lines reads a pipe, and the server runs on


def _curl_line(server: TorchServe) -> str:
    """Write a command that asks the first model; the shell takes the key out of its file."""
    url = f"{server.addresses.inference}/predictions/{server.models[0].name}"
    words = f"curl -T YOUR_FILE {shlex.quote(url)}"
    if server.key_file is None:
        return words
    # TorchServe writes the file one key to a line.
    script = r'/"inference"/,/}/s/.*"key": *"\([^"]*\)".*/\1/p'
    key = f"$(sed -n '{script}' {shlex.quote(str(server.key_file))})"
    return f'{words} -H "Authorization: Bearer {key}"'


def _announce(state: ServerState) -> None:
    folder = shlex.quote(str(state.work_dir))
    typer.echo(
        f"running as process {state.pid}; stop it: make-mar stop --work-dir {folder}", err=True
    )
