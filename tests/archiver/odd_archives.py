"""Archives that look odd and are right: TorchServe loads and serves what was packed."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from broken_archives import (
    HANDLER,
    MANIFEST,
    directory,
    files,
    manifest,
    mar,
    piped,
    tar_members,
    tarred,
    with_manifest,
)

CLASS = """
from helper import REPLY


class Service:
    def initialize(self, context): ...
    def handle(self, data, context): return [REPLY] * len(data)
"""

ODD: dict[str, Callable[[Path, str], Path]] = {}


def odd(build: Callable[[Path, str], Path]) -> Callable[[Path, str], Path]:
    ODD[build.__name__] = build
    return build


@odd
def deflated_with_descriptors(folder: Path, name: str) -> Path:
    return piped(folder / f"{name}.mar", files(name), zipfile.ZIP_DEFLATED)


@odd
def long_local_headers(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files(name).items():
            with archive.open(member, "w", force_zip64=True) as stream:
                stream.write(data.encode())
    return path


@odd
def comment_at_the_end(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"made by hand"
    return path


@odd
def folder_entries_and_dots(folder: Path, name: str) -> Path:
    members = {f"./{member}": data for member, data in files(name).items()}
    return mar(folder, name, {"./": "", "./MAR-INF/": "", "data/": "", **members})


@odd
def names_for_one_system_only(folder: Path, name: str) -> Path:
    more = {"README": "1", "readme": "2", "aux.txt": "3", "a\u0308.txt": "4", "a?.txt": "5"}
    return mar(folder, name, files(name) | more)


@odd
def modules_that_do_no_harm(folder: Path, name: str) -> Path:
    more = {"statistics.py": "x = 1", "time.py": "x = 1", "requests/__init__.py": "", "test.py": ""}
    return mar(folder, name, files(name) | more)


@odd
def tarball_of_dots(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.tgz", tar_members(name, top="./"))


@odd
def tarball_of_two_tops(folder: Path, name: str) -> Path:
    (manifest_name, text), (handler, source) = tar_members(name, top="")
    members = [(f"a/{manifest_name}", text), (f"b/{handler}", source)]
    return tarred(folder / f"{name}.model", members)


@odd
def tarball_with_a_flat_handler(folder: Path, name: str) -> Path:
    head, (_, source) = tar_members(name)
    return tarred(folder / f"{name}.tar.gz", [head, ("handler.py", source)])


@odd
def tarball_with_more_behind(folder: Path, name: str) -> Path:
    path = tarred(folder / f"{name}.tar.gz", tar_members(name))
    path.write_bytes(path.read_bytes() + gzip.compress(b"x"))
    return path


@odd
def tarball_with_long_names(folder: Path, name: str) -> Path:
    long = ("m/" + "d" * 120 + "/" + "ä" * 60 + ".txt", b"x")
    return tarred(folder / f"{name}.tar.gz", [*tar_members(name), long])


@odd
def directory_with_links_and_a_pipe(folder: Path, name: str) -> Path:
    outside = folder / f".{name}"
    outside.mkdir()
    (outside / "handler.py").write_text(HANDLER)
    path = directory(folder, name, {MANIFEST: manifest(name)})
    (path / "handler.py").symlink_to(outside / "handler.py")
    (path / "lost.txt").symlink_to("nowhere")
    (path / "again").symlink_to(".")
    os.mkfifo(path / "pipe")
    return path


@odd
def directory_in_a_directory(folder: Path, name: str) -> Path:
    return directory(folder, name, {f"inner/{k}": v for k, v in files(name).items()})


@odd
def key_that_comes_twice(folder: Path, name: str) -> Path:
    text = manifest(name).replace('{"modelName"', '{"modelName": "first", "modelName"')
    return with_manifest(folder, name, text)


@odd
def version_null(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, modelVersion=None))


@odd
def version_a_number(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, modelVersion=1.10, envelope="body"))


@odd
def handler_in_a_package(folder: Path, name: str) -> Path:
    members = {"foo/__init__.py": "", "foo/h.py": HANDLER, "foo/u.py": ""}
    return mar(folder, name, {MANIFEST: manifest(name, handler="foo.h:handle")} | members)


@odd
def handler_in_a_folder_with_a_function(folder: Path, name: str) -> Path:
    members = {MANIFEST: manifest(name, handler="foo/h.py:handle"), "foo/h.py": HANDLER}
    return mar(folder, name, members)


@odd
def handler_class_with_a_helper(folder: Path, name: str) -> Path:
    members = {"my-handler.py": CLASS, "helper.py": "REPLY = 'pong'\n"}
    return mar(folder, name, {MANIFEST: manifest(name, handler="my-handler")} | members)


@odd
def handler_that_beats_a_built_in(folder: Path, name: str) -> Path:
    members = {MANIFEST: manifest(name, handler="image_classifier"), "image_classifier.py": HANDLER}
    return mar(folder, name, members)


@odd
def config_that_is_ignored_in_part(folder: Path, name: str) -> Path:
    config = "minWorkers: 1\nmaxWorkers: 1\nbatch_size: 4\nmaxBatchDelay: 0\n"
    return mar(folder, name, files(name, configFile="conf/c.yaml") | {"conf/c.yaml": config})


@odd
def whole_but_for_the_central_directory(folder: Path, name: str) -> Path:
    path = packed_by_makemar(folder, name, "zip-store")
    contents = path.read_bytes()
    path.write_bytes(contents[: contents.index(b"PK\x01\x02")])
    return path


def packed_by_makemar(folder: Path, name: str, kind: str) -> Path:
    """Pack a project with makemar itself."""
    from makemar.archiver import ArchiveFormat, ArchiveSpec, plan_archive, write_archive

    source = project(folder, name)
    spec = ArchiveSpec(
        model_name=name,
        version="1.0",
        handler="handler.py",
        serialized_file=Path("weights.bin"),
        config_file=Path("c.yaml"),
        base=source,
    )
    shape = ArchiveFormat(kind)
    target = folder / f"{name}{shape.suffix}"
    return write_archive(plan_archive(spec), target, archive_format=shape)


def packed_by_torch_model_archiver(folder: Path, name: str, kind: str) -> Path:
    """Pack the same project with torch-model-archiver."""
    source = project(folder, name)
    temporary = source / "tmp"
    temporary.mkdir()
    out = source / "out"
    out.mkdir()
    words = "--version 1.0 --handler handler.py --serialized-file weights.bin --config-file c.yaml"
    subprocess.run(
        [
            *(sys.executable, "-m", "model_archiver.model_packaging", "--model-name", name),
            *(*words.split(), "--export-path", str(out), "--archive-format", kind),
        ],
        cwd=source,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=True,
        capture_output=True,
    )
    (made,) = out.iterdir()
    return Path(shutil.move(made, folder / made.name))


def project(folder: Path, name: str) -> Path:
    source = folder / f".{name}"
    source.mkdir()
    (source / "handler.py").write_text(HANDLER)
    (source / "weights.bin").write_bytes(bytes(range(256)) * 999)
    (source / "c.yaml").write_text("minWorkers: 1\nmaxWorkers: 1\n")
    return source


def made_by(pack: Callable[[Path, str, str], Path], kind: str) -> Callable[[Path, str], Path]:
    return lambda folder, name: pack(folder, name, kind)


for _kind in ("zip-store", "tgz", "no-archive"):
    ODD[f"makemar_{_kind}"] = made_by(packed_by_makemar, _kind)
for _kind in ("default", "zip-store", "tgz", "no-archive"):
    ODD[f"old_{_kind}"] = made_by(packed_by_torch_model_archiver, _kind)
