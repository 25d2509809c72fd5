"""How inputs arrive and outputs leave: protocols, tensors, files, text."""

from makemar.handlers.codecs.binary import to_bytes
from makemar.handlers.codecs.envelope import Envelope, check_count, wants_arrays
from makemar.handlers.codecs.fields import check_size
from makemar.handlers.codecs.opening import open_envelope, open_single
from makemar.handlers.codecs.tensor import to_tensor
from makemar.handlers.codecs.text import to_text

__all__ = [
    "Envelope",
    "check_count",
    "check_size",
    "open_envelope",
    "open_single",
    "to_bytes",
    "to_tensor",
    "to_text",
    "wants_arrays",
]
