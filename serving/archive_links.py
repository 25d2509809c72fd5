"""The archives that a server is to serve: what they are, and their links in its model store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from makemar.archiver import read_archive
from makemar.errors import ServingError

__all__ = ["ArchiveLink", "link_archives", "plan_links"]

_DEFAULT_VERSION = "1.0"  # TorchServe 0.12: for an archive that names none


@dataclass(frozen=True, kw_only=True)
class ArchiveLink:
    """An archive, the model and version in it, and its name in the model store.

    `link` is None for an archive that lies in the model store itself.
    """

    source: Path
    model: str
    version: str
    name: str
    link: Path | None


def plan_links(
    archives: Iterable[Path | str], store: Path, *, own: bool
) -> tuple[ArchiveLink, ...]:
    """Read the archives and choose their names in the store.

    `own` says that the store was made for this server; links are never put into another one.
    Raises ArchiveError for an archive that TorchServe cannot load, and ServingError for two of one
    model and version, or one outside of a given store.
    """
    links: list[ArchiveLink] = []
    for archive in archives:
        source = Path(archive).absolute()
        manifest = read_archive(source).manifest
        link = ArchiveLink(
            source=source,
            model=manifest.model_name,
            version=manifest.model_version or _DEFAULT_VERSION,
            name=_free_name(source, links) if own else source.name,
            link=None,
        )
        twin = next((one for one in links if _same(one, link)), None)
        if twin is not None:
            raise ServingError(
                f"{twin.source} and {source} are both model {link.model!r} version "
                f"{link.version}; pack one with another version"
            )
        links.append(link)
    return tuple(_placed(link, store, own=own) for link in links)


def link_archives(links: Iterable[ArchiveLink]) -> None:
    """Make the links, in place of older ones of the same name."""
    for item in links:
        if item.link is None:
            continue
        if item.link.is_symlink():
            item.link.unlink()
        item.link.symlink_to(item.source)


def _same(one: ArchiveLink, other: ArchiveLink) -> bool:
    return (one.model, one.version) == (other.model, other.version)


def _free_name(source: Path, links: list[ArchiveLink]) -> str:
    """Choose a name that no other archive has; TorchServe 0.12 refuses `..` anywhere in it."""
    taken = {link.name for link in links}
    plain = source.name.replace("..", "__")
    stem, dot, suffix = plain.partition(".")
    names = [plain, *(f"{stem}-{number}{dot}{suffix}" for number in range(2, len(links) + 3))]
    return next(name for name in names if name not in taken)


def _placed(link: ArchiveLink, store: Path, *, own: bool) -> ArchiveLink:
    if own:
        return replace(link, link=store / link.name)
    if link.source.parent.resolve() != store.resolve():
        raise ServingError(
            f"{link.source} is not in the model store {store}; copy it there, or leave model_store "
            "out of the configuration"
        )
    return link
