"""The YAML of a `model-config.yaml`: whether it is one that TorchServe can live with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from makemar.configs.quoting import quote
from makemar.errors import ConfigError

if TYPE_CHECKING:
    import yaml

__all__ = ["FatalConfigError", "ModelDocument"]

# What PyYAML raises over wild scalars (`!!bool x`, `!!int ""`), documented and not.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_WHERE_KEYS_BELONG = "write `key: value` lines, such as `batchSize: 4`"


class FatalConfigError(ConfigError):
    """A `model-config.yaml` over which the server, its worker or every prediction fails.

    What is only ignored is a plain ConfigError. `code` is the stable name of the finding.
    """

    def __init__(
        self, message: str, *, code: str, line: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(message, line=line, key=key)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class ModelDocument:
    """The top level of a `model-config.yaml`, and the lines on which each key stands."""

    data: Mapping[str, object]
    lines: Mapping[str, tuple[int, ...]]

    @classmethod
    def parse(cls, text: str | bytes) -> ModelDocument:
        """Read a file's text or bytes, without running anything that it asks for.

        Raises FatalConfigError. TorchServe 0.12: an empty file kills the server at start and
        answers 500 to a registration, as do a list and a key that is no text; broken YAML is passed
        over, until the worker reads it again, as UTF-8, and fails.
        """
        root, data = _read(_decode(text))
        if data is None:
            raise FatalConfigError(
                "the file is empty, which stops the server; set something or leave it out",
                code="config-empty",
            )
        if root is None or not isinstance(data, dict):
            raise FatalConfigError(
                f"the top level must be a mapping, not a {type(data).__name__}; "
                + _WHERE_KEYS_BELONG,
                code="config-mapping",
                line=1,
            )
        lines: dict[str, tuple[int, ...]] = {}
        for node, _ in root.value:
            lines[node.value] = (*lines.get(node.value, ()), node.start_mark.line + 1)
        for key in data:
            if not isinstance(key, str):
                raise FatalConfigError(
                    f"the key {quote(key)} is not text; put it in quotes", code="config-key"
                )
        return cls(data=data, lines=lines)

    def line_of(self, key: str | None) -> int | None:
        """Return the line on which the server finds a key: the last of several."""
        return self.lines[key][-1] if key is not None and key in self.lines else None


def _decode(text: str | bytes) -> str:
    try:
        return text if isinstance(text, str) else text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _broken(f"byte {error.start} is not UTF-8; save the file as UTF-8") from error


def _read(text: str) -> tuple[yaml.MappingNode | None, object]:
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            data = None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise _broken(str(error.problem or error.context), line) from error
    except (yaml.YAMLError, *_UNREADABLE) as error:
        raise _broken((str(error) or type(error).__name__).splitlines()[0]) from error
    return root if isinstance(root, yaml.MappingNode) else None, data


def _broken(reason: str, line: int | None = None) -> FatalConfigError:
    return FatalConfigError(
        f"not YAML that the server can read: {reason}", code="config-syntax", line=line
    )
