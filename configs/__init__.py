"""TorchServe's two configuration files, read strictly and written exactly, and ready profiles."""

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
