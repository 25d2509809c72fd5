"""KServe's protocol v1: `{"instances": [...]}` in, `{"predictions": [...]}` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from makemar.handlers.codecs.binary import open_b64
from makemar.handlers.codecs.envelope import Envelope, check_count
from makemar.handlers.errors import BadRequestError
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings

__all__ = ["InstancesEnvelope", "is_instances", "open_instances"]


class InstancesEnvelope(Envelope):
    """Samples of a v1 request."""

    def wrap(self, results: Sequence[object], request: Request, context: Any) -> object:  # noqa: ARG002
        """Return `{"predictions": [...]}`, one entry per instance."""
        return {"predictions": list(results)}


def is_instances(value: object) -> bool:
    """Tell a v1 request by its only required key."""
    return isinstance(value, dict) and "instances" in value


def open_instances(value: Mapping[str, Any], settings: HandlerSettings) -> Envelope:
    """Return one sample per instance; `{"b64": …}` becomes bytes, also as a named input."""
    instances = value["instances"]
    if not isinstance(instances, list):
        raise BadRequestError(
            f"instances is {type(instances).__name__}, not a list with one entry per sample"
        )
    check_count(len(instances), settings)
    parameters = value.get("parameters")
    return InstancesEnvelope(
        [_opened(instance) for instance in instances],
        several=True,
        parameters=parameters if isinstance(parameters, dict) else None,
    )


def _opened(instance: object) -> object:
    opened = open_b64(instance)
    if isinstance(opened, dict):
        return {name: open_b64(value) for name, value in opened.items()}
    return opened
