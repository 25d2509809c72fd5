"""The `Accept` header: which of the formats that makemar writes a client wants most."""

from __future__ import annotations

import functools

from makemar.handlers.codecs.npy import NPY_TYPES
from makemar.handlers.codecs.tensor_file import SAFETENSORS_TYPES

__all__ = ["BINARY_TYPE", "JSON_TYPE", "TEXT_TYPE", "wanted_types"]

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain"
# Only a protocol that frames its binary data can answer so.
BINARY_TYPE = "application/octet-stream"
# In the order in which they are offered to a client that takes several alike.
_OFFERS = (JSON_TYPE, *NPY_TYPES, *SAFETENSORS_TYPES, TEXT_TYPE, BINARY_TYPE)


@functools.lru_cache(maxsize=256)
def wanted_types(accept: str, natural: str = JSON_TYPE) -> tuple[str, ...]:
    """Return the media types to try, best first: by quality, then how exactly each was named.

    `natural` is offered first where the client does not care. A header without one readable item
    asks for nothing, and gets everything. RFC 9110, 12.5.1.
    """
    ranges = _ranges(accept)
    if not ranges:
        return (natural,)
    offers = sorted(_OFFERS, key=lambda offer: offer != natural)
    rated = [(*_rating(offer, ranges), offer) for offer in offers]
    rated.sort(key=lambda rating: (-rating[0], -rating[1]))  # stable: the order of offers stays
    return tuple(offer for quality, _, offer in rated if quality > 0)


def _ranges(accept: str) -> dict[str, float]:
    """Return the quality of each media range; what is malformed is left out."""
    ranges = {}
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        kind, slash, subtype = name.partition("/")
        if slash and kind and subtype:
            ranges[name] = _quality(parameters)
    return ranges


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, text = parameter.partition("=")
        if key.strip() == "q":
            try:
                quality = float(text)
            except ValueError:
                return 0.0
            return quality if 0 <= quality <= 1 else 0.0
    return 1.0


def _rating(offer: str, ranges: dict[str, float]) -> tuple[float, int]:
    """Return quality and exactness: the most exact range decides, even when it says no."""
    candidates = (offer, f"{offer.partition('/')[0]}/*", "*/*")
    for exactness, candidate in zip((2, 1, 0), candidates):
        if candidate in ranges:
            return ranges[candidate], exactness
    return 0.0, 0
