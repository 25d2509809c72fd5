"""`make-mar config`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from makemar.cli.verbs import make_app

__all__ = ["ProfileName", "app"]

app = make_app()


class ProfileName(enum.Enum):
    """The ready-made configurations; a test holds them equal to `makemar.configs.PROFILES`."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"


@app.callback()
def config() -> None:
    """Write TorchServe's config.properties."""


@app.command("init")
def init(
    profile: Annotated[
        ProfileName, typer.Option(envvar="MAKEMAR_PROFILE", help="Which configuration.")
    ] = ProfileName.DEVELOPMENT,
    out: Annotated[Path | None, typer.Option(help="Write here, not to stdout.")] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace a file that is there.")
    ] = False,
) -> None:
    """Print a commented config.properties, each line with its reason."""
    from makemar.configs import profile_text

    text = profile_text(profile.value)
    if out is None:
        typer.echo(text, nl=False)
        return
    from makemar.cli.whole_file import write_whole

    write_whole(out, text, force=force)
    typer.echo(str(out))
