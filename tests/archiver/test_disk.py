"""What the disk refuses: one clear line, and nothing is left of the archive."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat

PACK = """
import os, resource, sys
from pathlib import Path
from makemar.archiver import *
from makemar.errors import MakeMarError
{before}
base, target, kind, force = Path({base!r}), Path({target!r}), ArchiveFormat({kind!r}), {force}
spec = ArchiveSpec(model_name="pong", version="1.0", handler="handler.py",
                   serialized_file=Path("weights.pth"), base=base)
try:
    write_archive(plan_archive(spec), target, archive_format=kind, force=force)
except MakeMarError as error:
    print(f"{{type(error).__name__}}: {{error}}")
print(sorted(os.listdir(target.parent)))
"""
KINDS = pytest.mark.parametrize("kind", list(ArchiveFormat))


@pytest.fixture
def weights(project) -> Path:
    """A project with 16 MiB that do not shrink; returns its folder."""
    noise = b"".join(i.to_bytes(4, "big") for i in range(0, 1 << 32, 1021))
    base: Path = project({"weights.pth": noise[: 16 << 20]}).base
    return base


def pack(
    base: Path,
    folder: Path,
    kind: ArchiveFormat,
    *,
    command: Sequence[str] = (),
    before: str = "",
    force: bool = False,
) -> list[str]:
    """Pack in another process and return its lines: the error, and what the folder holds then."""
    target = folder / f"pong{kind.suffix}"
    code = PACK.format(
        base=str(base), target=str(target), kind=kind.value, before=before, force=force
    )
    done = subprocess.run(
        [*command, sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def in_a_mount(folder: Path, options: str) -> list[str]:
    """Return a command that runs another one with a file system of its own at `folder`."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare to mount a small file system with")
    script = f'mount -t tmpfs -o {options} none "$0" && exec "$@"'
    command = [unshare, "-rm", "sh", "-c", script, str(folder)]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a file system in a namespace")
    return command


@KINDS
def test_a_full_disk_is_one_clear_line(weights, store, kind):
    command = in_a_mount(store, "size=4m")
    error, left = pack(weights, store, kind, command=command)
    name = f"pong{kind.suffix}"
    assert error == (
        f"ArchiveError: {store / name}: cannot be written: No space left on device; free some space"
    )
    assert left == "[]"


@KINDS
def test_a_disk_that_cannot_be_written_to_is_one_clear_line(weights, store, kind):
    command = in_a_mount(store, "ro,size=64m")
    error, left = pack(weights, store, kind, command=command)
    name = f"pong{kind.suffix}"
    assert error == (
        f"ArchiveError: {store / name}: cannot be written: Read-only file system; "
        "choose another folder"
    )
    assert left == "[]"


@KINDS
@pytest.mark.parametrize("force", [False, True])
def test_a_limit_on_the_size_of_files_is_one_clear_line(weights, store, kind, force):
    name = f"pong{kind.suffix}"
    if force:
        assert pack(weights, store, kind) == [f"['{name}']"]
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    error, left = pack(weights, store, kind, before=limit, force=force)
    assert error == (
        f"ArchiveError: {store / name}: cannot be written: File too large; choose another folder"
    )
    assert left == (f"['{name}']" if force else "[]")
