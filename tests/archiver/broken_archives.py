"""Archives that somebody made, broken each in its own way, and what verify and a server say.

`server` is what a real TorchServe 0.12 does with one: "fails" to register it or to start a worker,
or "loads" it, and then `reason` says why verify calls that an error none the less: what is loaded
is not what was packed, or cannot be asked. "absent" ones are not sent, with a reason too.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HANDLER = """
def handle(data, context):
    if data is None:
        return None
    return ["pong"] * len(data)
"""
MANIFEST, RECORD = "MAR-INF/MANIFEST.json", "MAR-INF/RECORD"


@dataclass(frozen=True, kw_only=True)
class Broken:
    """One broken archive: how it is made in a folder, the code of its error, what the server does.

    `also` are codes of errors that follow from that.
    """

    name: str
    build: Callable[[Path, str], Path]
    code: str
    server: str = "fails"
    reason: str = ""
    also: tuple[str, ...] = ()

    def make(self, folder: Path) -> Path:
        return self.build(folder, self.name)


BROKEN: list[Broken] = []


def broken(code: str, *also: str, server: str = "fails", reason: str = "") -> Callable:
    """Register a builder under its function's name."""

    def register(build: Callable[[Path, str], Path]) -> Callable[[Path, str], Path]:
        BROKEN.append(
            Broken(
                name=build.__name__, build=build, code=code, server=server, reason=reason, also=also
            )
        )
        return build

    return register


def manifest(name: str, **model: object) -> str:
    values = {"modelName": name, "handler": "handler.py", "modelVersion": "1.0", **model}
    return json.dumps({"runtime": "python", "model": values, "archiverVersion": "0.12.0"})


def files(name: str, **model: object) -> dict[str, str | bytes]:
    return {MANIFEST: manifest(name, **model), "handler.py": HANDLER}


def raw_bytes(contents: str | bytes) -> bytes:
    return contents.encode() if isinstance(contents, str) else contents


def zipped(
    path: Path, members: Mapping[str, str | bytes], method: int = zipfile.ZIP_STORED
) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
    return path


def mar(folder: Path, name: str, members: Mapping[str, str | bytes], **kwargs: int) -> Path:
    return zipped(folder / f"{name}.mar", members, **kwargs)


class Pipe(io.RawIOBase):
    """A sink that cannot seek: sizes then follow each member's contents."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(bytes(data))  # type: ignore[call-overload]


def piped(
    path: Path, members: Mapping[str, str | bytes], method: int, *, zip64: bool = False
) -> Path:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as archive:  # type: ignore[arg-type]
        for name, contents in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with archive.open(info, "w", force_zip64=zip64) as stream:
                stream.write(raw_bytes(contents))
    path.write_bytes(pipe.data)
    return path


def local(raw: bytes, data: bytes, **other: object) -> bytes:
    """Write a stored member with its local header; any field can be given another value."""
    values = {"flags": 0, "method": 0, "crc": zlib.crc32(data), "packed": len(data)}
    values |= {"size": len(data), **other}
    header = struct.pack(
        "<4s5H3I2H",
        b"PK\x03\x04",
        20,
        *(values[key] for key in ("flags", "method")),
        0,
        33,
        *(values[key] for key in ("crc", "packed", "size")),
        len(raw),
        0,
    )
    return header + raw + data


def central(raw: bytes, data: bytes, offset: int, **other: object) -> bytes:
    """Write the line of the central directory that goes with a stored member."""
    values = {"flags": 0, "method": 0, "crc": zlib.crc32(data), "packed": len(data)}
    values |= {"size": len(data), "mode": stat.S_IFREG | 0o644, **other}
    return (
        struct.pack(
            "<4s6H3I5H2I",
            b"PK\x01\x02",
            (3 << 8) | 20,
            20,
            *(values[key] for key in ("flags", "method")),
            0,
            33,
            *(values[key] for key in ("crc", "packed", "size")),
            len(raw),
            0,
            0,
            0,
            0,
            values["mode"] << 16,
            offset,
        )
        + raw
    )


def assemble(
    members: list[tuple[bytes, bytes]],
    *,
    locals_: Mapping[bytes, Mapping[str, object]] | None = None,
    centrals: Mapping[bytes, Mapping[str, object] | None] | None = None,
    between: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """Write a zip byte by byte; fields of either header can be changed by the member's name."""
    body, listed, count = b"", b"", 0
    for raw, data in members:
        body += (between or {}).get(raw, b"")
        change = (centrals or {}).get(raw, {})
        if change is not None:
            shown = bytes(change.get("raw", raw))  # type: ignore[call-overload]
            fields = {key: value for key, value in change.items() if key != "raw"}
            listed += central(shown, data, len(body), **fields)
            count += 1
        body += local(raw, data, **(locals_ or {}).get(raw, {}))
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(listed), len(body), 0)
    return body + listed + end


