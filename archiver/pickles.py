"""What loading a weight file would import, told without loading it."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

from makemar.archiver.pickle_machine import BadPickle, PickleImport
from makemar.archiver.pickle_names import is_accepted, is_dangerous, is_name, is_torchscript
from makemar.archiver.pickle_scan import PickleScan, scan_row
from makemar.archiver.pickle_walk import Budget
from makemar.archiver.weight_file import FoundPickle, PickleKind, find_pickles
from makemar.errors import Finding, Severity

__all__ = ["scan_weights"]

_SHOWN = 5
# Of its opcodes, torch.load(weights_only=True) knows those of torch.save's default.
_TORCH_PROTOCOL = 2
_LFS_POINTER = b"version https://git-lfs"
_SAVE = "save a state dict with torch.save, or a .safetensors file"


def scan_weights(
    source: Path | BinaryIO, *, name: str = "", path: Path | None = None
) -> tuple[Finding, ...]:
    """Return what is wrong with the pickles of a weight file, or of any file; none is unpickled.

    Knows files of torch.save, new and old, TorchScript, pickles, joblib's, `.npy` and `.npz`; of a
    zip no more is read than the pickles in it. `source` is a file, or a seekable stream of which
    `name` is the name; `path` is where the findings shall say that it is.

    `unsafe-pickle` is an error: loading runs code. `pickle-import` is a warning: loading imports
    what torch.load(weights_only=True), the default since torch 2.6, refuses; `pickle-protocol`
    says that it refuses the form. `damaged-pickle`: it cannot be followed to its end (a warning
    if only the name speaks for a pickle). `lfs-pointer`: the weights were not fetched.

    Raises OSError if the file cannot be read.
    """
    if isinstance(source, Path):
        path, name = path or source, name or source.name
    with source.open("rb") if isinstance(source, Path) else nullcontext(source) as stream:
        return tuple(dict.fromkeys(_check(stream, name, path)))


def _check(stream: BinaryIO, name: str, path: Path | None) -> Iterator[Finding]:
    budget = Budget()
    try:
        if stream.read(len(_LFS_POINTER)) == _LFS_POINTER:
            yield _not_there(name, path)
            return
        for found in find_pickles(stream, name):
            scan = scan_row(found, budget)
            if found.certain or _speaks_for_itself(scan, found):
                place = f"{name}: {found.place}" if found.place else name
                yield from _judge(scan, found, place, path)
    except BadPickle as error:
        yield _damaged(name, str(error), path, Severity.ERROR)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        # A member's checksum is known to be wrong only once it has been read.
        yield _damaged(name, f"the zip is damaged ({error})", path, Severity.ERROR)


def _speaks_for_itself(scan: PickleScan, found: FoundPickle) -> bool:
    """Tell a pickle from other data, in which an opcode for an import may come up by chance."""
    if found.headed or not scan.imports:
        return bool(scan.imports)
    sense = not scan.problem or any(map(is_dangerous, scan.imports))
    return sense and all(map(is_name, scan.imports))


def _judge(
    scan: PickleScan, found: FoundPickle, place: str, path: Path | None
) -> Iterator[Finding]:
    """Yield the findings of one place of a file."""
    wrong = [name for name in scan.imports if not is_accepted(name)]
    if found.kind is PickleKind.TORCHSCRIPT:
        wrong = [name for name in wrong if not is_torchscript(name)]
    dangerous = [name for name in wrong if is_dangerous(name)]
    others = [name for name in wrong if not is_dangerous(name)]
    if dangerous:
        yield Finding(
            code="unsafe-pickle",
            severity=Severity.ERROR,
            message=f"{place} runs code when it is loaded: it imports {_list(dangerous)}",
            fix=f"do not load it; {_SAVE}",
            path=path,
        )
    if others:
        yield Finding(
            code="pickle-import",
            severity=Severity.WARNING,
            message=f"{place} needs unpickling of {_list(others)}, {_refusal(found.kind)}",
            fix=_SAVE,
            path=path,
        )
    if found.kind is PickleKind.TORCH and scan.protocol > _TORCH_PROTOCOL and not wrong:
        yield Finding(
            code="pickle-protocol",
            severity=Severity.WARNING,
            message=f"{place} has pickle protocol {scan.protocol}, {_refusal(found.kind)}",
            fix="save it without pickle_protocol, which then is 2",
            path=path,
        )
    if scan.problem:
        # Without a header or an import it may as well be a format of the handler's own.
        sure = found.headed or bool(scan.imports)
        severity = Severity.ERROR if sure else Severity.WARNING
        yield _damaged(place, scan.problem, path, severity)


def _refusal(kind: PickleKind) -> str:
    if kind is PickleKind.NUMPY:
        return "which numpy refuses without allow_pickle=True"
    return "which torch 2.6 and newer refuse by default"


def _list(found: Sequence[PickleImport]) -> str:
    """Name a few; what only unpickling would tell is said so."""
    names = ["a name that it makes up meanwhile" if f.module == "?" else str(f) for f in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _damaged(place: str, problem: str, path: Path | None, severity: Severity) -> Finding:
    return Finding(
        code="damaged-pickle",
        severity=severity,
        message=f"{place} cannot be followed to its end as a pickle: {problem}",
        fix="save it again",
        path=path,
    )


def _not_there(name: str, path: Path | None) -> Finding:
    return Finding(
        code="lfs-pointer",
        severity=Severity.ERROR,
        message=f"{name} only says where Git LFS has the file",
        fix="run git lfs pull",
        path=path,
    )
