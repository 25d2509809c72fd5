"""The whole handler: tokens, padding, pooling and batches are in makemar's TextEmbedder."""

from makemar.handlers import TextEmbedder


class Handler(TextEmbedder):
    """Turn a sentence into a vector of 384 numbers; close in meaning is close in angle."""
