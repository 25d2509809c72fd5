"""How inputs arrive and outputs leave: protocols, tensors, pictures, text."""

from makemar.handlers.codecs.envelope import Envelope, open_envelope

__all__ = ["Envelope", "open_envelope"]
