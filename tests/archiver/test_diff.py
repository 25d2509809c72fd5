"""diff tells what differs between two archives, down to the numbers in the weights."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from broken_archives import BROKEN, files, mar
from odd_archives import ODD, packed_by_makemar

from makemar.archiver import diff_archives, unpack_archive
from makemar.errors import ArchiveError, IntegrityError

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("kind", ["zip-store", "tgz", "no-archive"])
def test_the_same_files_in_any_format_do_not_differ(tmp_path, kind):
    path = packed_by_makemar(tmp_path, "pong", "zip-store")
    (tmp_path / "b").mkdir()
    other = packed_by_makemar(tmp_path / "b", "pong", kind)
    found = diff_archives(path, other)
    assert not found.differs
    assert (found.members, found.manifest, found.config, found.weights) == ((), (), (), ())
    assert not diff_archives(path, unpack_archive(path, tmp_path / "unpacked")).differs


def test_members_manifest_and_config_are_told_apart(tmp_path):
    config = "batchSize: 4\nhandler:\n  topk: 5\n  names: [a]\n"
    old = files("m", configFile="c.yaml") | {"c.yaml": config, "gone.txt": "x", "same.txt": "s"}
    new = files("m", configFile="c.yaml", modelVersion="2.0", description="better")
    new |= {"c.yaml": config.replace("topk: 5", "topk: 7"), "new.txt": "yy", "same.txt": "s"}
    found = diff_archives(mar(tmp_path, "a", old), mar(tmp_path, "b", new))
    assert found.differs
    changes = {
        change.name: tuple(line and line.size for line in (change.before, change.after))
        for change in found.members
    }
    assert changes == {
        "gone.txt": (1, None),
        "new.txt": (None, 2),
        "c.yaml": (len(config), len(config)),
    }
    assert {(k.key, k.before, k.after) for k in found.manifest} == {
        ("model.modelVersion", '"1.0"', '"2.0"'),
        ("model.description", None, '"better"'),
    }
    assert [(k.key, k.before, k.after) for k in found.config] == [("handler.topk", "5", "7")]


def save(path: Path, state: object, **how: object) -> bytes:
    torch.save(state, path, **how)
    return path.read_bytes()


OLD_STATE = {
    "layer.weight": torch.arange(6.0).reshape(2, 3),
    "layer.bias": torch.zeros(2),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "steps": torch.tensor(7),
    "gone": torch.zeros(1),
    "nan": torch.tensor([float("nan"), float("inf")]),
    "flags": torch.tensor([True, False]),
}
NEW_STATE = {
    "layer.weight": torch.arange(6.0).reshape(2, 3) + 0.5,
    "layer.bias": torch.zeros(3),
    "half": torch.ones(3, dtype=torch.float32),
    "steps": torch.tensor(9),
    "new": torch.zeros(1, 2),
    "nan": torch.tensor([float("nan"), float("inf")]),
    "flags": torch.tensor([True, True]),
}
EXPECTED = {
    "layer.weight": ("changed", "float32[2, 3]", "float32[2, 3]", 0.5),
    "layer.bias": ("changed", "float32[2]", "float32[3]", None),
    "half": ("changed", "bfloat16[3]", "float32[3]", 0.0),
    "steps": ("changed", "int64[]", "int64[]", 2.0),
    "gone": ("removed", "float32[1]", "", None),
    "new": ("added", "", "float32[1, 2]", None),
    "flags": ("changed", "bool[2]", "bool[2]", 1.0),
}


@pytest.mark.parametrize("form", ["pth", "nested", "legacy", "safetensors"])
def test_weights_are_compared_by_tensor(tmp_path, form):
    name = "w.safetensors" if form == "safetensors" else "w.pth"

    def write(state: dict[str, torch.Tensor]) -> bytes:
        if form == "safetensors":
            save_file = pytest.importorskip("safetensors.torch").save
            return save_file(state)
        if form == "nested":
            return save(tmp_path / name, {"state_dict": state, "epoch": 3})
        how = {"_use_new_zipfile_serialization": False} if form == "legacy" else {}
        return save(tmp_path / name, state, **how)

    old = mar(tmp_path, "a", files("m") | {name: write(OLD_STATE)})
    new = mar(tmp_path, "b", files("m") | {name: write(NEW_STATE)})
    (weights,) = diff_archives(old, new).weights
    assert (weights.name, weights.reason) == (name, "")
    found = {t.name: (t.how, t.before, t.after, t.largest) for t in weights.tensors}
    prefix = "state_dict." if form == "nested" else ""
    assert found == {prefix + key: value for key, value in EXPECTED.items()}


def test_a_number_that_became_nan_is_infinitely_far_and_json_stays_strict(tmp_path):
    old = mar(tmp_path, "a", files("m") | {"w.pt": save(tmp_path / "w", {"x": torch.zeros(2)})})
    broken = torch.tensor([0.0, float("nan")])
    new = mar(tmp_path, "b", files("m") | {"w.pt": save(tmp_path / "w", {"x": broken})})
    found = diff_archives(old, new)
    assert found.weights[0].tensors[0].largest == float("inf")
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["weights"][0]["tensors"][0]["largest"] == "inf"


def test_the_same_weights_saved_otherwise_have_no_tensor_that_differs(tmp_path):
    state = {"x": torch.zeros(5)}
    old = save(tmp_path / "w", state)
    new = save(tmp_path / "w", state, _use_new_zipfile_serialization=False)
    found = diff_archives(
        mar(tmp_path, "a", files("m") | {"w.pt": old}),
        mar(tmp_path, "b", files("m") | {"w.pt": new}),
    )
    assert [change.name for change in found.members] == ["w.pt"]
    assert found.weights[0].tensors == ()
    assert found.weights[0].reason == ""


class Evil:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.place,)


def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path):
    place = tmp_path / "ran"
    old = save(tmp_path / "w", {"x": torch.zeros(1), "evil": Evil(place)})
    new = save(tmp_path / "w", {"x": torch.ones(1), "evil": Evil(place)})
    found = diff_archives(
        mar(tmp_path, "a", files("m") | {"w.pt": old}),
        mar(tmp_path, "b", files("m") | {"w.pt": new}),
    )
    assert "cannot" in found.weights[0].reason or "safely" in found.weights[0].reason
    assert not place.exists()


def test_a_torchscript_and_a_broken_file_are_told_so(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x

    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        script = torch.jit.script(Net())
    script.save(tmp_path / "s.pt")
    pairs = ((b"x", b"y"), ((tmp_path / "s.pt").read_bytes(), b"y"), (b"PK\x03\x04", b""))
    for number, (old, new) in enumerate(pairs):
        found = diff_archives(
            mar(tmp_path, f"a{number}", files("m") | {"w.pt": old}),
            mar(tmp_path, f"b{number}", files("m") | {"w.pt": new}),
        )
        assert "no tensors that can be loaded safely" in found.weights[0].reason
        assert "\n" not in found.weights[0].reason


def test_without_torch_it_says_so_and_compares_the_rest(tmp_path):
    old = mar(tmp_path, "a", files("m") | {"w.pt": b"a"})
    new = mar(tmp_path, "b", files("m") | {"w.pt": b"b"})
    code = (
        "import sys, pathlib\n"
        "sys.modules['torch'] = None\n"
        "from makemar.archiver import diff_archives\n"
        f"found = diff_archives(pathlib.Path({str(old)!r}), pathlib.Path({str(new)!r}))\n"
        "print([m.name for m in found.members], found.weights[0].reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    reason = "torch is not installed, so weights are not compared by tensor"
    assert done.stdout.strip() == f"['w.pt'] {reason}"


def test_torch_is_imported_only_for_weights_that_differ(tmp_path):
    old = mar(tmp_path, "a", files("m") | {"w.pt": b"a", "x.txt": "1"})
    new = mar(tmp_path, "b", files("m") | {"w.pt": b"a", "x.txt": "2"})
    code = (
        "import sys, pathlib\n"
        "from makemar.archiver import diff_archives\n"
        f"diff_archives(pathlib.Path({str(old)!r}), pathlib.Path({str(new)!r}))\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_cannot_be_read_to_its_end_cannot_be_compared(tmp_path):
    good = mar(tmp_path, "good", files("m"))
    flipped = next(case for case in BROKEN if case.name == "flipped_byte").make(tmp_path)
    with pytest.raises(IntegrityError, match="does not match its checksum"):
        diff_archives(good, flipped)
    with pytest.raises(ArchiveError, match="cannot be read"):
        diff_archives(tmp_path / "missing.mar", good)
    null = next(case for case in BROKEN if case.name == "manifest_null").make(tmp_path)
    with pytest.raises(IntegrityError, match="the manifest is null"):
        diff_archives(good, null)


def test_compression_and_order_do_not_count(tmp_path):
    found = files("m") | {"a.txt": "a"}
    old = mar(tmp_path, "a", found)
    new = mar(tmp_path, "b", dict(reversed(found.items())), method=zipfile.ZIP_DEFLATED)
    assert not diff_archives(old, new).differs
    name = "tarball_of_dots"
    other = ODD[name](tmp_path, name)
    assert [change.key for change in diff_archives(old, other).manifest] == ["model.modelName"]
