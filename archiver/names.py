"""The rules for the names of members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from makemar.archiver.handler import Handler
from makemar.archiver.identity import is_writable
from makemar.archiver.member import META_FOLDER, Member
from makemar.archiver.worker_modules import find_shadowed
from makemar.errors import Finding, Severity

__all__ = ["check_member_names", "settle_members"]


def settle_members(members: Sequence[Member]) -> tuple[tuple[Member, ...], tuple[Finding, ...]]:
    """Choose one member for each place in the archive, and find those that claim another's.

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
    return tuple(settled.values()), tuple(findings)


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
    yield from _check_ascii(members)
    by_name = {member.name: member for member in members}
    for name, module in find_shadowed(by_name).items():
        yield _error(
            "shadowed-module",
            f"{name!r}, from {by_name[name].origin}, would replace the module {module!r} that the "
            "worker itself imports",
            "rename it, or keep it in a folder with include (--include)",
        )
    if handler is not None and handler.built_in and f"{handler.entry}.py" in by_name:
        yield Finding(
            code="shadowed-handler",
            severity=Severity.WARNING,
            message=f"{handler.entry}.py in the archive beats TorchServe's handler of that name",
            fix=f"write handler = '{handler.entry}.py' if that is meant, else rename the file",
        )


def _check_ascii(members: Sequence[Member]) -> Iterator[Finding]:
    # TorchServe 0.12: Java writes only ASCII names where the locale is C, as in bare images.
    foreign = [m for m in members if not m.name.isascii() and is_writable(m.name)]
    if foreign:
        source = foreign[0].source
        more = f" and {len(foreign) - 1} more names are" if len(foreign) > 1 else " is"
        yield Finding(
            code="non-ascii-name",
            severity=Severity.WARNING,
            message=f"{foreign[0].name!r}{more} not ASCII; a server in the C locale cannot unpack "
            "the archive",
            fix="rename it, or start the server with LC_ALL=C.UTF-8",
            path=source if isinstance(source, Path) else None,
        )


def _find_fault(name: str) -> str:
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or not {"", ".", ".."}.isdisjoint(parts):
        return "does not stay inside the archive"
    if parts[0] == META_FOLDER:
        return f"is in {META_FOLDER}, which makemar writes itself"
    if not is_writable(name):
        return "has a character that cannot be shown"
    return ""


def _error(code: str, message: str, fix: str, path: Path | None = None) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, fix=fix, path=path)
