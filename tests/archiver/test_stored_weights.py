"""The weights inside of an archive are looked into as they are outside."""

import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from makemar.archiver import (
    ArchiveFormat,
    parse_include,
    plan_archive,
    scan_weights,
    verify_archive,
    write_archive,
)
from makemar.archiver.stored_weights import scan_stored_weights
from makemar.errors import Severity


class Attack:
    def __reduce__(self):
        return os.system, ("touch canary",)


@pytest.fixture
def pack(project, store, monkeypatch, tmp_path):
    """Pack files whatever is wrong with them, as another program would."""
    monkeypatch.chdir(tmp_path)

    def make(names, archive_format):
        folder = tmp_path / "weights"
        spec = project({}, include=tuple(map(parse_include, names)), vendor=False)
        for name in names:
            shutil.move(folder / name, Path(spec.base) / name)
        target = store / f"pong{archive_format.suffix}"
        plan = plan_archive(project({}, include=spec.include, vendor=False))
        object.__setattr__(plan, "findings", ())
        write_archive(plan, target, archive_format=archive_format)
        return target

    (tmp_path / "weights").mkdir()
    yield make
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("archive_format", list(ArchiveFormat))
def test_verify_names_the_weights_that_run_code(pack, tmp_path, archive_format):
    folder = tmp_path / "weights"
    torch.save({"a": torch.zeros(9), "b": Attack()}, folder / "bad.pt")
    torch.save({"a": torch.zeros(9)}, folder / "good.pt")
    torch.save(torch.nn.Linear(2, 2), folder / "whole.pth")
    (folder / "bad.pkl").write_bytes(pickle.dumps(Attack()))
    np.save(folder / "numbers.npy", np.zeros(3))
    path = pack(["bad.pt", "good.pt", "whole.pth", "bad.pkl", "numbers.npy"], archive_format)
    found = {(f.code, f.message.split(" ")[0].rstrip(":")) for f in verify_archive(path)}
    assert found == {
        ("unsafe-pickle", "bad.pt"),
        ("unsafe-pickle", "bad.pkl"),
        ("pickle-import", "whole.pth"),
    }
    errors = [f for f in verify_archive(path) if f.severity is Severity.ERROR]
    assert {f.path for f in errors} == {path}


def test_a_member_is_looked_into_whatever_lies_outside_under_its_name(tmp_path):
    """Joined to the archive's path, an absolute name would lead out of it."""
    outside = tmp_path / "outside.pth"
    torch.save({}, outside)
    archive = tmp_path / "m.mar"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"/{outside}", pickle.dumps(Attack()))
        file.writestr("MAR-INF/MANIFEST.json", "{}")
    assert "unsafe-pickle" in {found.code for found in scan_stored_weights(archive)}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_weights_whose_record_is_damaged_are_a_finding(tmp_path, compression):
    weights = tmp_path / "bad.pth"
    with zipfile.ZipFile(weights, "w", compression) as file:
        file.writestr("bad/data.pkl", pickle.dumps(list(range(2000)), protocol=2))
        file.writestr("bad/version", "3")
    data = bytearray(weights.read_bytes())
    data[200] ^= 0xFF
    weights.write_bytes(data)
    assert [found.code for found in scan_weights(weights)] == ["damaged-pickle"]
