"""Where the pickles of a weight file are: inside of a zip, after a header, or all through it."""

from __future__ import annotations

import ast
import enum
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO

from makemar.archiver.compressed_pickle import is_compressed, open_inflated
from makemar.archiver.pickle_machine import BadPickle, may_be_pickle

__all__ = ["FoundPickle", "PickleKind", "find_pickles"]

_ZIP, _NUMPY = b"PK\x03\x04", b"\x93NUMPY"
# torch.save before 1.6: three short pickles, the object, the keys of its storages, the storages.
_LEGACY = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
_LEGACY_PICKLES = 5
_MAX_ROW = 100_000
_NAMES = frozenset((".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pt2", ".pth", ".th"))
# Files of many formats; some are pickles.
_MAYBE = frozenset((".bin", ".dat", ".data", ".model", ".sav"))
_NESTED = 3
_BUFFER = 1 << 20
_MAX_INFLATED = 1 << 30
_MAX_HEADER = 1 << 20


class PickleKind(enum.Enum):
    """Who unpickles."""

    TORCH = "torch.load"
    TORCHSCRIPT = "torch.jit.load"
    NUMPY = "numpy.load(allow_pickle=True)"
    PLAIN = "pickle.load"


@dataclass(frozen=True, kw_only=True)
class FoundPickle:
    """A place where pickles begin, and how many may follow one another.

    `place` names the member of a zip, or is empty. `certain` is False where other data is as
    likely, `headed` where only the name speaks for a pickle. `stream` stands at the first pickle
    until the next place is asked for.
    """

    place: str
    stream: BinaryIO
    kind: PickleKind
    certain: bool = True
    headed: bool = True
    row: int = 1


def find_pickles(stream: BinaryIO, name: str, *, depth: int = 0) -> Iterator[FoundPickle]:
    """Yield the places in a seekable stream, which is read from its start.

    `name` is the file's: its suffixes tell a pickle that has no header. Raises BadPickle where a
    zip or a header cannot be read.
    """
    if depth > _NESTED:
        raise BadPickle("there is too much in one another")
    stream.seek(0)
    start = stream.read(len(_LEGACY))
    stream.seek(0)
    suffixes = {suffix.lower() for suffix in PurePosixPath(name).suffixes}
    if start.startswith(_ZIP):
        yield from _in_zip(stream, depth)
    elif start.startswith(_NUMPY):
        yield from _in_npy(stream)
    elif start == _LEGACY:
        yield FoundPickle(place="", stream=stream, kind=PickleKind.TORCH, row=_LEGACY_PICKLES)
    elif suffixes & _NAMES and is_compressed(start):
        with open_inflated(stream) as inflated:
            yield from find_pickles(inflated, PurePosixPath(name).stem + ".pkl", depth=depth + 1)
    elif suffixes & (_NAMES | _MAYBE) or may_be_pickle(start):
        yield FoundPickle(
            place="",
            stream=stream,
            kind=PickleKind.PLAIN,
            certain=bool(suffixes & _NAMES),
            headed=may_be_pickle(start),
            row=_MAX_ROW,
        )


def _in_zip(stream: BinaryIO, depth: int) -> Iterator[FoundPickle]:
    with _translate(), zipfile.ZipFile(stream) as archive:
        infos = archive.infolist()
        kind = _zip_kind([info.filename for info in infos])
        for info in infos:
            # torch looks its records up without regard to case.
            suffix = PurePosixPath(info.filename.lower()).suffix
            if suffix not in _NAMES and suffix not in (".npy", ".npz"):
                continue
            if info.compress_type != zipfile.ZIP_STORED and info.file_size > _MAX_INFLATED:
                raise BadPickle(f"{info.filename} inflates to {info.file_size:,} bytes")
            # By info, not by name: that would open the last of two duplicates.
            with archive.open(info) as opened:
                member = io.BufferedReader(opened, _BUFFER)  # type: ignore[type-var]
                yield from _in_member(member, info.filename, suffix, kind, depth)


def _in_member(
    member: BinaryIO, name: str, suffix: str, kind: PickleKind, depth: int
) -> Iterator[FoundPickle]:
    if suffix in (".pkl", ".pickle"):
        yield FoundPickle(place=name, stream=member, kind=kind)
        return
    for found in find_pickles(member, name, depth=depth + 1):
        place = f"{name}: {found.place}" if found.place else name
        yield replace(found, place=place)


def _zip_kind(names: list[str]) -> PickleKind:
    """Tell what wrote a zip by its records, which lie in one folder."""
    records = {name.lower().partition("/")[2] for name in names}
    if "constants.pkl" in records:
        return PickleKind.TORCHSCRIPT
    return PickleKind.TORCH if "data.pkl" in records else PickleKind.PLAIN


def _in_npy(stream: BinaryIO) -> Iterator[FoundPickle]:
    """Yield the pickle of a NumPy array of Python objects; other arrays have none."""
    version = stream.read(8)[6:7]
    size = int.from_bytes(stream.read(2 if version == b"\x01" else 4), "little")
    if size > _MAX_HEADER:
        raise BadPickle("its NumPy header is too long")
    try:
        header = ast.literal_eval(stream.read(size).decode("utf-8"))
        has_objects = _has_objects(header["descr"])
    except (ValueError, SyntaxError, LookupError, TypeError, MemoryError, RecursionError) as error:
        raise BadPickle("its NumPy header cannot be read") from error
    if has_objects:
        yield FoundPickle(place="", stream=stream, kind=PickleKind.NUMPY)


def _has_objects(description: object) -> bool:
    """Tell whether an array's type, or a field's, is `O` or `object`; its name does no harm."""
    if isinstance(description, str):
        return "O" in description or "object" in description
    if isinstance(description, tuple):
        return _has_objects(description[0])
    if isinstance(description, list):
        return any(map(_has_objects, (field[1] for field in description)))
    return True


@contextmanager
def _translate() -> Iterator[None]:
    """Turn what zipfile raises over wild bytes into BadPickle."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        EOFError,
        OSError,
        LookupError,
        OverflowError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise BadPickle(f"the zip is damaged ({error})") from error
