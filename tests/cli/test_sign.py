from __future__ import annotations

import json
import os
import pty
import select
import stat
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")
PROGRAM = Path(sys.executable).with_name("make-mar")
SECRET = "correct horse battery"


@pytest.fixture
def signed(make_mar, model: Path) -> Path:
    """A folder with echo.mar, its signature, and the keys `key` and `key.pub`."""
    assert make_mar(*FLAGS, cwd=model).code == 0
    assert make_mar("sign", "--new-key", "key", cwd=model).out == "key.pub\n"
    done = make_mar("sign", "echo.mar", "--key", "key", cwd=model)
    assert (done.code, done.out, done.err) == (0, "echo.mar.sig\n", "")
    return model


def test_what_was_signed_is_verified_with_the_public_key(make_mar, signed: Path) -> None:
    done = make_mar("verify", "echo.mar", "--key", "key.pub", cwd=signed)
    assert (done.code, done.err) == (0, "")
    assert make_mar("verify", "echo.mar", cwd=signed).code == 0


def test_a_changed_member_is_named(make_mar, signed: Path) -> None:
    data = (signed / "echo.mar").read_bytes()
    (signed / "echo.mar").write_bytes(data.replace(b'NAME = "echo"', b'NAME = "evil"'))
    done = make_mar("verify", "echo.mar", "--key", "key.pub", cwd=signed)
    assert done.code == 1
    assert "words.py" in done.err
    assert "Traceback" not in done.err


def test_another_key_and_no_signature_fail_with_one_line(make_mar, signed: Path) -> None:
    assert make_mar("sign", "--new-key", "other", cwd=signed).code == 0
    done = make_mar("verify", "echo.mar", "--key", "other.pub", cwd=signed)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "wrong-key" in done.err
    (signed / "echo.mar.sig").rename(signed / "elsewhere")
    done = make_mar("verify", "echo.mar", "--key", "key.pub", cwd=signed)
    assert done.code == 1
    assert "unsigned-archive" in done.err
    options = ("--key", "key.pub", "--signature", "elsewhere")
    assert make_mar("verify", "echo.mar", *options, cwd=signed).code == 0


def test_its_json_holds_the_findings_of_the_signature(make_mar, signed: Path) -> None:
    (signed / "echo.mar.sig").write_text("{}")
    done = make_mar("verify", "echo.mar", "--key", "key.pub", "--json", cwd=signed)
    assert done.code == 1
    (result,) = done.data
    assert [found["code"] for found in result["findings"]] == ["damaged-signature"]


def test_nothing_is_replaced_unasked(make_mar, signed: Path) -> None:
    make_mar("sign", "echo.mar", "--key", "key", cwd=signed).assert_failed("echo.mar.sig")
    assert make_mar("sign", "echo.mar", "--key", "key", "--force", cwd=signed).code == 0
    before = (signed / "key").read_bytes()
    make_mar("sign", "--new-key", "key", cwd=signed).assert_failed("key")
    assert (signed / "key").read_bytes() == before


def test_a_new_key_is_the_owner_s_alone(make_mar, signed: Path) -> None:
    assert stat.S_IMODE((signed / "key").stat().st_mode) == 0o600
    done = make_mar("sign", "--new-key", "second", "--json", cwd=signed)
    assert done.data == {"private_key": "second", "public_key": "second.pub"}
    assert "PRIVATE" not in done.out + done.err


def test_a_passphrase_comes_from_the_environment(make_mar, signed: Path) -> None:
    secret = {"MAKEMAR_KEY_PASSPHRASE": SECRET}
    done = make_mar("sign", "--new-key", "locked", cwd=signed, env=secret)
    assert done.code == 0
    assert "ENCRYPTED" in (signed / "locked").read_text()
    sign = ("sign", "echo.mar", "--key", "locked", "--force")
    make_mar(*sign, cwd=signed).assert_failed("MAKEMAR_KEY_PASSPHRASE", code=2)
    wrong = make_mar(*sign, cwd=signed, env={"MAKEMAR_KEY_PASSPHRASE": "wrong horse"})
    wrong.assert_failed("passphrase")
    assert "wrong horse" not in wrong.err
    done = make_mar(*sign, cwd=signed, env={**secret, "MAKEMAR_KEY": "locked"})
    assert done.code == 0
    assert SECRET not in done.out + done.err


