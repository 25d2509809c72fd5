"""Ready-made `config.properties` files, each line with its reason."""

from __future__ import annotations

from importlib.resources import files

from makemar.configs.server import ServerConfig, parse_server_config
from makemar.configs.spelling import near_match
from makemar.errors import ConfigError

__all__ = ["PROFILES", "load_profile", "profile_text"]

PROFILES = ("development", "production")


def profile_text(name: str) -> str:
    """Return the commented text of a profile; raise ConfigError for a name not in PROFILES."""
    if name not in PROFILES:
        hint = near_match(name, PROFILES) or " or ".join(PROFILES)
        raise ConfigError(f"there is no profile {name!r}; did you mean {hint}?")
    resource = files("makemar.configs").joinpath("profiles", f"{name}.properties")
    return resource.read_text(encoding="ascii")


def load_profile(name: str) -> ServerConfig:
    """Return a profile as a ServerConfig; raise ConfigError for a name not in PROFILES."""
    return parse_server_config(profile_text(name))
