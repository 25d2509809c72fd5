"""`make-mar pack`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.failure import EXIT_FAILURE, report_findings
from makemar.cli.output import write_json, write_line
from makemar.cli.pack_spec import choose_spec
from makemar.cli.plan_output import list_findings, print_plan
from makemar.cli.termination import end_on_sigterm

if TYPE_CHECKING:
    from makemar.archiver import ArchiveFormat, ArchivePlan

__all__ = ["pack"]


class FormatName(enum.Enum):
    """The values of --archive-format; a test holds them equal to what the archiver knows."""

    DEFAULT = "default"
    ZIP_STORE = "zip-store"
    TGZ = "tgz"
    NO_ARCHIVE = "no-archive"


class Runtime(enum.Enum):
    """The runtimes that TorchServe 0.12 knows; a test holds them equal to the configs' RUNTIMES."""

    PYTHON = "python"
    PYTHON3 = "python3"
    LSP = "LSP"


def pack(
    spec: Annotated[
        Path | None,
        typer.Argument(
            metavar="SPEC",
            help="A mar.toml, or the folder of one; ./mar.toml if no flag describes a model.",
        ),
    ] = None,
    model_name: Annotated[
        str | None, typer.Option(help="Name of the model and the archive.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", "-v", help="The model's version.")
    ] = None,
    handler: Annotated[
        str | None,
        typer.Option(
            help="FILE.py[:NAME], PACKAGE.MODULE:CLASS, a name of TorchServe, or makemar.FAMILY."
        ),
    ] = None,
    serialized_file: Annotated[
        Path | None, typer.Option(help="Weights, or a whole model, in one file.")
    ] = None,
    model_file: Annotated[
        Path | None, typer.Option(help="Python file with the network's class.")
    ] = None,
    extra_files: Annotated[
        str | None,
        typer.Option(
            help="Files, globs and directories, separated by commas; of a directory, the contents."
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH[=DEST]", help="A file, or a directory with its tree; repeatable."
        ),
    ] = None,
    requirements_file: Annotated[
        Path | None,
        typer.Option("--requirements-file", "-r", help="pip requirements of the model."),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config-file", "-c", help="model-config.yaml of the model.")
    ] = None,
    runtime: Annotated[
        Runtime | None, typer.Option(help="What runs the handler [default: python].")
    ] = None,
    no_vendor: Annotated[
        bool,
        typer.Option(
            "--no-vendor", help="Leave makemar's handlers out; the server must have them."
        ),
    ] = False,
    target_python: Annotated[
        str | None,
        typer.Option(
            envvar="MAKEMAR_TARGET_PYTHON",
            metavar="X.Y",
            help="The server's Python; newer code is a warning [default: 3.9].",
        ),
    ] = None,
    target_envelope: Annotated[
        str | None, typer.Option(metavar="NAME", help="The server's service_envelope, if any.")
    ] = None,
    silence: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE=REASON", help="Accept the warnings of a code, and say why; repeatable."
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            envvar="MAKEMAR_STRICT",
            help="Make an error of every warning that is left.",
        ),
    ] = False,
    archive_format: Annotated[
        FormatName,
        typer.Option(help="The archive's shape; default and zip-store are the same .mar."),
    ] = FormatName.DEFAULT,
    compress: Annotated[
        bool,
        typer.Option("--compress", help="Deflate a .mar's members: smaller, slower to load."),
    ] = False,
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Of no-archive, let files over 1 MiB share the disk with their sources: clones, "
            "else hard links, which an edit in place changes too; else copies.",
        ),
    ] = False,
    export_path: Annotated[
        Path,
        typer.Option(
            envvar="MAKEMAR_EXPORT_PATH", help="Folder for the archive; made if it is not there."
        ),
    ] = Path(),
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace an archive that is there already.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what the archive would hold; write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Pack code, weights and metadata into an archive.

    It is checked before it is written. Prints the archive's path, size in bytes and the SHA-256 of
    its RECORD, which stands for all it holds. Flags given beside a SPEC replace what it says.
    """
    from makemar.archiver import parse_include, parse_silence, plan_archive, split_extra_files

    changes: dict[str, object] = {
        "model_name": model_name,
        "version": version,
        "handler": handler,
        "serialized_file": serialized_file,
        "model_file": model_file,
        "extra_files": None if extra_files is None else split_extra_files(extra_files),
        "include": tuple(map(parse_include, include)) if include else None,
        "requirements_file": requirements_file,
        "config_file": config_file,
        "runtime": None if runtime is None else runtime.value,
        "vendor": False if no_vendor else None,
        "target_python": target_python,
        "target_envelope": target_envelope,
        "silence": tuple(map(parse_silence, silence)) if silence else None,
        "strict": True if strict else None,
    }
    chosen = choose_spec(spec, changes)
    plan = plan_archive(chosen)
    shape = _choose_format(archive_format)
    target = export_path / f"{chosen.model_name}{shape.suffix}"
    report_findings(plan.findings)
    if dry_run:
        print_plan(plan, target, as_json=as_json)
    if plan.errors:
        raise typer.Exit(EXIT_FAILURE)
    if not dry_run:
        options = _Options(compress=compress, link=link, force=force)
        _write(plan, target, shape, options, as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class _Options:
    """How to write, beside the format."""

    compress: bool
    link: bool
    force: bool


def _choose_format(name: FormatName) -> ArchiveFormat:
    from makemar.archiver import ArchiveFormat

    return ArchiveFormat(name.value)


def _write(
    plan: ArchivePlan,
    target: Path,
    shape: ArchiveFormat,
    options: _Options,
    *,
    as_json: bool,
) -> None:
    from makemar.archiver import write_and_hash
    from makemar.cli.progress import copy_progress

    # torch-model-archiver 0.12 wants the folder to be there and its successor makes it: a script
    # written for either goes on working if it is made.
    target.parent.mkdir(parents=True, exist_ok=True)
    with end_on_sigterm(), copy_progress(target.name, plan.size) as progress:
        written = write_and_hash(
            plan,
            target,
            archive_format=shape,
            compress=options.compress,
            link=options.link,
            force=options.force,
            progress=progress,
        )
    if as_json:
        data = {
            "path": str(target),
            "size": written.size,
            "record_sha256": written.record_sha256,
        }
        write_json({**data, **list_findings(plan)})
    else:
        write_line(target, written.size, f"record-sha256={written.record_sha256}")
