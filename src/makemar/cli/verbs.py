"""The verbs of `make-mar`, each loaded when it is called for.

Building every verb's parameters takes as long as starting Python does, and --help needs none.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer.core import TyperCommand

__all__ = ["VERBS", "Verb", "VerbGroup", "make_app"]


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb: where it is, and the first line of its help.

    `attribute` names a function, or a typer.Typer with verbs of its own.
    """

    module: str
    attribute: str
    help: str

    def load(self, name: str) -> TyperCommand | TyperGroup:
        """Import the verb and build its command."""
        found = getattr(import_module(self.module), self.attribute)
        if not isinstance(found, typer.Typer):
            app = make_app()
            app.command(name)(found)
            found = app
        return typer.main.get_command(found)  # type: ignore[return-value]


VERBS: Mapping[str, Verb] = {
    "pack": Verb(
        module="makemar.cli.pack",
        attribute="pack",
        help="Pack code, weights and metadata into an archive.",
    ),
    "inspect": Verb(
        module="makemar.cli.inspect",
        attribute="inspect_archive",
        help="Show what an archive says of itself and holds.",
    ),
    "verify": Verb(
        module="makemar.cli.verify",
        attribute="verify",
        help="Find what would make TorchServe refuse an archive.",
    ),
    "diff": Verb(
        module="makemar.cli.diff",
        attribute="diff",
        help="Compare two archives, their weights by tensor.",
    ),
    "unpack": Verb(
        module="makemar.cli.unpack",
        attribute="unpack",
        help="Unpack an archive into a new folder, safely.",
    ),
    "sign": Verb(
        module="makemar.cli.sign",
        attribute="sign",
        help="Sign an archive, or make a key to sign with.",
    ),
    "sbom": Verb(
        module="makemar.cli.sbom",
        attribute="sbom",
        help="Print an archive's bill of materials (CycloneDX).",
    ),
    "check": Verb(
        module="makemar.cli.check",
        attribute="check",
        help="Run an archive in a TorchServe worker and check its answers.",
    ),
    "config": Verb(
        module="makemar.cli.config",
        attribute="app",
        help="Write TorchServe's config.properties.",
    ),
    "serve": Verb(
        module="makemar.cli.serve",
        attribute="serve",
        help="Run TorchServe and wait until every worker is READY.",
    ),
    "stop": Verb(
        module="makemar.cli.stop",
        attribute="stop",
        help="Stop the server of a work directory.",
    ),
    "models": Verb(
        module="makemar.cli.models",
        attribute="app",
        help="List, register, scale and remove a server's models.",
    ),
    "predict": Verb(
        module="makemar.cli.predict",
        attribute="predict",
        help="Send files to a model and print its replies.",
    ),
}


def make_app(**settings: Any) -> typer.Typer:
    """Make a typer.Typer as every one here is: plain, for rich would double the time to help."""
    return typer.Typer(
        **{
            "rich_markup_mode": None,
            "pretty_exceptions_enable": False,
            "add_completion": False,
            **settings,
        }
    )


class VerbGroup(TyperGroup):
    """The root command: it knows its verbs by name and loads the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """Return the names in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a verb; a name that is none is a usage error with a hint."""
        if cmd_name in VERBS:
            return VERBS[cmd_name].load(cmd_name)
        if ctx.resilient_parsing:  # a shell asks for completions
            return None
        close = difflib.get_close_matches(cmd_name, VERBS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(VERBS)}"
        return ctx.fail(f"There is no verb {cmd_name!r} ({hint})")

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as above
        """Write the table into the help without loading any verb."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])
