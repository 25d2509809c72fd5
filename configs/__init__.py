"""TorchServe's two configuration files, read strictly and written exactly, and ready profiles.

Names are loaded when they are first used: `_HOMES` says where each lives.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from makemar.configs.model import (
        ModelConfig,
        check_model_config,
        format_model_config,
        parse_model_config,
    )
    from makemar.configs.model_defaults import ModelDefaults
    from makemar.configs.model_document import FatalConfigError, ModelDocument
    from makemar.configs.profile import PROFILES, load_profile, profile_text
    from makemar.configs.properties import format_properties, parse_properties
    from makemar.configs.runtimes import RUNTIMES
    from makemar.configs.server import ServerConfig, format_server_config, parse_server_config

__all__ = [
    "PROFILES",
    "RUNTIMES",
    "FatalConfigError",
    "ModelConfig",
    "ModelDefaults",
    "ModelDocument",
    "ServerConfig",
    "check_model_config",
    "format_model_config",
    "format_properties",
    "format_server_config",
    "load_profile",
    "parse_model_config",
    "parse_properties",
    "parse_server_config",
    "profile_text",
]

_HOMES = {
    "PROFILES": "profile",
    "RUNTIMES": "runtimes",
    "FatalConfigError": "model_document",
    "ModelConfig": "model",
    "ModelDefaults": "model_defaults",
    "ModelDocument": "model_document",
    "ServerConfig": "server",
    "check_model_config": "model",
    "format_model_config": "model",
    "format_properties": "properties",
    "format_server_config": "server",
    "load_profile": "profile",
    "parse_model_config": "model",
    "parse_properties": "properties",
    "parse_server_config": "server",
    "profile_text": "profile",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