def members_of(name: str, **more: str | bytes) -> list[tuple[bytes, bytes]]:
    found = {**files(name), **more}
    return [(raw.encode(), raw_bytes(data)) for raw, data in found.items()]


def assembled(folder: Path, name: str, **how: object) -> Path:
    path = folder / f"{name}.mar"
    more = how.pop("more", {})
    path.write_bytes(assemble(members_of(name, **more), **how))  # type: ignore[arg-type]
    return path


def tarred(
    path: Path, members: list[tuple[str | tarfile.TarInfo, bytes]], mode: str = "w:gz"
) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for item, data in members:
            info = item if isinstance(item, tarfile.TarInfo) else tarfile.TarInfo(item)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def tar_members(name: str, top: str = "m/") -> list[tuple[str | tarfile.TarInfo, bytes]]:
    return [(top + member, raw_bytes(data)) for member, data in files(name).items()]


def tar_link(member: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(member)
    info.type, info.linkname = kind, target
    return info


def directory(folder: Path, name: str, members: Mapping[str, str | bytes]) -> Path:
    for member, data in members.items():
        path = folder / name / member
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw_bytes(data))
    return folder / name


# The zip itself.


@broken("not-an-archive")
def empty_file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    path.write_bytes(b"")
    return path


@broken("not-an-archive")
def text_named_mar(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    path.write_text("hello")
    return path


@broken("not-an-archive")
def zip_of_nothing(folder: Path, name: str) -> Path:
    return mar(folder, name, {})


@broken("leading-bytes")
def self_extracting(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name))
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    return path


@broken("truncated-archive")
def truncated_in_a_member(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name) | {"w.bin": os.urandom(10_000)})
    path.write_bytes(path.read_bytes()[:5000])
    return path


@broken("truncated-archive")
def truncated_in_a_deflated_member(folder: Path, name: str) -> Path:
    members = files(name) | {"w.bin": os.urandom(10_000)}
    path = mar(folder, name, members, method=zipfile.ZIP_DEFLATED)
    path.write_bytes(path.read_bytes()[:5000])
    return path


@broken("truncated-archive", server="loads", reason="only what comes before the cut is there")
def truncated_in_a_header(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name) | {"z.txt": "z"})
    contents = path.read_bytes()
    path.write_bytes(contents[: contents.index(b"z.txt") - 10])
    return path


@broken("no-central-directory", server="loads", reason="nothing tells whether more was in it")
def truncated_between_members(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name) | {"z.txt": "z"})
    contents = path.read_bytes()
    path.write_bytes(contents[: contents.index(b"z.txt") - 30])
    return path


@broken("damaged-member")
def flipped_byte(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name))
    path.write_bytes(path.read_bytes().replace(b'["pong"]', b'["ping"]', 1))
    return path


@broken("damaged-member")
def wrong_checksum(folder: Path, name: str) -> Path:
    return assembled(folder, name, locals_={b"handler.py": {"crc": 1}})


