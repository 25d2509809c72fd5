"""The rules for names: of the model, of its version and of the members."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from makemar.archiver.handler import Handler
from makemar.archiver.member import META_FOLDER, Member, member_order
from makemar.archiver.spec import ArchiveSpec
from makemar.archiver.worker_modules import find_shadowed
from makemar.configs import RUNTIMES
from makemar.errors import Finding, Severity

__all__ = ["check_identity", "check_member_names", "settle_members"]

# torch-model-archiver's rule, without the trailing newline that its `$` lets through.
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
# Control characters, and the bytes of a file name that is not UTF-8.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_identity(spec: ArchiveSpec, handler: Handler | None) -> Iterator[Finding]:
    """Yield what is wrong with the model's name, version, runtime and handler name."""
    if not _MODEL_NAME.match(spec.model_name):
        yield _error(
            "model-name",
            f"model name {spec.model_name!r} cannot name a model",
            "use letters, digits, '_', '.' and '-' alone, and start with a letter or digit",
        )
    if not spec.version or spec.version == "all" or re.search(r"[/\s]", spec.version):
        yield _error(
            "version",
            f"version {spec.version!r} cannot be part of the management API's URLs",
            "write one like 1.0, without '/' and blanks; 'all' is taken",
        )
    if spec.runtime not in RUNTIMES:
        yield _error(
            "runtime",
            f"runtime {spec.runtime!r} is not one of TorchServe's",
            f"write one of {', '.join(RUNTIMES)}",
        )
    if spec.runtime == "python3":
        yield Finding(
            code="runtime-python3",
            severity=Severity.WARNING,
            message="runtime 'python3' runs whatever python3 the server finds on its PATH",
            fix="write 'python': the interpreter that TorchServe itself runs in",
        )
    if handler is not None and handler.file is not None and handler.python:
        yield from _check_handler_name(handler.file)


def _check_handler_name(file: Path) -> Iterator[Finding]:
    if file.suffix != ".py" or "." in file.stem:
        yield _error(
            "handler-name",
            f"handler file {file.name!r} cannot be imported: a dot in the name means a package",
            "rename it to NAME.py",
            file,
        )


def settle_members(members: Sequence[Member]) -> tuple[tuple[Member, ...], tuple[Finding, ...]]:
    """Sort the members, and find those that claim one place in the archive.

    The same file named twice for one place is one member. Of two that differ the first is kept
    beside an error finding; a file and a folder of one name clash as well.
    """
    settled: dict[str, Member] = {}
    findings = []
    for member in members:
        first = settled.setdefault(member.name, member)
        if not _same_contents(first, member):
            findings.append(_clash(first, member))
    for name, member in settled.items():
        for folder in PurePosixPath(name).parents:
            if (file := settled.get(str(folder))) is not None:
                findings.append(_clash(file, member))
    ordered = sorted(settled.values(), key=lambda m: member_order(m.name))
    return tuple(ordered), tuple(findings)


def _same_contents(one: Member, other: Member) -> bool:
    if isinstance(one.source, Path) and isinstance(other.source, Path):
        return one.source.samefile(other.source)
    return one.source == other.source


def _clash(first: Member, second: Member) -> Finding:
    return _error(
        "duplicate-member",
        f"{first.name!r} would be in the archive twice: {first.place}, from {first.origin}, and "
        f"{second.place}, from {second.origin}",
        "rename one, leave one out, or keep a folder's tree with include (--include)",
    )


def check_member_names(members: Sequence[Member], handler: Handler | None) -> Iterator[Finding]:
    """Yield what is wrong with where members lie: unsafe, reserved and shadowing names."""
    for member in members:
        reason = _find_fault(member.name)
        if reason:
            source = member.source if isinstance(member.source, Path) else None
            yield _error(
                "member-name",
                f"{member.name!r}, from {member.origin}, {reason}",
                "choose another name or leave it out",
                source,
            )
    by_name = {member.name: member for member in members}
    for name, module in find_shadowed(by_name).items():
        yield _error(
            "shadowed-module",
            f"{name!r}, from {by_name[name].origin}, would replace the module {module!r} that the "
            "worker itself imports",
            "rename it, or keep it in a folder with include (--include)",
        )
    if handler is not None and handler.file is None and f"{handler.entry}.py" in by_name:
        yield Finding(
            code="shadowed-handler",
            severity=Severity.WARNING,
            message=f"{handler.entry}.py in the archive beats TorchServe's handler of that name",
            fix=f"write handler = '{handler.entry}.py' if that is meant, else rename the file",
        )


def _find_fault(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or not {"", ".", ".."}.isdisjoint(parts):
        return "does not stay inside the archive"
    if parts[0] == META_FOLDER:
        return f"is in {META_FOLDER}, which makemar writes itself"
    if _UNSHOWN.search(name):
        return "has a character that cannot be shown"
    return ""


def _error(code: str, message: str, fix: str, path: Path | None = None) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, fix=fix, path=path)
