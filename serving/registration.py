"""What one registration adds to a server, and how to take it back."""

from __future__ import annotations

import contextlib
from typing import Protocol

from makemar.errors import (
    MakeMarError,
    ModelNotFoundError,
    ResponseError,
    ServingError,
    WorkersFailedError,
)
from makemar.serving.descriptions import ModelDescription, ModelEntry
from makemar.serving.model_paths import addressable

__all__ = ["Registration", "Registry", "stays_registered"]

Version = tuple[str, str]  # name and version


class Registry(Protocol):
    """The calls of a management client that are needed here."""

    def models(self) -> tuple[ModelEntry, ...]:
        """List every registered model."""

    def describe(self, model: str, version: str | None = None) -> tuple[ModelDescription, ...]:
        """Describe a version of a model, or all."""

    def unregister(self, model: str, version: str | None = None) -> None:
        """Remove a version."""


class Registration:
    """Remembers what was registered before `url` is, to find what came of it afterwards.

    TorchServe 0.12 does not name the model that an asynchronous registration has added, and other
    clients may register meanwhile: what is new and came from `url`, under `name` if that is known
    before, is this one's. Where that fits more than one, nobody can tell.
    """

    def __init__(self, registry: Registry, url: str, name: str | None) -> None:
        self._registry = registry
        self._url = url
        self._name = name
        self._before = frozenset(self._registered())

    def added(self) -> Version:
        """Return name and version of what was added; raise ServingError if that is not known."""
        added = sorted(self._own())
        if not added:
            raise ServingError(
                f"registering {self._url!r}: the server took it but lists no new model; unless "
                "another client removed it, give a model_name without a slash"
            )
        if len(added) > 1:
            listed = " and ".join(f"{name!r} {version}" for name, version in added)
            raise ServingError(
                f"registering {self._url!r}: another client registered it at the same time, and "
                f"{listed} are both new; give a model_name to tell them apart"
            )
        return added[0]

    def undo(self) -> None:
        """Unregister what was added, if that is known and can be done."""
        with contextlib.suppress(MakeMarError):
            self._registry.unregister(*self.added())

    def _own(self) -> list[Version]:
        found = self._registered()
        return [
            item for item, url in found.items() if url == self._url and item not in self._before
        ]

    def _registered(self) -> dict[Version, str]:
        """Collect the versions of one name, or of every name, and where each came from."""
        if self._name is not None:
            names = [self._name]
        else:
            names = [entry.name for entry in self._registry.models()]
        found: dict[Version, str] = {}
        for name in filter(addressable, names):
            # There may be none yet, and somebody may unregister one meanwhile.
            with contextlib.suppress(ModelNotFoundError):
                versions = self._registry.describe(name, "all")
                found.update({(item.name, item.version): item.url for item in versions})
        return found


def stays_registered(error: ResponseError) -> bool:
    """Whether the server keeps the model whose registration it refused in this way.

    TorchServe 0.12: it does so without workers, when the model's requirements cannot be installed
    (a plain ModelException) or its workers do not come up; another try is a conflict then. After
    every other refusal nothing is registered.
    """
    return isinstance(error, WorkersFailedError) or error.kind == "ModelException"
