from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sys.executable).with_name("make-mar")

HANDLER = """\
import json

from words import NAME


class Echo:
    def initialize(self, context):
        self.context = context

    def handle(self, data, context):
        replies = []
        for index, row in enumerate(data):
            body = row.get("body")
            if isinstance(body, (bytes, bytearray)) and bytes(body) == b"bad":
                context.set_response_status(400, "bad input", index)
                replies.append(json.dumps({"message": "cannot read this"}))
            elif isinstance(body, (bytes, bytearray)) and bytes(body) == b"binary":
                replies.append(b"\\xff\\x00\\xfe")
            else:
                kind = type(body).__name__
                replies.append(json.dumps({"name": NAME, "kind": kind, "batch": len(data)}))
        return replies
"""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What one run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    def assert_failed(self, *words: str, code: int = 1) -> None:
        """It failed with one clear line on stderr, no traceback, and no data."""
        assert self.code == code, self
        assert self.out == "", self
        assert self.err.startswith("make-mar: "), self
        assert self.err.count("\n") == 1, self
        for word in words:
            assert word in self.err, self


class MakeMar:
    """The real program, run from a folder of its own unless told otherwise."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def start(
        self, *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start it and return the process, with pipes."""
        # What would change what the program does is taken out of the environment.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKEMAR_", "SOURCE_"))}
        return subprocess.Popen(
            [str(PROGRAM), *map(str, arguments)],
            cwd=cwd or self.home,
            env=kept | {"COLUMNS": "100"} | dict(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(
        self,
        *arguments: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Done:
        """Run it to its end."""
        with self.start(*arguments, cwd=cwd, env=env) as process:
            out, err = process.communicate(stdin, timeout=150)
        return Done(
            code=process.returncode,
            out=out.decode(errors="surrogateescape"),
            err=err.decode(),
        )


@pytest.fixture(scope="session")
def make_mar(tmp_path_factory: pytest.TempPathFactory) -> MakeMar:
    """Runs `make-mar`."""
    return MakeMar(tmp_path_factory.mktemp("home"))


def write_model(folder: Path, *, name: str = "echo") -> Path:
    """Write a handler, a module that it imports and weights into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "handler.py").write_text(HANDLER)
    (folder / "words.py").write_text(f'NAME = "{name}"\n')
    (folder / "weights.pt").write_bytes(bytes(range(256)) * 8)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a model that is ready to be packed."""
    return write_model(tmp_path / "model")


FLAGS: Sequence[str] = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that runs, detached, with model echo 1.0 on it."""

    folder: Path
    started: Any

    @property
    def env(self) -> dict[str, str]:
        return {"MAKEMAR_WORK_DIR": str(self.folder / "work")}


@pytest.fixture(scope="module")
def served(make_mar: MakeMar, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Pack, serve --detach, and stop in the end: all with the program itself."""
    folder = write_model(tmp_path_factory.mktemp("served"))
    packed = make_mar(*FLAGS, cwd=folder)
    assert packed.code == 0, packed
    options = ("--port", "0", "--work-dir", "work", "--batch-size", "4", "--max-batch-delay", "200")
    started = make_mar("serve", "echo.mar", *options, "--detach", "--json", cwd=folder)
    assert started.code == 0, started
    try:
        yield Served(folder=folder, started=started.data)
    finally:
        stopped = make_mar("stop", "--work-dir", "work", cwd=folder)
    assert stopped.code == 0, stopped
    assert not (folder / "work" / "key_file.json").exists()
