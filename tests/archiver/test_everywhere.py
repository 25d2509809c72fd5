"""The same bytes on another Python, in another place, under other settings of the system."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import makemar

FILES = {
    "handler.py": "import lib.words\n\n\ndef handle(data, context):\n    return data\n",
    "lib/__init__.py": "",
    "lib/words.py": "WORDS = ('größe', 'ß')\n",
    "weights.pth": bytes(range(256)) * 9000,
    "labels.json": '["cat"]',
    "static/ü/größe.txt": "12",
    "static/empty.txt": "",
    "static/B.txt": "b",
    "static/a.txt": "a",
    "model-config.yaml": "minWorkers: 1\nmaxWorkers: 1\n",
}
# zip's long headers are Python's own doing too; the limit is lowered rather than 4 GiB written.
PACK = """
import os, sys, zipfile
from pathlib import Path
from makemar.archiver import *
base, out, mask = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3], 8)
os.umask(mask)
spec = ArchiveSpec(model_name="pong", version="1.0", handler="handler.py", base=base,
    serialized_file=Path("weights.pth"), extra_files=("labels.json",),
    include=(Include(source=Path("static")),), config_file=Path("model-config.yaml"),
    description="Gr\\u00f6\\u00dfe")
plan = plan_archive(spec)
assert not plan.errors, plan.findings
for kind in ArchiveFormat:
    write_archive(plan, out / f"pong{kind.suffix}", archive_format=kind)
write_archive(plan, out / "deflated.mar", compress=True)
zipfile.ZIP64_LIMIT = 1_000_000
write_archive(plan, out / "long.mar")
"""


def write_project(folder: Path, *, backwards: bool, mode: int, time: int) -> Path:
    items = list(FILES.items())
    for name, contents in items[::-1] if backwards else items:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        path.chmod(mode)
        os.utime(path, (time, time))
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: makemar as it is tested here, and what it needs in plain Python."""
    folder = tmp_path_factory.mktemp("packages")
    top = folder / "makemar"
    top.mkdir()
    for path in Path(makemar.__file__).parent.iterdir():
        (top / path.name).symlink_to(path)
    for name in ("archiver", "configs", "handlers"):
        found = importlib.util.find_spec(f"makemar.{name}")
        assert found is not None
        assert found.origin is not None
        if not (top / name).exists():
            (top / name).symlink_to(Path(found.origin).parent)
    # tomllib is the tomli of an older Python, under another name.
    toml = "tomli" if sys.version_info < (3, 11) else "tomllib"
    for name, source in (("yaml", "yaml"), ("tomli", toml)):
        module = importlib.import_module(source)
        shutil.copytree(Path(str(module.__file__)).parent, folder / name)
    return folder


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder whose file system lists names in another order, if there is one."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "other"
        return
    folder = memory / f"makemar-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def pack(
    python: str, packages: Path, base: Path, out: Path, mask: int = 0o022, **environment: str
) -> dict[str, str]:
    """Pack in every format with that Python; return the digest of each file that it wrote."""
    out.mkdir(parents=True)
    # Nothing of this process's own settings goes along.
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(packages)}
    done = subprocess.run(
        [python, "-B", "-c", PACK, str(base), str(out), oct(mask)],
        env={**clean, **environment},
        cwd=out,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*")
        if path.is_file()
    }


def find_python(version: str) -> str:
    """Return an interpreter of that version that runs; skip where there is none."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [
        shutil.which(f"python{version}"),
        *sorted(versions.glob(f"{version}.*/bin/python")),
    ]
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        # A version manager's stand-in may be there for a Python that is not.
        done = subprocess.run([candidate, "-c", code], check=False, capture_output=True, text=True)
        if (done.returncode, done.stdout.strip()) == (0, version):
            return str(candidate)
    return pytest.skip(f"there is no Python {version} on this machine")


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_another_python_writes_the_same_bytes(tmp_path, packages, version):
    other = find_python(version)
    base = write_project(tmp_path / "project", backwards=False, mode=0o644, time=10**9)
    ours = pack(sys.executable, packages, base, tmp_path / "ours")
    theirs = pack(other, packages, base, tmp_path / "theirs")
    assert len(ours) > len(FILES)
    for compressed in ("pong.tar.gz", "deflated.mar"):
        # These bytes are zlib's, whose version may be another one.
        del ours[compressed], theirs[compressed]
    assert theirs == ours
    assert {"pong.mar", "long.mar", "pong/MAR-INF/RECORD"} <= ours.keys()


def test_umask_locale_time_zone_folder_and_order_of_files_change_no_byte(
    tmp_path, packages, other_disk
):
    first = write_project(tmp_path / "project", backwards=False, mode=0o600, time=0)
    second = write_project(other_disk / "deep" / "er", backwards=True, mode=0o755, time=10**9)
    here = pack(
        sys.executable,
        packages,
        first,
        tmp_path / "here",
        0o077,
        TZ="Asia/Tokyo",
        LC_ALL="C",
        PYTHONHASHSEED="1",
        HOME=str(tmp_path),
    )
    there = pack(
        sys.executable,
        packages,
        second,
        other_disk / "there",
        0o002,
        TZ="America/New_York",
        LC_ALL="C.UTF-8",
        LANGUAGE="tr",
        PYTHONHASHSEED="2",
    )
    assert here == there
    modes = [
        stat.S_IMODE((folder / "pong.mar").stat().st_mode)
        for folder in (tmp_path / "here", other_disk / "there")
    ]
    assert modes == [0o600, 0o664], "the umask counts for the file, and for nothing inside"
