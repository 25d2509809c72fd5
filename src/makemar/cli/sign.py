"""`make-mar sign`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from makemar.cli.failure import WrongUsage
from makemar.cli.output import write_json, write_line

__all__ = ["sign"]

_PASSPHRASE = "MAKEMAR_KEY_PASSPHRASE"  # noqa: S105 - the name of the variable


def sign(
    archive: Annotated[
        Path | None, typer.Argument(help="A .mar, a .tar.gz or a model directory.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(envvar="MAKEMAR_KEY", help="PEM file of the private key to sign with."),
    ] = None,
    new_key: Annotated[
        Path | None,
        typer.Option(
            metavar="KEYFILE",
            help="Make an Ed25519 key instead; the public one goes to KEYFILE.pub.",
        ),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(help="File for the signature [default: ARCHIVE.sig].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace a signature that is there already.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Sign an archive, or make a key to sign with.

    The signature is a file beside the archive, which stays as it is. It is in the OpenSSF model
    signing format and covers every member; `make-mar verify --key` checks it. The passphrase of a
    key comes from MAKEMAR_KEY_PASSPHRASE, or is asked for.
    """
    if new_key is not None:
        if archive is not None or key is not None or signature is not None:
            raise WrongUsage("--new-key makes a key and nothing else; sign in a second step")
        _make_key(new_key, as_json=as_json)
        return
    if archive is None or key is None:
        raise WrongUsage("name an ARCHIVE and give --key, or make a key with --new-key")
    from makemar.archiver import sign_archive

    path = sign_archive(
        archive,
        key,
        passphrase=lambda: _find_passphrase(f"Passphrase of {key}"),
        signature=signature,
        force=force,
    )
    if as_json:
        write_json({"archive": str(archive), "signature": str(path)})
    else:
        write_line(path)


def _make_key(path: Path, *, as_json: bool) -> None:
    from makemar.archiver import create_signing_key

    passphrase = os.environ.get(_PASSPHRASE)
    if passphrase is None:
        asks = sys.stdin.isatty()
        passphrase = _ask("Passphrase for the new key (none: leave empty)") if asks else ""
        if passphrase and _ask("The same again") != passphrase:
            raise WrongUsage("the two passphrases differ; no key was made")
    public = create_signing_key(path, passphrase=passphrase)
    if as_json:
        write_json({"private_key": str(path), "public_key": str(public)})
    else:
        write_line(public)


def _find_passphrase(question: str) -> str:
    passphrase = os.environ.get(_PASSPHRASE)
    if passphrase is not None:
        return passphrase
    if not sys.stdin.isatty():
        raise WrongUsage(f"the key is encrypted and nobody can be asked; set {_PASSPHRASE}")
    return _ask(question)


def _ask(question: str) -> str:
    """Ask without showing the answer; the question goes to stderr."""
    answer: str = typer.prompt(question, default="", hide_input=True, show_default=False, err=True)
    return answer
