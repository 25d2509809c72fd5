from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from makemar.configs import (
    PROFILES,
    format_server_config,
    load_profile,
    parse_server_config,
    profile_text,
)
from makemar.configs.properties import property_lines
from makemar.errors import ConfigError


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_keeps_tokens_on_and_listens_on_loopback_only(name: str) -> None:
    config = load_profile(name)
    assert config.disable_token_authorization is False
    for field in dataclasses.fields(config):
        if field.name.endswith("_address"):
            value = getattr(config, field.name)
            assert value is not None
            assert value.removeprefix("http://").split(":")[0] == "127.0.0.1"


@pytest.mark.parametrize("name", PROFILES)
def test_every_line_of_a_profile_stands_under_a_reason(name: str) -> None:
    for block in profile_text(name).split("\n\n")[1:]:
        assert block.startswith("#"), block


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_read_the_same_by_the_server_s_launcher(name: str) -> None:
    # The launcher strips lines and knows no escapes and no continuations, so a profile uses none.
    simple = {
        key.strip(): value.strip()
        for line in profile_text(name).splitlines()
        if not line.startswith("#") and "=" in line
        for key, value in [line.split("=", 1)]
    }
    assert simple == {entry.key: entry.value for entry in property_lines(profile_text(name))}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_survives_writing(name: str) -> None:
    config = load_profile(name)
    assert parse_server_config(format_server_config(config)) == config


def test_production_lets_nobody_bring_a_model_from_elsewhere() -> None:
    config = load_profile("production")
    assert config.enable_model_api is False
    assert config.allowed_urls == ()
    assert config.install_py_dep_per_model is False


def test_an_unknown_profile_is_named_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean production"):
        load_profile("producton")
    with pytest.raises(ConfigError, match="development or production"):
        profile_text("../server.py")


def test_reading_a_profile_needs_neither_torch_nor_yaml() -> None:
    code = (
        "import sys, makemar.configs as c; c.load_profile('production');"
        "print(sorted({'torch', 'yaml', 'requests', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
