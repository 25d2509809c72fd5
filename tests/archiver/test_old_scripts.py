"""A script that called torch-model-archiver changes one word: both commands, side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("model_archiver", reason="torch-model-archiver is not installed")

OLD, NEW = "model_archiver.model_packaging", "makemar.cli"
FILES = {
    "handler.py": "def handle(data, context): ...\n",
    "src/my-handler.py": "class Service(Base): ...\n",
    "src/net.py": "class Net: ...\n",
    "weights.pth": bytes(range(256)) * 100,
    "labels.json": "{}",
    "a1.txt": "1",
    "a2.txt": "2",
    "data/b.txt": "b",
    "data/deep/er/c.txt": "c",
    "data/__pycache__/b.pyc": "",
    "requirements.txt": "numpy\n",
    "conf/model-config.yaml": "minWorkers: 1\nmaxWorkers: 1\n",
}
SCRIPTS = {
    "least": "--handler handler.py",
    "without the ending": "--handler src/my-handler",
    "with a function": "--handler handler:handle",
    "built-in": "--handler image_classifier --model-file src/net.py --serialized-file weights.pth",
    "everything": "--handler src/my-handler.py --model-file src/net.py --runtime python3"
    " --serialized-file weights.pth --extra-files labels.json,data -r requirements.txt"
    " -c conf/model-config.yaml",
    "globs": "--handler handler.py --extra-files a*.txt,./labels.json,data/*",
    "the handler again": "--handler handler.py --extra-files handler.py,labels.json",
    "a warning": "--handler handler.py --extra-files labels.json,nothing*.txt",
    "stored": "--handler handler.py --serialized-file weights.pth --archive-format zip-store",
    "tgz": "--handler handler.py --extra-files data --archive-format tgz",
    "no archive": "--handler handler.py --extra-files data --archive-format no-archive",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    for name, contents in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return folder


def run(module: str, script: str, place: Path, out: Path) -> subprocess.CompletedProcess[str]:
    out.mkdir(exist_ok=True)
    words = ["--model-name", "old", "--version", "1.0", "--export-path", str(out), *script.split()]
    # The old tool deletes $TMPDIR/<model name> before it starts.
    environment = {**os.environ, "TMPDIR": str(place.parent)}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def contents(out: Path) -> dict[str, bytes]:
    """Name and contents of each file in the one archive of a folder."""
    (path,) = out.iterdir()
    if path.is_dir():
        return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*.*")}
    if path.suffix == ".mar":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {
            info.name.partition("/")[2]: archive.extractfile(info).read()
            for info in archive
            if info.isfile()
        }


def manifest(found: dict[str, bytes]) -> dict[str, object]:
    read = json.loads(found.pop("MAR-INF/MANIFEST.json"))
    del read["createdOn"], read["archiverVersion"]
    return read


@pytest.mark.parametrize("name", SCRIPTS)
def test_both_programs_pack_the_same_files_and_say_the_same(place, tmp_path, name):
    old_out, new_out = tmp_path / "old", tmp_path / "new"
    for module, out in ((OLD, old_out), (NEW, new_out)):
        done = run(module, SCRIPTS[name], place, out)
        assert done.returncode == 0, done.stderr
    assert [p.name for p in old_out.iterdir()] == [p.name for p in new_out.iterdir()]
    old, new = contents(old_out), contents(new_out)
    assert manifest(new) == manifest(old)
    # The one thing that is left out on purpose.
    old.pop("b.pyc", None)
    assert {n: c for n, c in new.items() if not n.startswith(("makemar/", "MAR-INF/"))} == old


@pytest.mark.parametrize(
    "script",
    [
        "--handler nothing.py",
        "--handler handler.py --extra-files nothing.txt",
        "--handler handler.py --serialized-file nothing.pth",
        "--handler image_clasifier",
    ],
)
def test_what_the_old_program_refused_is_refused_without_a_traceback(place, tmp_path, script):
    old = run(OLD, script, place, tmp_path / "old")
    new = run(NEW, script, place, tmp_path / "new")
    assert (old.returncode, new.returncode) == (1, 1)
    assert "Traceback" in old.stderr
    assert "Traceback" not in new.stderr
    assert "error[missing-file]" in new.stderr
    assert list((tmp_path / "new").iterdir()) == []


def test_an_archive_that_exists_is_kept_by_both_and_replaced_by_both_with_force(place, tmp_path):
    for module, out in ((OLD, tmp_path / "old"), (NEW, tmp_path / "new")):
        assert run(module, "--handler handler.py", place, out).returncode == 0
        assert run(module, "--handler handler.py", place, out).returncode == 1
        assert run(module, "--handler handler.py --force", place, out).returncode == 0


def test_what_the_old_program_got_wrong_in_silence_is_an_error(place, tmp_path):
    (place / "other").mkdir(exist_ok=True)
    (place / "other" / "handler.py").write_text("evil = 1\n")
    script = "--handler handler.py --extra-files other/handler.py"
    assert run(OLD, script, place, tmp_path / "old").returncode == 0
    assert contents(tmp_path / "old")["handler.py"] == b"evil = 1\n"
    new = run(NEW, script, place, tmp_path / "new")
    assert new.returncode == 1
    assert "error[duplicate-member]" in new.stderr
