"""verify names what is wrong with an archive, finds nothing in good ones, and a server agrees."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from broken_archives import BROKEN, Broken, files, mar, tar_members, tarred
from odd_archives import ODD

from makemar.archiver import CODES, verify_archive
from makemar.errors import ArchiveError, Severity

# The old archiver's rows in ODD need it.
pytest.importorskip("model_archiver", reason="torch-model-archiver is not installed")


def errors(path: Path) -> set[str]:
    return {found.code for found in verify_archive(path) if found.severity is Severity.ERROR}


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_the_fault_of_a_broken_archive_is_named(tmp_path, case: Broken):
    path = case.make(tmp_path)
    findings = verify_archive(path)
    errors = {found.code for found in findings if found.severity is Severity.ERROR}
    assert errors == {case.code, *case.also}
    for found in findings:
        assert str(found).count("\n") == 0
        assert str(found.path).startswith(str(path))
        assert found.severity in CODES[found.code].severities, found.code


def test_there_are_enough_of_them():
    assert len(BROKEN) >= 40
    assert all(case.reason for case in BROKEN if case.server != "fails")


@pytest.mark.parametrize("name", ODD)
def test_no_error_is_found_in_what_only_looks_odd(tmp_path, name):
    findings = verify_archive(ODD[name](tmp_path, name))
    for found in findings:
        assert found.severity is Severity.WARNING
        assert found.severity in CODES[found.code].severities, found.code


@pytest.mark.parametrize("name", [name for name in ODD if name.startswith(("makemar", "old"))])
def test_nothing_at_all_is_found_in_what_archivers_write(tmp_path, name):
    codes = [found.code for found in verify_archive(ODD[name](tmp_path, name))]
    assert codes == ([] if name.startswith("makemar") else ["no-record"])


@pytest.mark.parametrize("make", ["missing.mar", "missing"])
def test_what_is_not_there_cannot_be_verified(tmp_path, make):
    with pytest.raises(ArchiveError, match="cannot be read"):
        verify_archive(tmp_path / make)


@pytest.mark.parametrize("name", ["pipe.mar", "pipe.tar.gz", "pipe"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ArchiveError, match="is a pipe"):
        verify_archive(tmp_path / name)


def test_a_device_is_refused():
    with pytest.raises(ArchiveError, match="a device"):
        verify_archive(Path("/dev/zero"))


def test_warnings_tell_what_the_server_lives_with(tmp_path):
    expected = {
        "names_for_one_system_only": {"odd-name", "case-clash", "non-ascii-name"},
        "tarball_with_long_names": {"non-ascii-name"},
        "modules_that_do_no_harm": {"shadowed-module"},
        "tarball_with_more_behind": {"trailing-bytes"},
        "directory_with_links_and_a_pipe": {
            "broken-link",
            "link-loop",
            "outside-link",
            "special-file",
        },
        "key_that_comes_twice": {"manifest-duplicate-key"},
        "version_a_number": {"manifest-envelope"},
        "handler_that_beats_a_built_in": {"shadowed-handler"},
        "config_that_is_ignored_in_part": {"config-ignored"},
        "whole_but_for_the_central_directory": {"no-central-directory"},
    }
    for name, codes in expected.items():
        found = verify_archive(ODD[name](tmp_path, name))
        assert {each.code for each in found} - {"no-record"} == codes, name


def test_findings_say_where_in_the_handler(tmp_path):
    path = mar(tmp_path, "m", files("m") | {"handler.py": "x = 1\ndef handle(:\n"})
    (found, _) = verify_archive(path)
    assert (found.path, found.line) == (path / "handler.py", 2)


CREATES = """
import pathlib
pathlib.Path({place!r}).touch()
def handle(data, context): ...
"""


def test_no_code_of_an_archive_runs(tmp_path):
    """Neither on import, nor on unpickling, nor through YAML; packages are no exception."""
    from makemar.archiver import diff_archives, read_archive, unpack_archive

    place = tmp_path / "ran"
    touch = f"pathlib\nPosixPath\n(S'{place}'\ntR."
    evil = {
        "handler.py": CREATES.format(place=str(place)),
        "json.py": CREATES.format(place=str(place)),
        "sitecustomize.py": CREATES.format(place=str(place)),
        "c.yaml": f"a: !!python/object/apply:os.mknod ['{place}']\n",
        "weights.pth": f"cos\nmknod\n(S'{place}'\ntR.",
        "weights.pt": f"c{touch}",
    }
    model = {"configFile": "c.yaml", "serializedFile": "weights.pth"}
    path = mar(tmp_path, "m", files("m", **model) | evil)
    evil["weights.pth"] += " "
    other = mar(tmp_path, "other", files("m", **model) | evil)
    assert errors(path) == {"config-syntax", "shadowed-module", "unsafe-pickle"}
    read_archive(path)
    diff_archives(path, other)
    unpack_archive(path, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "handler.py").is_file()
    assert not place.exists()


def test_verifying_needs_no_torch_and_reads_each_byte_once(tmp_path):
    path = mar(tmp_path, "m", files("m") | {"weights.pth": os.urandom(3 << 20)})
    code = (
        "import builtins, io, sys, pathlib\n"
        "from makemar.archiver import verify_archive\n"
        f"verify_archive(pathlib.Path({str(path)!r}))\n"
        "print([m for m in ('torch', 'numpy', 'requests') if m in sys.modules])\n"
        "print([l for l in open('/proc/self/io') if l.startswith('rchar')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[]\n")


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, bytes]:
    """One sound archive of each packed format."""
    folder = tmp_path_factory.mktemp("sound")
    mar(folder, "stored", files("m"))
    mar(folder, "deflated", files("m"), method=zipfile.ZIP_DEFLATED)
    tarred(folder / "tar.tar.gz", tar_members("m"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["stored.mar", "deflated.mar", "tar.tar.gz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_damage_gives_anything_but_findings(sound, tmp_path, name, data):
    contents = bytearray(sound[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(contents) - 1))
        contents[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del contents[data.draw(st.integers(1, len(contents))) :]
    path = tmp_path / name
    path.write_bytes(contents)
    verify_archive(path)  # whatever it raises fails the test


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
@given(text=st.one_of(st.text(), st.binary(), st.from_regex(r"\{.*\}")))
def test_no_manifest_gives_anything_but_findings(tmp_path, text):
    verify_archive(mar(tmp_path, "m", {"MAR-INF/MANIFEST.json": text, "handler.py": ""}))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_any_truncation_and_any_flipped_bit_of_the_contents_is_an_error(tmp_path, method):
    path = mar(tmp_path, "m", files("m") | {"w.bin": bytes(range(200))}, method=method)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert errors(path), f"cut at {end}"
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        info = archive.getinfo("w.bin")
    start = info.header_offset + 30 + len("w.bin")
    for at in range(start, start + info.compress_size):
        flipped = bytearray(whole)
        flipped[at] ^= 1
        path.write_bytes(flipped)
        assert errors(path), f"flipped at {at}"
