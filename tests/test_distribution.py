"""What is shipped: a wheel and a source distribution with every file that the code needs."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "makemar": "src/makemar",
    "makemar/handlers": "handlers",
    "makemar/configs": "configs",
    "makemar/archiver": "archiver",
    "makemar/serving": "serving",
    "makemar/planning": "planning",
}


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both from a copy of the tracked files, so that nothing stale gets in."""
    source = tmp_path_factory.mktemp("source")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    out = tmp_path_factory.mktemp("dist")
    # sdist first, then the wheel from it: what the sdist lacks, the wheel lacks.
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        check=True,
        capture_output=True,
    )
    return out


def test_the_wheel_holds_every_module_and_data_file(built):
    (wheel,) = built.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"{package}/{Path(name).relative_to(folder)}"
        for package, folder in FOLDERS.items()
        for name in tracked()
        if name.startswith(f"{folder}/") and Path(name).name != "ruff.toml"
    }
    assert expected <= inside, sorted(expected - inside)
    assert "makemar/py.typed" in inside
    assert {name for name in inside if name.endswith(".py")} <= expected


def test_the_wheel_says_what_it_is(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        assert any(n.endswith("licenses/LICENSE") for n in archive.namelist())
    core = [
        line
        for line in text.splitlines()
        if line.startswith("Requires-Dist") and "extra" not in line
    ]
    assert "License-Expression: Apache-2.0" in text
    assert "Requires-Python: >=3.10" in text
    assert core
    assert not any("torch" in line for line in core), "the core install has no torch"


def test_the_source_distribution_holds_every_tracked_file(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    expected = {name for name in tracked() if not name.startswith(".")}
    assert expected <= inside, sorted(expected - inside)
