"""The archives that a server is to serve: what they are, and their links in its model store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from makemar.archiver import read_archive
from makemar.errors import ServingError

__all__ = ["ArchiveLink", "add_link", "link_archives", "plan_links"]

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
    """Link the archives into a store in which no server runs; older links of these names go.

    Raises ServingError if a name is taken by something that is no link.
    """
    for item in links:
        place = store / item.name
        if place.is_symlink():
            place.unlink()
        if not _link(item.source, place):
            raise ServingError(f"{place} is in the way of a link to {item.source}; move it away")


def add_link(source: Path, store: Path) -> str:
    """Link an archive into a running server's store and return its name there.

    A name that is there already is used for the same archive alone: TorchServe 0.12 links model
    directories instead of copying them, and a worker that starts again would load another's code.
    Raises ArchiveError for an archive that TorchServe cannot load.
    """
    (planned,) = plan_links([source], store=None)
    for name in _names(planned.source):
        place = store / name
        if _link(planned.source, place):
            return name
        if place.is_symlink() and place.readlink() == planned.source:
            return name
    raise AssertionError("there is always another name")


def _link(source: Path, place: Path) -> bool:
    """Make a link, unless something is there; return whether it was made."""
    try:
        place.symlink_to(source)
    except FileExistsError:
        return False
    except OSError as error:
        raise ServingError(f"cannot link {source} to {place}: {error.strerror}") from error
    return True


def _free_name(source: Path, links: Sequence[ArchiveLink]) -> str:
    """Choose a name that no other archive has."""
    taken = {link.name for link in links}
    return next(name for name in _names(source) if name not in taken)


def _names(source: Path) -> Iterator[str]:
    """Think of names for an archive, best first; TorchServe 0.12 refuses `..` anywhere in them."""
    plain = source.name.replace("..", "__")
    yield plain
    stem, dot, suffix = plain.partition(".")
    for number in count(2):
        yield f"{stem}-{number}{dot}{suffix}"


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