@broken("damaged-member")
def flipped_bit_in_a_deflated_member(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name) | {"w.txt": "pong " * 999}, method=zipfile.ZIP_DEFLATED)
    contents = bytearray(path.read_bytes())
    contents[contents.index(b"w.txt") + 12] ^= 0x10
    path.write_bytes(contents)
    return path


@broken("compression")
def bzip2_member(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name), method=zipfile.ZIP_BZIP2)


@broken("compression")
def lzma_member(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name), method=zipfile.ZIP_LZMA)


@broken("stored-descriptor")
def descriptor_behind_a_stored_member(folder: Path, name: str) -> Path:
    return piped(folder / f"{name}.mar", files(name), zipfile.ZIP_STORED)


@broken("zip64-descriptor")
def long_descriptor(folder: Path, name: str) -> Path:
    return piped(folder / f"{name}.mar", files(name), zipfile.ZIP_DEFLATED, zip64=True)


@broken("encrypted-member")
def encrypted_member(folder: Path, name: str) -> Path:
    return assembled(folder, name, locals_={b"handler.py": {"flags": 1}})


@broken("duplicate-member", server="loads", reason="of two members the last is loaded")
def duplicate_member(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    path.write_bytes(assemble([(b"handler.py", b"evil = 1\n"), *members_of(name)]))
    return path


@broken("duplicate-member", server="loads", reason="of two members the last is loaded")
def duplicate_by_another_spelling(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    path.write_bytes(assemble([(b"./handler.py", b"evil = 1\n"), *members_of(name)]))
    return path


@broken("hidden-member", server="loads", reason="a member that no other program shows is loaded")
def member_that_is_not_listed(folder: Path, name: str) -> Path:
    return assembled(folder, name, more={"evil.py": "x"}, centrals={b"evil.py": None})


@broken("header-mismatch", server="loads", reason="other programs see another name")
def another_name_in_the_list(folder: Path, name: str) -> Path:
    return assembled(folder, name, centrals={b"handler.py": {"raw": b"handles.py"}})


@broken("header-mismatch", server="loads", reason="other programs see another size")
def another_size_in_the_list(folder: Path, name: str) -> Path:
    return assembled(folder, name, centrals={b"handler.py": {"size": 3, "packed": 3}})


@broken(
    "lost-member",
    "stray-bytes",
    server="loads",
    reason="only what comes before the stray bytes is there",
)
def stray_bytes_between_members(folder: Path, name: str) -> Path:
    more = {"z.txt": "z"}
    return assembled(folder, name, more=more, between={b"z.txt": b"stray bytes"})


@broken("link-member", server="loads", reason="it is a file with the target's name in it")
def symbolic_link(folder: Path, name: str) -> Path:
    mode = stat.S_IFLNK | 0o777
    more = {"link.txt": "handler.py"}
    return assembled(folder, name, more=more, centrals={b"link.txt": {"mode": mode}})


@broken("unsafe-name")
def name_that_climbs_out(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"../evil.txt": "x"})


@broken("unsafe-name")
def name_that_climbs_about(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"a/../evil.txt": "x"})


@broken("absolute-name", server="loads", reason="it is unpacked below the model's folder")
def absolute_name(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"/evil.txt": "x"})


@broken("backslash-name", server="loads", reason="there is a file with a backslash, and no folder")
def backslashes_for_folders(folder: Path, name: str) -> Path:
    return assembled(folder, name, more={"data\\words.txt": "x"})


@broken("member-name")
def name_that_is_not_utf8(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    path.write_bytes(assemble([*members_of(name), ("größe.txt".encode("cp437"), b"x")]))
    return path


@broken("member-name")
def name_with_a_nul(folder: Path, name: str) -> Path:
    path = folder / f"{name}.mar"
    path.write_bytes(assemble([*members_of(name), (b"a\0b.txt", b"x")]))
    return path


@broken("member-name")
def name_that_is_too_long(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"a" * 300: "x"})


