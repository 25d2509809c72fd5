from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from makemar.cli.config import ProfileName
from makemar.cli.whole_file import write_whole
from makemar.configs import PROFILES, load_profile, parse_server_config
from makemar.errors import ConfigError


def test_the_profiles_offered_are_the_profiles_there_are() -> None:
    assert tuple(name.value for name in ProfileName) == PROFILES


@pytest.mark.parametrize("name", PROFILES)
def test_init_prints_a_profile_with_its_reasons(make_mar, name: str) -> None:
    done = make_mar("config", "init", "--profile", name)
    assert (done.code, done.err) == (0, "")
    assert parse_server_config(done.out) == load_profile(name)
    assert done.out.startswith("# ")
    assert make_mar("config", "init", env={"MAKEMAR_PROFILE": name}).out == done.out


def test_init_writes_a_file_and_keeps_one_that_is_there(make_mar, tmp_path: Path) -> None:
    out = tmp_path / "config.properties"
    done = make_mar("config", "init", "--out", out)
    assert done.out == f"{out}\n"
    assert parse_server_config(out.read_text()) == load_profile("development")
    out.write_text("precious")
    make_mar("config", "init", "--out", out).assert_failed(str(out), "--force")
    assert out.read_text() == "precious"
    assert make_mar("config", "init", "--out", out, "--force").code == 0
    assert out.read_text() != "precious"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    out = tmp_path / "config.properties"
    real_sync = os.fsync

    def sync(descriptor: int) -> None:
        real_sync(descriptor)
        out.write_text("precious")

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "other", "text", force=False)
    assert (tmp_path / "other").read_text() == "text"
    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(ConfigError, match="is there already"):
        write_whole(out, "text", force=False)
    assert out.read_text() == "precious"
    write_whole(out, "text", force=True)
    assert out.read_text() == "text"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.properties", "other"]


def test_init_says_in_one_line_why_it_cannot_write(make_mar, tmp_path: Path) -> None:
    make_mar("config", "init", "--out", tmp_path).assert_failed("is a directory")
    make_mar("config", "init", "--out", tmp_path / "no" / "x").assert_failed("No such file")
    make_mar("config", "init", "--profile", "fast").assert_failed("fast", code=2)
