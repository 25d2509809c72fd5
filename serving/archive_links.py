"""The archives that a server is to serve: what they are, and their links in its model store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from makemar.archiver import read_archive
from makemar.errors import ServingError

__all__ = ["ArchiveLink", "link_archives", "plan_links"]

_DEFAULT_VERSION = "1.0"  # TorchServe 0.12: for an archive that names none


@dataclass(frozen=True, kw_only=True)
class ArchiveLink:
    """An archive, the model and version in it, and the name that a model store has it under."""

    source: Path
    model: str
    version: str
    name: str


def plan_links(archives: Iterable[Path | str], *, store: Path | None) -> tuple[ArchiveLink, ...]:
    """Read the archives and choose their names in the model store.

    `store` is a store that the user keeps: the archives must be in it, for nothing is put there.
    Without one the server gets a store of links. Raises ArchiveError for an archive that
    TorchServe cannot load, and ServingError for two of one model and version, or one outside
    of the store.
    """
    links: list[ArchiveLink] = []
    for archive in archives:
        source = Path(archive).absolute()
        manifest = read_archive(source).manifest
        link = ArchiveLink(
            source=source,
            model=manifest.model_name,
            version=manifest.model_version or _DEFAULT_VERSION,
            name=_free_name(source, links) if store is None else source.name,
        )
        _check(link, links, store)
        links.append(link)
    return tuple(links)


def link_archives(links: Iterable[ArchiveLink], store: Path) -> None:
    """Link the archives into a store, in place of older links of the same names."""
    for item in links:
        place = store / item.name
        if place.is_symlink():
            place.unlink()
        place.symlink_to(item.source)


def _free_name(source: Path, links: Sequence[ArchiveLink]) -> str:
    """Choose a name that no other archive has; TorchServe 0.12 refuses `..` anywhere in it."""
    taken = {link.name for link in links}
    plain = source.name.replace("..", "__")
    stem, dot, suffix = plain.partition(".")
    names = [plain, *(f"{stem}-{number}{dot}{suffix}" for number in range(2, len(links) + 3))]
    return next(name for name in names if name not in taken)


def _check(link: ArchiveLink, others: Sequence[ArchiveLink], store: Path | None) -> None:
    for other in others:
        if (link.model, link.version) == (other.model, other.version):
            raise ServingError(
                f"{other.source} and {link.source} are both model {link.model!r} version "
                f"{link.version}; pack one with another version"
            )
    if store is not None and link.source.parent.resolve() != store.resolve():
        raise ServingError(
            f"{link.source} is not in the model store {store}; copy it there, or leave model_store "
            "out of the configuration"
        )
