"""`make-mar pack`."""

from __future__ import annotations

import enum
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.failure import EXIT_FAILURE, WrongUsage, report_findings
from makemar.cli.output import write_json, write_line, write_table
from makemar.errors import Finding

if TYPE_CHECKING:
    from makemar.archiver import ArchiveFormat, ArchivePlan, ArchiveSpec

__all__ = ["pack"]

_DEFAULT_SPEC = Path("mar.toml")


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
        str | None, typer.Option(help="FILE.py, FILE.py:FUNCTION, or a built-in handler's name.")
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
    archive_format: Annotated[
        FormatName, typer.Option(help="The archive's shape; members of a .mar are always stored.")
    ] = FormatName.DEFAULT,
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

    It is checked before it is written. Prints the archive's path, size in bytes and SHA-256. Flags
    given beside a SPEC replace what it says.
    """
    from makemar.archiver import parse_include, plan_archive, split_extra_files

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
    }
    chosen = _choose_spec(spec, {key: value for key, value in changes.items() if value is not None})
    plan = plan_archive(chosen)
    shape = _choose_format(archive_format)
    target = export_path / f"{chosen.model_name}{shape.suffix}"
    report_findings(plan.findings)
    if dry_run:
        _print_plan(plan, target, as_json=as_json)
    if plan.errors:
        raise typer.Exit(EXIT_FAILURE)
    if not dry_run:
        _write(plan, target, shape, force=force, as_json=as_json)


def _choose_spec(path: Path | None, changes: dict[str, object]) -> ArchiveSpec:
    """Make the specification out of a file, of flags, or of both."""
    from makemar.archiver import ArchiveSpec, read_spec

    if path is None and not changes:
        if not _DEFAULT_SPEC.exists():
            raise WrongUsage(
                "there is no ./mar.toml; name one, or give --model-name, --version and --handler"
            )
        path = _DEFAULT_SPEC
    if path is not None:
        base = read_spec(path / _DEFAULT_SPEC if path.is_dir() else path)
        return replace(base, **_from_here(changes, base.base))  # type: ignore[arg-type]
    required = ("model_name", "version", "handler")
    missing = [f"--{key.replace('_', '-')}" for key in required if key not in changes]
    if missing:
        raise WrongUsage(f"give {' and '.join(missing)}, or name a mar.toml")
    return ArchiveSpec(**changes)  # type: ignore[arg-type]


def _from_here(changes: dict[str, object], base: Path) -> dict[str, object]:
    """Let the paths in flags start from the current folder, as typed, not from the SPEC's."""
    from makemar.archiver import Include

    if base.resolve() == Path.cwd():
        return changes
    here = dict(changes)
    for key, value in changes.items():
        if isinstance(value, Path):
            here[key] = value.absolute()
        elif key == "include" and isinstance(value, tuple):
            here[key] = tuple(
                Include(
                    source=item.source.absolute(), destination=item.destination or item.source.name
                )
                for item in value
            )
        elif key == "extra_files" and isinstance(value, tuple):
            here[key] = tuple(str(Path(item).absolute()) for item in value)
        elif key == "handler" and _is_file(str(value)):
            here[key] = str(Path(str(value)).absolute())
    return here


def _is_file(handler: str) -> bool:
    """Tell a handler's file, with or without .py and function, from a built-in one's name."""
    file = handler.partition(":")[0]
    return Path(file).is_file() or Path(f"{file}.py").is_file()


def _choose_format(name: FormatName) -> ArchiveFormat:
    from makemar.archiver import ArchiveFormat

    return ArchiveFormat(name.value)


def _write(
    plan: ArchivePlan, target: Path, shape: ArchiveFormat, *, force: bool, as_json: bool
) -> None:
    from makemar.archiver import write_and_hash
    from makemar.cli.progress import copy_progress

    # torch-model-archiver 0.12 wants the folder to be there and its successor makes it: a script
    # written for either goes on working if it is made.
    target.parent.mkdir(parents=True, exist_ok=True)
    with copy_progress(target.name, plan.size) as progress:
        written = write_and_hash(plan, target, archive_format=shape, force=force, progress=progress)
    if as_json:
        findings = [_finding_data(finding) for finding in plan.findings]
        data = {"path": str(target), "size": written.size, "sha256": written.sha256}
        write_json({**data, "findings": findings})
    else:
        write_line(target, written.size, f"sha256={written.sha256}")


def _print_plan(plan: ArchivePlan, target: Path, *, as_json: bool) -> None:
    if not as_json:
        rows = [(member.name, member.size, member.origin, member.place) for member in plan.members]
        write_table(("member", "bytes", "because of", "source"), rows)
        return
    members = [
        {"name": m.name, "size": m.size, "origin": m.origin, "source": m.place}
        for m in plan.members
    ]
    findings = [_finding_data(finding) for finding in plan.findings]
    write_json({"path": str(target), "size": plan.size, "members": members, "findings": findings})


def _finding_data(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "fix": finding.fix,
        "path": None if finding.path is None else str(finding.path),
        "line": finding.line,
    }
