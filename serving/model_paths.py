"""How a model's name and version are written into a URL."""

from __future__ import annotations

from urllib.parse import quote

from makemar.archiver import is_addressable as addressable
from makemar.errors import ServingError

# What can be packed and what can be asked about follow one rule, which the archiver keeps.
__all__ = ["addressable", "model_path", "model_title"]


def model_path(model: str, version: str | None = None) -> tuple[str, ...]:
    """Encode a name, and a version unless None, as segments of a path.

    Raises ServingError for one that cannot be addressed.
    """
    named = (("model name", model), ("model version", version))
    return tuple(_segment(text, what) for what, text in named if text is not None)


def model_title(model: str, version: str | None = None) -> str:
    """Name a model in a sentence."""
    return f"model {model!r}" + ("" if version is None else f" version {version}")


def _segment(text: str, what: str) -> str:
    if not addressable(text):
        raise ServingError(
            f"TorchServe cannot address the {what} {text!r}; use one that is not empty, '.' or "
            "'..', and has no slash and no control character"
        )
    encoded = quote(text, safe="")
    # TorchServe 0.12 takes any management request whose raw URI contains `/token` for a renewal of
    # keys: a model called `tokenizer` answers only when its first letter is encoded.
    return "%74" + encoded[1:] if encoded.startswith("token") else encoded