class Terminal:
    """The program on a terminal of its own, and all that it showed there."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.deadline = time.monotonic() + 60
        self.shown = b""
        self.descriptor, inner = pty.openpty()
        self.process = subprocess.Popen(
            [str(PROGRAM), *arguments],
            cwd=folder,
            env={k: v for k, v in os.environ.items() if not k.startswith("MAKEMAR_")},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            # Without the terminal of whoever runs the tests, which it would ask instead.
            start_new_session=True,
        )
        os.close(inner)

    def read(self) -> bytes:
        """Return what comes next, nothing at the end."""
        left = self.deadline - time.monotonic()
        if not select.select([self.descriptor], [], [], max(left, 0))[0]:
            self.process.kill()
            raise TimeoutError(self.shown)
        try:
            part = os.read(self.descriptor, 1000)
        except OSError:  # Linux's end of a terminal
            part = b""
        self.shown += part
        return part

    def answer(self, question: bytes, text: str) -> None:
        """Wait for a question, and until what is typed is neither shown nor thrown away."""
        while question not in self.shown:
            assert self.read(), self.shown
        while termios.tcgetattr(self.descriptor)[3] & termios.ECHO:
            assert time.monotonic() < self.deadline, self.shown
        os.write(self.descriptor, f"{text}\n".encode())

    def close(self) -> int:
        """Read on to the end and return the exit code."""
        while self.read():
            pass
        os.close(self.descriptor)
        return self.process.wait(timeout=60)


def test_a_passphrase_is_asked_for_on_a_terminal_and_not_shown(signed: Path) -> None:
    terminal = Terminal(signed, "sign", "--new-key", "asked")
    terminal.answer(b"Passphrase", SECRET)
    terminal.answer(b"again", SECRET)
    assert terminal.close() == 0
    assert SECRET.encode() not in terminal.shown
    assert "ENCRYPTED" in (signed / "asked").read_text()
    terminal = Terminal(signed, "sign", "echo.mar", "--key", "asked", "--force")
    terminal.answer(b"Passphrase of asked", SECRET)
    assert terminal.close() == 0
    assert SECRET.encode() not in terminal.shown


def test_passphrases_that_differ_make_no_key(signed: Path) -> None:
    terminal = Terminal(signed, "sign", "--new-key", "asked")
    terminal.answer(b"Passphrase", SECRET)
    terminal.answer(b"again", "another")
    assert terminal.close() == 2
    assert not (signed / "asked").exists()


def test_wrong_usage_is_one_line(make_mar, signed: Path) -> None:
    make_mar("sign", cwd=signed).assert_failed("--new-key", code=2)
    make_mar("sign", "echo.mar", cwd=signed).assert_failed("--key", code=2)
    make_mar("sign", "echo.mar", "--new-key", "k", cwd=signed).assert_failed("--new-key", code=2)
    make_mar("sign", "echo.mar", "--key", "key.pub", cwd=signed).assert_failed("key.pub")
    make_mar("sign", "no.mar", "--key", "key", cwd=signed).assert_failed("no.mar")


def test_the_bill_of_materials_is_printed_or_written(make_mar, signed: Path) -> None:
    done = make_mar("sbom", "echo.mar", cwd=signed)
    assert (done.code, done.err) == (0, "")
    assert done.data["metadata"]["component"]["name"] == "echo"
    names = [item["name"] for item in done.data["components"]]
    assert {"handler.py", "words.py", "MAR-INF/RECORD"} <= set(names)
    assert make_mar("sbom", "echo.mar", "-o", "bom.json", cwd=signed).out == "bom.json\n"
    assert json.loads((signed / "bom.json").read_text()) == done.data
    make_mar("sbom", "echo.mar", "-o", "bom.json", cwd=signed).assert_failed("bom.json")
    make_mar("sbom", "no.mar", cwd=signed).assert_failed("no.mar")