@broken("file-as-folder")
def file_and_folder_of_one_name(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"data": "x", "data/a.txt": "x"})


@broken("wrapper-directory")
def folder_around_everything(folder: Path, name: str) -> Path:
    return mar(folder, name, {f"{name}/{member}": data for member, data in files(name).items()})


@broken("archive-bomb", server="absent", reason="it would fill the disk")
def bomb(folder: Path, name: str) -> Path:
    path = mar(folder, name, files(name))
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("zeros.bin", "w") as stream,
    ):
        for _ in range(1040):
            stream.write(bytes(1 << 20))
    return path


# What the name promises.


@broken("misnamed-archive")
def tarball_named_mar(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.mar", tar_members(name))


@broken("misnamed-archive")
def zip_named_tar(folder: Path, name: str) -> Path:
    return zipped(folder / f"{name}.tar.gz", files(name))


@broken("misnamed-archive")
def zip_named_zip(folder: Path, name: str) -> Path:
    return zipped(folder / f"{name}.zip", files(name))


@broken("misnamed-archive")
def mar_in_capitals(folder: Path, name: str) -> Path:
    return zipped(folder / f"{name}.MAR", files(name))


@broken("archive-name")
def two_dots_in_the_name(folder: Path, name: str) -> Path:
    return zipped(folder / f"{name}..1.mar", files(name))


# Tarballs.


@broken("plain-tar")
def tar_without_gzip(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.tar.gz", tar_members(name), mode="w")


@broken("flat-tarball")
def tarball_without_a_top(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.tar.gz", tar_members(name, top=""))


@broken("wrapper-directory")
def tarball_with_two_tops(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.tar.gz", tar_members(name, top="a/b/"))


@broken("wrapper-directory")
def tarball_of_absolute_names(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.tar.gz", tar_members(name, top="/m/"))


@broken("link-member", "no-handler-class")
def tarball_with_a_link_for_a_handler(folder: Path, name: str) -> Path:
    head, (_, source) = tar_members(name)
    link = tar_link("m/handler.py", "real.py", tarfile.SYMTYPE)
    return tarred(folder / f"{name}.tar.gz", [head, ("m/real.py", source), (link, b"")])


@broken("link-member", server="loads", reason="the hard link is an empty file")
def tarball_with_a_hard_link(folder: Path, name: str) -> Path:
    link = tar_link("m/same.py", "m/handler.py", tarfile.LNKTYPE)
    return tarred(folder / f"{name}.tar.gz", [*tar_members(name), (link, b"")])


@broken("link-member", server="loads", reason="the pipe is an empty file")
def tarball_with_a_pipe(folder: Path, name: str) -> Path:
    pipe = tar_link("m/pipe", "", tarfile.FIFOTYPE)
    return tarred(folder / f"{name}.tar.gz", [*tar_members(name), (pipe, b"")])


@broken("unsafe-name")
def tarball_that_climbs_out(folder: Path, name: str) -> Path:
    return tarred(folder / f"{name}.tar.gz", [*tar_members(name), ("m/../../evil.txt", b"x")])


@broken("truncated-archive")
def truncated_tarball(folder: Path, name: str) -> Path:
    members = [*tar_members(name), ("m/w.bin", os.urandom(50_000))]
    path = tarred(folder / f"{name}.tar.gz", members)
    path.write_bytes(path.read_bytes()[:20_000])
    return path


@broken("damaged-archive")
def damaged_tarball(folder: Path, name: str) -> Path:
    members = [*tar_members(name), ("m/w.txt", b"pong " * 50_000)]
    path = tarred(folder / f"{name}.tar.gz", members)
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 0xFF
    path.write_bytes(contents)
    return path


@broken("gzip-members")
def tarball_of_two_gzip_members(folder: Path, name: str) -> Path:
    path = tarred(folder / f"{name}.tar.gz", tar_members(name))
    contents = gzip.decompress(path.read_bytes())
    half = contents.index(b"def handle") + 10
    path.write_bytes(gzip.compress(contents[:half]) + gzip.compress(contents[half:]))
    return path


@broken("damaged-archive", server="loads", reason="what follows the first end of the tar is lost")
def tarball_that_goes_on(folder: Path, name: str) -> Path:
    path = tarred(folder / f"{name}.tar.gz", tar_members(name))
    more = tarred(folder / "more.tar", [("m/z.txt", b"z")], mode="w")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + more.read_bytes()))
    more.unlink()
    return path


# Directories.


@broken("no-manifest")
def directory_of_nothing(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


@broken("wrapper-directory")
def directory_with_a_neighbour(folder: Path, name: str) -> Path:
    members = {f"{name}/{member}": data for member, data in files(name).items()}
    return directory(folder, name, members | {"README": "x"})


# The manifest.


def with_manifest(folder: Path, name: str, contents: str | bytes) -> Path:
    return mar(folder, name, files(name) | {MANIFEST: contents})


@broken("no-manifest")
def manifest_missing(folder: Path, name: str) -> Path:
    return mar(folder, name, {"handler.py": HANDLER})


@broken("manifest-empty")
def manifest_empty(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, "")


@broken("manifest-null")
def manifest_null(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, "null")


@broken("manifest-json")
def manifest_a_list(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, "[]")


@broken("manifest-json")
def manifest_cut(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name)[:-2])


@broken("manifest-json")
def manifest_with_a_comment(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, "// for Java only\n" + manifest(name))


@broken("manifest-bom")
def manifest_with_a_byte_order_mark(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, "\ufeff" + manifest(name))


@broken("manifest-encoding")
def manifest_in_latin_1(folder: Path, name: str) -> Path:
    text = manifest(name).replace("0.12.0", "größe")
    return with_manifest(folder, name, text.encode("latin-1"))


@broken("manifest-model")
def model_null(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, '{"model": null}')


@broken("manifest-model")
def model_a_text(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, '{"model": "m"}')


@broken("no-model-name", "no-handler")
def model_absent(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, '{"runtime": "python"}')


@broken("manifest-type")
def description_an_object(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, description={}))


@broken("no-model-name")
def model_name_missing(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, modelName=None))


@broken("model-name", server="loads", reason="no request can name it")
def model_name_with_a_slash(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(f"a/{name}"))


@broken("version", server="loads", reason="no request can name the version")
def version_with_a_slash(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, modelVersion="1/2"))


