"""What an archive says of itself, read without unpacking it or running anything of it."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.container import (
    StoredMember,
    detect_format,
    read_small,
    translate_damage,
    walk_archive,
)
from makemar.archiver.content import Content
from makemar.archiver.fault import make_error
from makemar.archiver.manifest import Manifest, parse_manifest
from makemar.archiver.member import MANIFEST_NAME, RECORD_NAME
from makemar.archiver.model_config import read_config
from makemar.archiver.record import parse_record
from makemar.archiver.stored_names import check_name
from makemar.errors import Finding, IntegrityError, ManifestError

__all__ = ["Archive", "RecordState", "read_archive"]


class RecordState(enum.Enum):
    """How RECORD compares with the names and sizes in the archive; hashes are not looked at."""

    ABSENT = "absent"
    MATCHES = "matches"
    DIFFERS = "differs"


@dataclass(frozen=True, kw_only=True)
class Archive:
    """An archive as it was read; `config` is None if there is no usable one in it.

    `findings` is what is wrong at first sight: names that lead elsewhere, compressions that
    TorchServe cannot read. `verify_archive` looks at everything.
    """

    path: Path
    archive_format: ArchiveFormat
    manifest: Manifest
    members: tuple[StoredMember, ...]
    record: RecordState
    config: Mapping[str, object] | None
    findings: tuple[Finding, ...] = ()

    @property
    def size(self) -> int:
        """Return the bytes of all members, unpacked: what each registration copies."""
        return sum(member.size for member in self.members)

    def to_dict(self) -> dict[str, object]:
        """Return everything as texts, numbers, lists and dicts, fit for JSON."""
        return {
            "path": str(self.path),
            "format": self.archive_format.name.lower(),
            "manifest": asdict(self.manifest),
            "size": self.size,
            "members": [{"name": m.name, "size": m.size} for m in self.members],
            "record": self.record.value,
            "config": self.config,
            "findings": [str(finding) for finding in self.findings],
        }


def read_archive(path: Path) -> Archive:
    """Read a `.mar`, a `.tar.gz` or a model directory.

    Raises ArchiveError if TorchServe would not take it for what it is, ManifestError if the
    manifest is missing or wrong, IntegrityError if the archive is damaged.
    """
    archive_format = detect_format(path)
    members, texts = _read_members(path, {MANIFEST_NAME, RECORD_NAME})
    if MANIFEST_NAME not in texts:
        raise ManifestError(
            f"{path}: there is no {MANIFEST_NAME} in it; is it an archive for TorchServe?",
            path=path,
        )
    try:
        manifest = parse_manifest(texts[MANIFEST_NAME])
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}", path=path) from error
    config = None
    if name := manifest.config_file:
        config = read_config(_read_members(path, {name})[1].get(name, b""))
    return Archive(
        path=path,
        archive_format=archive_format,
        manifest=manifest,
        members=members,
        record=_compare_record(texts.get(RECORD_NAME), members),
        config=config,
        findings=tuple(_find_faults(members, path)),
    )


def _find_faults(members: tuple[StoredMember, ...], path: Path) -> Iterator[Finding]:
    for member in members:
        yield from check_name(Content(name=member.name), path)
        if member.compression:
            message = f"{member.name!r} is compressed with {member.compression}"
            yield make_error("compression", f"{message}, which TorchServe cannot read", path)


def _read_members(
    path: Path, wanted: set[str]
) -> tuple[tuple[StoredMember, ...], dict[str, bytes]]:
    """List the members, and read the wanted ones; of two duplicates TorchServe keeps the last."""
    members, texts = [], {}
    with translate_damage(path):
        for member, open_it in walk_archive(path):
            members.append(member)
            if member.name in wanted:
                texts[member.name] = read_small(member, open_it, path)
    return tuple(members), texts


def _compare_record(text: bytes | None, members: tuple[StoredMember, ...]) -> RecordState:
    if text is None:
        return RecordState.ABSENT
    try:
        recorded = {(line.name, line.size) for line in parse_record(text)}
    except IntegrityError:
        return RecordState.DIFFERS
    found = [(m.name, m.size) for m in members if m.name != RECORD_NAME]
    matches = set(found) == recorded and len(found) == len(recorded)
    return RecordState.MATCHES if matches else RecordState.DIFFERS
