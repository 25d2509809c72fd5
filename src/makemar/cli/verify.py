"""`make-mar verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.failure import EXIT_FAILURE, WrongUsage, complain, report_findings
from makemar.cli.findings import finding_data
from makemar.cli.output import write_json, write_line
from makemar.errors import ArchiveError, Severity

if TYPE_CHECKING:
    from makemar.errors import Finding

__all__ = ["verify"]


def verify(
    archives: Annotated[
        list[Path],
        typer.Argument(metavar="ARCHIVE...", help="A .mar, a .tar.gz or a model directory."),
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUBKEY",
            envvar="MAKEMAR_PUBLIC_KEY",
            help="Also check who signed it, with this public key.",
        ),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(help="File of the signature [default: ARCHIVE.sig].")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", envvar="MAKEMAR_STRICT", help="Fail on warnings as well."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find what would make TorchServe refuse an archive.

    Or take it for another one. Every byte is read and compared with RECORD, and nothing is run.
    Archives of other programs can be verified too; without a RECORD nothing tells whether they are
    what was packed.

    RECORD tells of damage only, for whoever changes an archive can write another one. With --key
    the signature that make-mar sign wrote has to be that key's, and covers every member.
    """
    from makemar.archiver import check_signature, verify_archive

    if signature is not None and (key is None or len(archives) > 1):
        raise WrongUsage("--signature goes with --key and one ARCHIVE")
    results, failed = [], False
    for archive in archives:
        try:
            findings = verify_archive(archive)
            if key is not None:
                findings = _join(findings, check_signature(archive, key, signature=signature))
        except ArchiveError as error:
            complain(error)
            failed = True
            continue
        errors = sum(found.severity is Severity.ERROR for found in findings)
        failed |= bool(findings) if strict else errors > 0
        results.append(_describe(archive, findings, errors))
        if not as_json:
            report_findings(findings)
            write_line(archive, _count(errors, len(findings) - errors))
    if as_json:
        write_json(results)
    if failed:
        raise typer.Exit(EXIT_FAILURE)


def _join(findings: tuple[Finding, ...], more: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Let a member that RECORD and the signature tell of be told of once, by the signature."""
    told = {(found.code, found.message.partition("' ")[0]) for found in more}
    rest = [f for f in findings if (f.code, f.message.partition("' ")[0]) not in told]
    return (*rest, *more)


def _describe(archive: Path, findings: tuple[Finding, ...], errors: int) -> dict[str, object]:
    return {
        "path": str(archive),
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [finding_data(found) for found in findings],
    }


def _count(errors: int, warnings: int) -> str:
    counts = ((errors, "error"), (warnings, "warning"))
    words = [f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count]
    return ", ".join(words) or "ok"
