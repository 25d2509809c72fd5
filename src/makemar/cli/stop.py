"""`make-mar stop`."""

from __future__ import annotations

from typing import Annotated

import typer

from makemar.cli.connection import DEFAULT_WORK_DIR, WorkDir

__all__ = ["stop"]


def stop(
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that the server has to end by itself.")
    ] = 15.0,
) -> None:
    """Stop the server of a work directory."""
    from makemar.serving import stop_server

    was_alive = stop_server(work_dir, grace=grace)
    typer.echo("stopped" if was_alive else "had ended already", err=True)
