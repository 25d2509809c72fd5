"""What one registration adds to a server, and how to take it back."""

from __future__ import annotations

import contextlib
from typing import Protocol

from makemar.errors import MakeMarError, ModelNotFoundError, ServingError
from makemar.serving.descriptions import ModelDescription, ModelEntry
from makemar.serving.model_paths import addressable

__all__ = ["Registration", "Registry"]

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
    """Remembers what was registered before, to find what is new afterwards.

    TorchServe 0.12 does not name the model that an asynchronous registration has added. `name` is
    the model's name if it is known before, else None.
    """

    def __init__(self, registry: Registry, name: str | None) -> None:
        self._registry = registry
        self._name = name
        self._before = self._registered()

    def added(self, url: str) -> Version:
        """Return name and version of what came from `url`; raise ServingError if nothing did."""
        added = sorted(self._registered() - self._before)
        if len(added) > 1:  # another client registers too
            added = [item for item in added if self._source(item) == url] or added
        if not added:
            raise ServingError(
                f"registering {url!r}: the server took it but lists no new model; unless another "
                "client removed it, give a model_name without a slash"
            )
        return added[0]

    def undo(self) -> None:
        """Unregister whatever is new, as far as that can be done."""
        with contextlib.suppress(MakeMarError):
            for name, version in self._registered() - self._before:
                self._registry.unregister(name, version)

    def _registered(self) -> frozenset[Version]:
        """Collect the versions that are registered, of one name or of every name."""
        if self._name is not None:
            names = [self._name]
        else:
            names = [entry.name for entry in self._registry.models()]
        found: set[Version] = set()
        for name in filter(addressable, names):
            # There may be none yet, and somebody may unregister one meanwhile.
            with contextlib.suppress(ModelNotFoundError):
                versions = self._registry.describe(name, "all")
                found.update((item.name, item.version) for item in versions)
        return frozenset(found)

    def _source(self, item: Version) -> str:
        return self._registry.describe(*item)[0].url
