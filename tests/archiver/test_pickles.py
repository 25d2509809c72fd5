"""Weight files are judged by what loading them would import; nothing of them is ever run."""

import bz2
import gzip
import io
import itertools
import lzma
import os
import pickle
import pickletools
import struct
import time
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from makemar.archiver import PickleImport, scan_pickle, scan_weights
from makemar.archiver.pickle_names import _ACCEPTED, is_dangerous
from makemar.archiver.pickle_walk import Budget, walk_pickle
from makemar.errors import Severity

LEGACY = {"_use_new_zipfile_serialization": False}


class Attack:
    """Writes a canary when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


@pytest.fixture
def attack(tmp_path):
    """An object to pickle; that nothing unpickled it is checked in the end."""
    canary = tmp_path / "canary"
    yield Attack(canary)
    assert not canary.exists()


def codes(source, **options):
    return [finding.code for finding in scan_weights(source, **options)]


def imports(source):
    return {str(found) for found in scan_pickle(source).imports}


def state_dict():
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()


def test_the_accepted_names_are_those_of_torch():
    from torch._weights_only_unpickler import _get_allowed_globals

    assert set(_get_allowed_globals()) == _ACCEPTED


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.bin", "w.pth.tar"])
@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_a_state_dict_has_no_findings(tmp_path, name, options):
    torch.save(state_dict(), tmp_path / name, **options)
    assert scan_weights(tmp_path / name) == ()
    assert torch.load(tmp_path / name, weights_only=True)


def test_tensors_of_every_kind_that_torch_accepts_have_none(tmp_path):
    tensors = {
        "half": torch.zeros(2, dtype=torch.bfloat16),
        "float8": torch.zeros(2).to(torch.float8_e4m3fn),
        "complex": torch.zeros(2, dtype=torch.complex64),
        "sparse": torch.eye(3).to_sparse(),
        "parameter": torch.nn.Parameter(torch.zeros(1)),
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "set": {1, 2},
        "bytes": bytearray(b"abc"),
    }
    torch.save(tensors, tmp_path / "w.pt")
    assert torch.load(tmp_path / "w.pt", weights_only=True)
    assert scan_weights(tmp_path / "w.pt") == ()


@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_a_whole_model_is_a_warning_that_names_its_classes(tmp_path, options):
    path = tmp_path / "model.pth"
    torch.save(torch.nn.Linear(3, 2), path, **options)
    (finding,) = scan_weights(path)
    assert (finding.code, finding.severity) == ("pickle-import", Severity.WARNING)
    assert "torch.nn.modules.linear.Linear" in finding.message
    assert "state dict" in finding.fix
    assert finding.path == path
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(path, weights_only=True)


def test_a_protocol_that_torch_refuses_is_a_warning(tmp_path):
    torch.save(state_dict(), tmp_path / "w.pt", pickle_protocol=4)
    assert codes(tmp_path / "w.pt") == ["pickle-protocol"]
    with pytest.warns(match="protocol 4"), pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "w.pt", weights_only=True)


def test_torchscript_has_no_findings(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout())
    with pytest.warns(match="torch.jit.script"):
        scripted = torch.jit.script(model)
    scripted.save(tmp_path / "model.pt")
    assert scan_weights(tmp_path / "model.pt") == ()


def test_an_exported_program_has_no_findings(tmp_path):
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.zeros(1, 3),))
    torch.export.save(program, tmp_path / "model.pt2")
    assert scan_weights(tmp_path / "model.pt2") == ()


@pytest.mark.parametrize("protocol", range(6))
def test_an_attack_is_an_error_in_every_protocol(tmp_path, attack, protocol):
    path = tmp_path / "w.pkl"
    path.write_bytes(pickle.dumps({"weights": [1.5, attack]}, protocol))
    finding = next(f for f in scan_weights(path) if f.code == "unsafe-pickle")
    assert finding.severity is Severity.ERROR
    assert "posix.system" in finding.message


@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_an_attack_is_found_in_files_of_torch(tmp_path, attack, options):
    torch.save(OrderedDict(a=torch.zeros(3), b=attack), tmp_path / "w.pt", **options)
    assert codes(tmp_path / "w.pt") == ["unsafe-pickle"]


@pytest.mark.parametrize("number", range(5))
def test_an_attack_is_found_in_each_pickle_of_a_legacy_file(tmp_path, attack, number):
    torch.save({"a": torch.zeros(3)}, tmp_path / "w.pt", **LEGACY)
    data = (tmp_path / "w.pt").read_bytes()
    stream, ends = io.BytesIO(data), [0]
    for _ in range(5):
        list(pickletools.genops(stream))
        ends.append(stream.tell())
    pickles = [data[a:b] for a, b in itertools.pairwise(ends)]
    # In front of what the pickle has, so that loading goes on without a sign.
    pickles[number] = pickle.dumps(attack, 2)[:-1] + b"0" + pickles[number]
    if number == 0:
        pickles[0] = data[: ends[1]]
        pickles[1] = pickle.dumps(attack, 2)[:-1] + b"0" + data[ends[1] : ends[2]]
    (tmp_path / "w.pt").write_bytes(b"".join(pickles) + data[ends[5] :])
    assert "unsafe-pickle" in codes(tmp_path / "w.pt")


@pytest.mark.parametrize("inner", [0, 2, 4])
@pytest.mark.parametrize("outer", [0, 2, 3, 4, 5])
def test_an_attack_inside_of_bytes_is_found(attack, outer, inner):
    data = pickle.dumps(pickle.dumps([attack, b"x" * 1000], inner), outer)
    # Protocol 0 has no header to know it by; whoever loads it imports pickle.loads, an error.
    assert ("posix.system" in imports(data)) is (inner > 0)


def test_attacks_inside_of_attacks_end_somewhere(attack):
    data = pickle.dumps(attack, 2)
    for _ in range(7):
        data = pickle.dumps(data, 4)
    assert "posix.system" in imports(data)
    for _ in range(4):
        data = pickle.dumps(data, 4)
    assert "one another" in scan_pickle(data).problem


def test_arrays_of_objects_are_scanned_and_others_are_not(tmp_path, attack):
    np.save(tmp_path / "numbers.npy", np.zeros((4, 5)))
    np.save(tmp_path / "names.npy", np.zeros(3, dtype=[("O", "f4"), ("b", "U5")]))
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object))
    np.save(tmp_path / "fields.npy", np.array([(1, attack)], dtype=[("a", "i4"), ("b", "O")]))
    np.savez(tmp_path / "bad.npz", numbers=np.zeros(3), bad=np.array([attack], dtype=object))
    assert codes(tmp_path / "numbers.npy") == []
    assert codes(tmp_path / "names.npy") == []
    assert codes(tmp_path / "objects.npy") == ["pickle-import"]
    assert "unsafe-pickle" in codes(tmp_path / "fields.npy")
    assert "unsafe-pickle" in codes(tmp_path / "bad.npz")


def joblib_values(attack):
    numbers = [np.arange(3.0), np.zeros((0, 3)), np.ones((2, 5), order="F"), np.float32(3)]
    texts = [np.array(["x", "yy"]), np.array(["2020-01-01"], dtype="M8[ns]"), np.array([b"abc"])]
    fields = np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
    return {
        "numbers": (numbers, False),
        "texts": (texts, False),
        "fields": ([fields, fields], False),
        "objects": ([np.array([{1: 2}], dtype=object), np.ones(1000)], False),
        "after an array": ([np.arange(300), attack], True),
        "in an array": ([np.array([attack], dtype=object), np.zeros(3)], True),
        "in a field": (np.array([(1, attack)], dtype=[("a", "i4"), ("b", "O")]), True),
    }


@pytest.mark.parametrize("compress", [0, ("zlib", 3), ("gzip", 3), ("bz2", 3), ("xz", 3)])
@pytest.mark.parametrize("case", joblib_values(None))
def test_files_of_joblib_are_followed_past_their_arrays(tmp_path, attack, case, compress):
    value, dangerous = joblib_values(attack)[case]
    joblib.dump(value, tmp_path / "w.joblib", compress=compress)
    expected = {"unsafe-pickle", "pickle-import"} if dangerous else {"pickle-import"}
    assert set(codes(tmp_path / "w.joblib")) == expected


def test_a_compressed_bomb_is_not_inflated(tmp_path, monkeypatch):
    monkeypatch.setattr("makemar.archiver.compressed_pickle._MOST", 20 << 20)
    with gzip.open(tmp_path / "w.pkl.gz", "wb", 1) as stream:
        for _ in range(25):
            stream.write(bytes(1 << 20))
    (finding,) = scan_weights(tmp_path / "w.pkl.gz")
    assert "inflates to over a GiB" in finding.message


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, bz2.compress, lzma.compress])
def test_a_truncated_compressed_pickle_is_damaged(tmp_path, compress):
    (tmp_path / "w.pkl").write_bytes(compress(pickle.dumps(list(range(1000))))[:-9])
    assert codes(tmp_path / "w.pkl") == ["damaged-pickle"]


GLOBALS = {
    "builtins eval": True,
    "__builtin__ eval": True,
    "builtins getattr": True,
    "builtins __import__": True,
    "subprocess Popen": True,
    "commands getoutput": True,
    "runpy run_path": True,
    "socket create_connection": True,
    "shutil rmtree": True,
    "importlib import_module": True,
    "sys modules": True,
    "webbrowser open": True,
    "operator attrgetter": True,
    "functools partial": True,
    "pickle loads": True,
    "_pickle loads": True,
    "cPickle loads": True,
    "torch load": True,
    "torch.storage _load_from_bytes": True,
    "numpy.f2py.crackfortran getlincoef": True,
    "torch.serialization os.system": True,
    "random _os.system": True,
    "collections OrderedDict.__init__.__globals__": True,
    "no such": True,
    "builtins frozenset": False,
    "builtins ValueError": False,
    "exceptions ValueError": False,
    "numpy.core.multiarray _reconstruct": False,
    "numpy dtype": False,
    "pathlib PosixPath": False,
    "torchvision.models.resnet ResNet": False,
    "__main__ Net": False,
}


@pytest.mark.parametrize(("text", "dangerous"), GLOBALS.items())
def test_a_name_is_dangerous_or_only_unknown(text, dangerous):
    module, _, name = text.partition(" ")
    if text == "no such":
        module, name = "no such module", "x y"
    data = f"\x80\x02c{module}\n{name}\n.".encode("latin-1")
    found = scan_weights(io.BytesIO(data), name="w.pkl")
    assert [f.code for f in found] == ["unsafe-pickle" if dangerous else "pickle-import"]


def short(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


OS_SYSTEM = "posix.system" if os.name == "posix" else "nt.system"
STREAMS = {
    "global": (b"cos\nsystem\n.", "os.system"),
    "inst": (b"(S'true'\nios\nsystem\n.", "os.system"),
    "obj": (b"(cos\nsystem\nS'true'\no.", "os.system"),
    "stack global": (b"\x80\x04" + short("os") + short("system") + b"\x93.", "os.system"),
    "through the memo": (
        b"\x80\x04" + short("os") + b"\x94" + short("system") + b"\x9400h\x00h\x01\x93.",
        "os.system",
    ),
    "through a numbered memo": (
        b"\x80\x04" + short("os") + b"q\x07" + short("system") + b"r\xff\x00\x00\x00"
        b"00h\x07j\xff\x00\x00\x00\x93.",
        "os.system",
    ),
    "text memo": (b"Vos\np5\n0Vsystem\np6\n0g5\ng6\n\x93.", "os.system"),
    "with a duplicate": (b"\x80\x04" + short("os") + b"2\x93.", "os.os"),
    "with values in between": (
        b"\x80\x04" + short("os") + b"N0]0(KK1" + short("system") + b"(1\x93.",
        "os.system",
    ),
    "old strings": (b"S'os'\nU\x06system\x93.", "os.system"),
    "escaped": (b"S'\\x6fs'\nV\\u0073ystem\n\x93.", "os.system"),
    "python 2's name": (b"\x80\x02c__builtin__\neval\n.", "builtins.eval"),
    "python 2's name in protocol 4": (b"\x80\x04c__builtin__\neval\n.", "__builtin__.eval"),
    "a name that is made up": (
        b"\x80\x04" + short("os") + b"c_codecs\nencode\n" + short("flfgrz") + short("rot13")
        + b"\x86R\x93.",
        "?.?",
    ),
    "an extension": (b"\x80\x02\x82\x01.", "?.?"),
    "before rubbish": (b"cos\nsystem\n(S'true'\ntR\xff\xff", "os.system"),
    "before the end": (b"cos\nsystem\n(S'true'\ntR", "os.system"),
    "after a wrong frame": (b"\x80\x04\x95" + b"\xff" * 7 + b"\x7fcos\nsystem\n.", "os.system"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "found"), STREAMS.values(), ids=STREAMS)
def test_every_way_to_import_is_seen(data, found):
    assert found in imports(data)
    assert codes(io.BytesIO(data), name="w.pkl")[0] == "unsafe-pickle"


HOSTILE = {
    "empty": b"",
    "truncated number": b"\x80\x02J\x00",
    "truncated text": b"X\xff\x00\x00\x00abc",
    "endless text": b"\x8d" + b"\xff" * 8,
    "huge text": b"\x8d" + struct.pack("<Q", 1 << 39) + b"abc",
    "negative text": b"T\xff\xff\xff\xffabc.",
    "no opcode": b"\x80\x02\xff.",
    "no line end": b"I123456789",
    "newest protocol": b"\x80\x63N.",
    "empty stack": b".",
    "below the mark": b"](Na.",
    "no mark": b"Nt.",
    "memo of nothing": b"p0\n.",
    "memo number": b"Npx\n.",
    "two memos": b"\x80\x04N\x94q\x01.",
    "marks": b"(" * 200_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_broken_pickle_is_one_clear_finding(data):
    scan = scan_pickle(data)
    assert scan.problem
    (finding,) = scan_weights(io.BytesIO(data), name="w.pkl")
    assert finding.code == "damaged-pickle"
    assert "\n" not in str(finding)


def test_endless_opcodes_end_somewhere():
    budget = Budget(left=100_000)
    assert "opcodes" in walk_pickle(io.BytesIO(b"N0" * 100_000), budget).problem
    assert Budget().left < 20_000_000


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=600)
    | st.binary(max_size=600)
    | st.sampled_from([OrderedDict, PickleImport, Path, complex(1, 2), {1, 2}, frozenset((3,))]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=9), inner, max_size=5)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@given(values, st.integers(0, 5))
def test_the_imports_are_those_that_unpickling_makes(value, protocol):
    seen = set()

    class Watch(pickle.Unpickler):
        def find_class(self, module, name):
            seen.add((module, name))
            return super().find_class(module, name)

    data = pickle.dumps(value, protocol)
    Watch(io.BytesIO(data)).load()
    scan = scan_pickle(data)
    renamed = {(m.replace("__builtin__", "builtins"), n) for m, n in seen}
    renamed = {(m.replace("copy_reg", "copyreg"), n) for m, n in renamed}
    assert (scan.problem, {(i.module, i.name) for i in scan.imports}) == ("", renamed)


@given(st.binary(max_size=200))
def test_wild_bytes_raise_nothing(data):
    scan_pickle(data)
    for name in ("w.pkl", "w.bin", "w.npy", "w"):
        scan_weights(io.BytesIO(data), name=name)
        scan_weights(io.BytesIO(b"\x80\x04" + data), name=name)
        scan_weights(io.BytesIO(b"\x93NUMPY\x01\x00" + data), name=name)
        scan_weights(io.BytesIO(b"PK\x03\x04" + data), name=name)


@pytest.mark.parametrize("cut", [10, 100, 500, -30])
def test_a_truncated_file_of_torch_is_an_error(tmp_path, cut):
    torch.save(state_dict(), tmp_path / "w.pt")
    data = (tmp_path / "w.pt").read_bytes()
    (tmp_path / "w.pt").write_bytes(data[:cut])
    (finding,) = scan_weights(tmp_path / "w.pt")
    assert (finding.code, finding.severity) == ("damaged-pickle", Severity.ERROR)


def write_zip(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def test_no_record_of_a_zip_hides_an_attack(tmp_path, attack):
    good, bad = pickle.dumps({}, 2), pickle.dumps(attack, 2)
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = write_zip(tmp_path / "twice.pt", [("a/data.pkl", bad), ("a/data.pkl", good)])
    upper = write_zip(tmp_path / "upper.pt", [("a/DATA.PKL", bad)])
    script = [("a/data.pkl", bad), ("a/constants.pkl", pickle.dumps((), 2))]
    deflated = write_zip(tmp_path / "d.pt", script, compression=zipfile.ZIP_DEFLATED)
    nested = write_zip(tmp_path / "n.pt2", [("a/weights/w.pt", upper.read_bytes())])
    for path in (twice, upper, deflated, nested):
        assert "unsafe-pickle" in codes(path), path


def test_zips_that_python_cannot_open_are_errors(tmp_path, attack):
    path = write_zip(tmp_path / "w.pt", [("a/data.pkl", pickle.dumps(attack, 2))])
    data = path.read_bytes()
    # The name in the local header is another one; torch does not look at it.
    path.write_bytes(data.replace(b"a/data.pkl", b"a/data.txt", 1))
    assert codes(path) == ["damaged-pickle"]


def test_other_files_are_let_be(tmp_path):
    files = {
        "text.bin": b"cat\ndog\nmouse says hello\n",
        "LICENSE": b"copyright\nby somebody\n",
        "noise.bin": os.urandom(4096),
        "vocab.txt": b"a\nb\n",
        "picture.jpg": b"\xff\xd8\xff\xe0" + bytes(100),
        "weights.safetensors": struct.pack("<Q", 2) + b"{}",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert scan_weights(tmp_path / name) == (), name


def test_what_is_no_pickle_but_named_like_one_is_a_warning(tmp_path):
    (tmp_path / "weights.pt").write_bytes(bytes(range(256)))
    (finding,) = scan_weights(tmp_path / "weights.pt")
    assert (finding.code, finding.severity) == ("damaged-pickle", Severity.WARNING)


def test_a_pointer_of_git_lfs_is_not_taken_for_weights(tmp_path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    (tmp_path / "w.pt").write_text(text)
    assert codes(tmp_path / "w.pt") == ["lfs-pointer"]


def test_a_large_file_of_torch_is_scanned_at_once(tmp_path):
    path = tmp_path / "w.pt"
    torch.save({"w": torch.zeros(64 << 20, dtype=torch.float32)}, path)
    start = time.perf_counter()
    assert scan_weights(path) == ()
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize("name", ["mycompany.system.Net", "a.socket.Net", "eval.net.Model"])
def test_a_module_may_be_called_what_its_author_likes(name):
    module, _, attribute = name.rpartition(".")
    assert not is_dangerous(PickleImport(module=module, name=attribute))


@pytest.mark.parametrize("name", ["codecs.open", "gzip.open", "io.open", "models.Net.os.system"])
def test_what_writes_files_or_reaches_through_is_dangerous(name):
    module, _, attribute = name.partition(".")
    assert is_dangerous(PickleImport(module=module, name=attribute))