@broken("no-model-name")
def model_name_empty(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(""))


@broken("runtime")
def runtime_unknown(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name).replace('"python"', '"java"'))


@broken("runtime")
def runtime_null(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name).replace('"python"', "null"))


@broken("missing-file")
def config_file_missing(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, configFile="conf.yaml"))


@broken("missing-file", server="loads", reason="a file that was packed is gone, and nobody looks")
def serialized_file_missing(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, serializedFile="weights.pt"))


@broken("missing-file", server="loads", reason="a file that was packed is gone, and nobody looks")
def model_file_missing(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, modelFile="net.py"))


@broken("missing-file")
def requirements_missing(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, requirementsFile="requirements.txt"))


# The configuration.


def with_config(folder: Path, name: str, text: str) -> Path:
    return mar(folder, name, files(name, configFile="c.yaml") | {"c.yaml": text})


@broken("config-empty")
def config_empty(folder: Path, name: str) -> Path:
    return with_config(folder, name, "# nothing\n")


@broken("config-mapping")
def config_a_list(folder: Path, name: str) -> Path:
    return with_config(folder, name, "- a\n")


@broken("config-key")
def config_key_a_number(folder: Path, name: str) -> Path:
    return with_config(folder, name, "1: 2\n")


@broken("config-syntax")
def config_that_runs_code(folder: Path, name: str) -> Path:
    return with_config(folder, name, "a: !!python/object/apply:os.getcwd []\n")


