from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat, check_record
from makemar.cli.pack import FormatName, Runtime
from makemar.configs import RUNTIMES

KINDS = ("default", "tgz", "no-archive")
FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")
SPEC = '[model]\nname = "echo"\nversion = "1.0"\nhandler = "handler.py"\n'


def test_the_runtimes_and_formats_offered_are_those_there_are() -> None:
    assert {name.value for name in Runtime} == set(RUNTIMES)
    offered = {ArchiveFormat(name.value) for name in FormatName}
    assert offered == set(ArchiveFormat)
    # One more: torch-model-archiver's own name for the usual one.
    assert {name.value for name in FormatName} == {"default", *(item.value for item in offered)}


def read_model(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as opened:
        model: dict[str, str] = json.loads(opened.read("MAR-INF/MANIFEST.json"))["model"]
    return model


def names_in(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as opened:
        return set(opened.namelist())


def write_extras(model: Path) -> None:
    (model / "a.json").write_text("{}")
    (model / "b.txt").write_text("b")
    (model / "folder").mkdir()
    (model / "folder" / "c.txt").write_text("c")
    (model / "req.txt").write_text("")
    (model / "conf.yaml").write_text("minWorkers: 1\nmaxWorkers: 1\n")
    (model / "out").mkdir()


# As one finds it in a script that calls torch-model-archiver.
OLD_COMMAND = shlex.split("""
    --model-name x --version 1.0 --handler handler.py --serialized-file weights.pt
    --extra-files a.json,b.txt,folder,words.py --export-path out -f -r req.txt -c conf.yaml
    --runtime python --archive-format zip-store
""")


def test_a_script_that_called_torch_model_archiver_changes_one_word(make_mar, model: Path) -> None:
    write_extras(model)
    archiver = Path(sys.executable).with_name("torch-model-archiver")
    subprocess.run([archiver, *OLD_COMMAND], cwd=model, check=True)
    theirs = (model / "out" / "x.mar").rename(model / "theirs.mar")
    done = make_mar(*OLD_COMMAND, cwd=model)
    assert done.code == 0, done
    ours = model / "out" / "x.mar"
    expected = read_model(theirs)
    assert {key: read_model(ours)[key] for key in expected} == expected
    added = names_in(ours) - {name for name in names_in(theirs) if not name.endswith("/")}
    assert all(name == "MAR-INF/RECORD" or name.startswith("makemar/") for name in added)
    assert names_in(ours) >= {"a.json", "b.txt", "c.txt", "weights.pt", "req.txt", "conf.yaml"}


@pytest.mark.parametrize("version", [("-v", "7"), ("-v7",), ("--version", "7"), ("--version=7",)])
def test_version_is_the_model_s_however_it_is_written(make_mar, model: Path, version) -> None:
    flags = ("--model-name", "echo", "--handler", "handler.py", *version)
    assert make_mar("pack", *flags, cwd=model).code == 0
    assert read_model(model / "echo.mar")["modelVersion"] == "7"


def test_it_prints_path_size_and_the_record_s_digest_of_what_it_wrote(
    make_mar, model: Path
) -> None:
    done = make_mar(*FLAGS, cwd=model)
    size = (model / "echo.mar").stat().st_size
    with zipfile.ZipFile(model / "echo.mar") as archive:
        digest = hashlib.sha256(archive.read("MAR-INF/RECORD")).hexdigest()
    assert done.out == f"echo.mar\t{size}\trecord-sha256={digest}\n"
    assert done.err == ""
    again = make_mar(*FLAGS, "--force", "--json", cwd=model)
    assert again.data == {
        "path": "echo.mar",
        "size": size,
        "record_sha256": digest,
        "findings": [],
        "silenced": [],
    }


def test_the_same_inputs_give_the_same_bytes_in_another_folder(make_mar, model: Path) -> None:
    other = shutil.copytree(model, model.parent / "elsewhere", copy_function=shutil.copyfile)
    for folder in (model, other):
        assert make_mar(*FLAGS, cwd=folder).code == 0
    assert (model / "echo.mar").read_bytes() == (other / "echo.mar").read_bytes()


def test_a_mar_toml_in_the_folder_needs_no_flags(make_mar, model: Path) -> None:
    (model / "mar.toml").write_text(SPEC)
    assert make_mar("pack", cwd=model).code == 0
    assert names_in(model / "echo.mar") >= {"handler.py", "words.py"}
    assert make_mar("pack", model, "--dry-run").out.startswith("member\t")
    # Flags that do not describe a model leave it to the file.
    assert make_mar("--export-path", "there", "--force", cwd=model).code == 0
    assert (model / "there" / "echo.mar").exists()


def test_flags_beside_a_spec_replace_what_it_says(make_mar, model: Path, tmp_path: Path) -> None:
    (model / "mar.toml").write_text(SPEC)
    here = tmp_path / "here"
    here.mkdir()
    (here / "labels.json").write_text("{}")
    flags = (
        "--version",
        "2.0",
        "--extra-files",
        "labels.json",
        "--include",
        "labels.json=l/x.json",
    )
    done = make_mar("pack", "../model/mar.toml", *flags, cwd=here)
    assert done.code == 0, done
    assert read_model(here / "echo.mar")["modelVersion"] == "2.0"
    assert names_in(here / "echo.mar") >= {"handler.py", "labels.json", "l/x.json"}


def test_include_keeps_a_tree_and_no_vendor_leaves_makemar_out(make_mar, model: Path) -> None:
    (model / "web" / "static").mkdir(parents=True)
    (model / "web" / "static" / "s.css").write_text("")
    flags = ("--include", "web", "--include", "words.py=names/w.py", "--no-vendor")
    assert make_mar(*FLAGS, *flags, cwd=model).code == 0
    names = names_in(model / "echo.mar")
    assert names >= {"web/static/s.css", "names/w.py"}
    assert not any(name.startswith("makemar/") for name in names)


def test_every_archive_format_is_written_under_its_name(make_mar, model: Path) -> None:
    for name, made in (("default", "echo.mar"), ("tgz", "echo.tar.gz"), ("no-archive", "echo")):
        done = make_mar(*FLAGS, "--archive-format", name, "--json", cwd=model)
        assert done.data["path"] == made
        assert (model / made).exists()
    record = (model / "echo" / "MAR-INF" / "RECORD").read_bytes()
    assert done.data["record_sha256"] == hashlib.sha256(record).hexdigest()


def test_a_dry_run_tells_every_member_and_writes_nothing(make_mar, model: Path) -> None:
    flags = (*FLAGS, "--serialized-file", "weights.pt", "--export-path", "out", "--dry-run")
    done = make_mar(*flags, cwd=model)
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["member", "bytes", "because of", "source"]
    assert ["weights.pt", "2048"] in [row[:2] for row in rows]
    data = make_mar(*flags, "--json", cwd=model).data
    assert data["path"] == "out/echo.mar"
    assert {member["name"] for member in data["members"]} == {row[0] for row in rows[1:]}
    assert not (model / "out").exists()


def test_an_archive_that_is_there_is_kept_without_force(make_mar, model: Path) -> None:
    target = model / "echo.mar"
    target.write_text("precious")
    make_mar(*FLAGS, cwd=model).assert_failed("echo.mar", "--force")
    assert target.read_text() == "precious"
    assert make_mar(*FLAGS, "-f", cwd=model).code == 0
    assert zipfile.is_zipfile(target)


def test_default_and_zip_store_are_the_same_and_compress_deflates(make_mar, model: Path) -> None:
    digests = set()
    for kind in ("default", "zip-store"):
        assert make_mar(*FLAGS, "--archive-format", kind, "--force", cwd=model).code == 0
        digests.add(hashlib.sha256((model / "echo.mar").read_bytes()).hexdigest())
    assert len(digests) == 1
    stored = make_mar(*FLAGS, "--force", "--json", cwd=model).data
    deflated = make_mar(*FLAGS, "--force", "--compress", "--json", cwd=model).data
    assert deflated["size"] < stored["size"]
    assert deflated["record_sha256"] == stored["record_sha256"]
    done = make_mar(*FLAGS, "--compress", "--archive-format", "tgz", cwd=model)
    done.assert_failed("--compress", "leave it out")


def test_link_spares_a_directory_the_copy(make_mar, model: Path) -> None:
    (model / "big.pt").write_bytes(bytes(2 << 20))
    make_mar(*FLAGS, "--link", cwd=model).assert_failed("--link", "no-archive")
    flags = (*FLAGS, "--extra-files", "big.pt", "--link")
    assert make_mar(*flags, "--archive-format", "no-archive", cwd=model).code == 0
    assert check_record(model / "echo") == ()
    assert (model / "echo" / "big.pt").read_bytes() == bytes(2 << 20)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_temporary_folder_is_left_alone(
    make_mar, model: Path, tmp_path: Path, kind: str
) -> None:
    # torch-model-archiver deletes $TMPDIR/NAME first, and with it what it wrote there itself.
    temporary = tmp_path / "temporary"
    (temporary / "echo").mkdir(parents=True)
    (temporary / "echo" / "precious").write_text("")
    flags = (*FLAGS, "--archive-format", kind)
    env = {"TMPDIR": str(temporary)}
    assert make_mar(*flags, "--export-path", "out", cwd=model, env=env).code == 0
    assert [path.name for path in temporary.rglob("*")] == ["echo", "precious"]
    flags = (*flags, "--model-name", "other", "--export-path", str(temporary))
    assert make_mar(*flags, cwd=model, env=env).code == 0
    (made,) = (path for path in temporary.iterdir() if path.name != "echo")
    assert check_record(made) == ()


@pytest.mark.parametrize(
    ("flag", "file"),
    [
        ("--handler", "handlr.py"),
        ("--serialized-file", "wights.pt"),
        ("--model-file", "net.py"),
        ("--extra-files", "no.txt"),
        ("--include", "no"),
        ("--requirements-file", "req.txt"),
        ("--config-file", "conf.yaml"),
    ],
)
def test_a_missing_file_is_one_line_that_names_it(make_mar, model: Path, flag, file) -> None:
    make_mar(*FLAGS, flag, file, cwd=model).assert_failed(file, flag)
    assert not (model / "echo.mar").exists()


def test_a_syntax_error_in_the_handler_is_one_line_with_its_place(make_mar, model: Path) -> None:
    (model / "handler.py").write_text("class Echo:\n    def handle(self\n")
    make_mar(*FLAGS, "--export-path", "out", cwd=model).assert_failed("handler.py:2")
    # What stops a plan leaves no trace at all.
    assert not (model / "out").exists()


def test_all_that_is_wrong_is_told_at_once(make_mar, model: Path) -> None:
    flags = ("--serialized-file", "no.pt", "--extra-files", "no.txt")
    done = make_mar(*FLAGS, *flags, "--dry-run", "--json", cwd=model)
    assert done.code == 1
    assert [line.startswith("make-mar: ") for line in done.err.splitlines()] == [True, True]
    assert {finding["severity"] for finding in done.data["findings"]} == {"error"}


def test_flags_without_the_required_ones_are_a_usage_error(make_mar, model: Path) -> None:
    done = make_mar("--model-name", "echo", cwd=model)
    done.assert_failed("give --version and --handler", code=2)
    make_mar("pack", cwd=model).assert_failed("mar.toml", "--model-name", code=2)
    make_mar(*FLAGS, "--runtime", "ruby", cwd=model).assert_failed("ruby", code=2)


@pytest.mark.parametrize("contents", [b"[model", b"\xff\xfe", b"[model]\nnme = 1\n"])
def test_a_broken_spec_is_one_line(make_mar, model: Path, contents: bytes) -> None:
    (model / "mar.toml").write_bytes(contents)
    make_mar("pack", cwd=model).assert_failed("mar.toml")


def test_what_cannot_be_written_is_one_line(make_mar, model: Path) -> None:
    (model / "file").write_text("")
    make_mar(*FLAGS, "--export-path", "file", cwd=model).assert_failed("file")
    (model / "echo.mar").mkdir()
    make_mar(*FLAGS, "--force", cwd=model).assert_failed("echo.mar")
    make_mar("pack", ".", cwd=model).assert_failed("mar.toml")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to see a file in use")
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (signal.SIGKILL, "default"),
        *((number, kind) for number in (signal.SIGINT, signal.SIGTERM) for kind in KINDS),
    ],
)
def test_ended_midway_it_leaves_no_half_archive(
    make_mar, model: Path, number: int, kind: str
) -> None:
    big = model / "big.onnx"
    with big.open("wb") as stream:
        stream.truncate(3 << 30)  # sparse: long to read, quick to make
    flags = (*FLAGS, "--serialized-file", "big.onnx", "--export-path", "out")
    flags += ("--archive-format", kind)
    with make_mar.start(*flags, cwd=model) as process:
        deadline = time.monotonic() + 30
        while not opens(process.pid, big) and process.poll() is None:
            assert time.monotonic() < deadline
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    assert process.returncode == codes[number]
    assert (out, err) == (b"", b"")
    assert list((model / "out").iterdir()) == []


def opens(pid: int, file: Path) -> bool:
    try:
        return any(entry.resolve() == file for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
