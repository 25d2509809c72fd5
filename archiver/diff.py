"""What differs between two archives: members, manifest, configuration, and weights by tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from makemar.archiver.content import Content
from makemar.archiver.contents import read_contents
from makemar.archiver.directory_contents import find_top
from makemar.archiver.draft import translate_errors
from makemar.archiver.flat import flatten
from makemar.archiver.member import MANIFEST_NAME, RECORD_NAME
from makemar.archiver.model_config import read_config
from makemar.archiver.record import RecordLine
from makemar.archiver.stored_manifest import StoredManifest, read_manifest
from makemar.archiver.stored_names import settle_name
from makemar.archiver.survey import Survey, survey_archive
from makemar.archiver.tensors import TensorChange, compare_tensors, holds_tensors
from makemar.errors import IntegrityError

__all__ = ["ArchiveDiff", "KeyChange", "MemberChange", "WeightsDiff", "diff_archives"]


@dataclass(frozen=True, kw_only=True)
class MemberChange:
    """A member that is in one archive only (the other side is None), or differs.

    Sizes are in bytes, digests SHA-256 as RECORD writes them.
    """

    name: str
    before: RecordLine | None
    after: RecordLine | None


@dataclass(frozen=True, kw_only=True)
class KeyChange:
    """A dotted key of the manifest or configuration; values as JSON, None where it is not there."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class WeightsDiff:
    """A changed member of weights: its tensors that differ, or the reason why that is not known."""

    name: str
    tensors: tuple[TensorChange, ...]
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ArchiveDiff:
    """What differs from `before` to `after`; the order of members and their times never count."""

    before: Path
    after: Path
    members: tuple[MemberChange, ...]
    manifest: tuple[KeyChange, ...]
    config: tuple[KeyChange, ...]
    weights: tuple[WeightsDiff, ...]

    @property
    def differs(self) -> bool:
        """Tell whether anything does."""
        return bool(self.members or self.manifest or self.config)

    def to_dict(self) -> dict[str, object]:
        """Return everything as texts, numbers, lists and dicts, fit for JSON."""
        data = asdict(self) | {"before": str(self.before), "after": str(self.after)}
        for found in data["weights"]:
            for tensor in found["tensors"]:
                if not math.isfinite(tensor["largest"] or 0.0):
                    tensor["largest"] = str(tensor["largest"])
        return data


def diff_archives(before: Path, after: Path) -> ArchiveDiff:
    """Compare two archives of any formats; nothing of them is run.

    RECORD is left out: it differs wherever a member does. Weights that differ are compared by
    tensor if torch is installed; that needs their size on the temporary disk. Raises ArchiveError
    if one cannot be read, IntegrityError if it is damaged.
    """
    old, new = _survey(before), _survey(after)
    members = tuple(_compare_members(old.lines, new.lines))
    manifests = _read_manifest(old), _read_manifest(new)
    return ArchiveDiff(
        before=before,
        after=after,
        members=members,
        manifest=tuple(_compare_keys(*(dict(flatten(each.top)) for each in manifests))),
        config=tuple(_compare_keys(*map(_read_settings, manifests, (old, new)))),
        weights=tuple(_compare_weights(members, before, after)),
    )


def _survey(path: Path) -> Survey:
    survey = survey_archive(path)
    if not survey.whole:
        finding = survey.findings[-1]
        raise IntegrityError(
            f"{path}: {finding.message}; {finding.fix}", path=path, findings=(finding,)
        )
    return survey


def _compare_members(
    old: Mapping[str, RecordLine], new: Mapping[str, RecordLine]
) -> Iterator[MemberChange]:
    for name in sorted(old.keys() | new.keys()):
        # The manifest is compared by its keys, RECORD follows from the rest.
        if name not in (MANIFEST_NAME, RECORD_NAME) and old.get(name) != new.get(name):
            yield MemberChange(name=name, before=old.get(name), after=new.get(name))


def _compare_keys(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[KeyChange]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield KeyChange(key=key, before=old.get(key), after=new.get(key))


def _read_manifest(survey: Survey) -> StoredManifest:
    text = survey.texts.get(MANIFEST_NAME)
    if text is None:
        return StoredManifest()
    manifest, findings = read_manifest(text, survey.path)
    if manifest is None:
        raise IntegrityError(
            f"{survey.path}: {findings[-1].message}; `make-mar verify` tells all",
            path=survey.path,
            findings=findings,
        )
    return manifest


def _read_settings(manifest: StoredManifest, survey: Survey) -> dict[str, str]:
    text = survey.texts.get(settle_name(manifest.text("configFile")))
    return {} if text is None else dict(flatten(read_config(text) or {}))


def _compare_weights(
    members: Iterable[MemberChange], before: Path, after: Path
) -> Iterator[WeightsDiff]:
    names = [m.name for m in members if m.before and m.after and holds_tensors(m.name)]
    if not names:
        return
    with ExitStack() as stack:
        old, new = (stack.enter_context(TemporaryDirectory(prefix="makemar-")) for _ in "ab")
        files = [_extract(path, Path(to), names) for path, to in ((before, old), (after, new))]
        for name in names:
            tensors, reason = compare_tensors(files[0][name], files[1][name], name)
            yield WeightsDiff(name=name, tensors=tensors, reason=reason)


def _extract(path: Path, folder: Path, names: list[str]) -> dict[str, Path]:
    """Return files that can be mapped: a directory's own, or copies, of two duplicates the last."""
    if path.is_dir():
        return {name: find_top(path) / name for name in names}
    places = {name: folder / str(number) for number, name in enumerate(names)}
    for found in read_contents(path):
        if isinstance(found, Content) and (place := places.get(settle_name(found.name))):
            with translate_errors(place), place.open("wb") as sink:
                sink.writelines(found.chunks)
    return places