# The handler.


def with_handler(folder: Path, name: str, source: str, handler: str = "handler.py") -> Path:
    return mar(folder, name, files(name, handler=handler) | {"handler.py": source})


@broken("no-handler")
def handler_missing_in_the_manifest(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, handler=None))


@broken("missing-handler")
def handler_file_missing(folder: Path, name: str) -> Path:
    return mar(folder, name, {MANIFEST: manifest(name)})


@broken("missing-handler")
def handler_misspelt(folder: Path, name: str) -> Path:
    return with_manifest(folder, name, manifest(name, handler="image_clasifier"))


@broken("missing-handler")
def handler_in_a_folder(folder: Path, name: str) -> Path:
    members = {MANIFEST: manifest(name, handler="src/serve.py"), "src/serve.py": HANDLER}
    return mar(folder, name, members)


@broken("syntax-error")
def handler_with_a_syntax_error(folder: Path, name: str) -> Path:
    return with_handler(folder, name, "def handle(:\n")


@broken("many-handler-classes")
def handler_of_two_classes(folder: Path, name: str) -> Path:
    body = "\n    def initialize(self, c): ...\n    def handle(self, d, c): ...\n"
    return with_handler(folder, name, f"class A:{body}class B:{body}")


@broken("no-handler-class")
def handler_that_is_only_imported(folder: Path, name: str) -> Path:
    return with_handler(folder, name, "from ts.torch_handler.base_handler import BaseHandler\n")


@broken("handler-constructor")
def handler_that_wants_arguments(folder: Path, name: str) -> Path:
    methods = "    def initialize(self, c): ...\n    def handle(self, d, c): ...\n"
    source = f"class A:\n    def __init__(self, size): ...\n{methods}"
    return with_handler(folder, name, source)


@broken("class-as-function")
def class_behind_the_colon(folder: Path, name: str) -> Path:
    source = "class A:\n    def initialize(self, c): ...\n    def handle(self, d, c): ...\n"
    return with_handler(folder, name, source, handler="handler.py:A")


@broken("missing-function", server="loads", reason="the class is called, not the function named")
def function_that_is_not_there(folder: Path, name: str) -> Path:
    methods = (
        "    def initialize(self, c): ...\n    def handle(self, d, c): return ['pong'] * len(d)\n"
    )
    return with_handler(folder, name, f"class A:\n{methods}", handler="handler.py:nope")


@broken("handler-name")
def handler_named_like_a_built_in_module(folder: Path, name: str) -> Path:
    return mar(folder, name, {MANIFEST: manifest(name, handler="time.py"), "time.py": HANDLER})


@broken("shadowed-module")
def module_of_the_worker_replaced(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"json.py": "x = 1\n"})


@broken("shadowed-module")
def package_of_the_server_replaced(folder: Path, name: str) -> Path:
    return mar(folder, name, files(name) | {"ts/__init__.py": ""})


# RECORD.


def with_record(folder: Path, name: str, record: str) -> Path:
    return mar(folder, name, files(name) | {RECORD: record})


@broken("missing-member", server="loads", reason="a file that was packed is gone")
def member_gone(folder: Path, name: str) -> Path:
    import hashlib

    from makemar.archiver.record import RecordLine, encode_digest, format_record

    lines = [
        RecordLine(
            name=member,
            digest=encode_digest(hashlib.sha256(raw_bytes(data)).digest()),
            size=len(raw_bytes(data)),
        )
        for member, data in (files(name) | {"gone.txt": "x"}).items()
    ]
    return with_record(folder, name, format_record(lines))


@broken("unrecorded-member", server="loads", reason="a file that was not packed is there")
def member_added(folder: Path, name: str) -> Path:
    return with_record(folder, name, "")


@broken("damaged-record", server="loads", reason="nothing tells what was packed")
def record_damaged(folder: Path, name: str) -> Path:
    return with_record(folder, name, "x,y\n")
