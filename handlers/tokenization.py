"""A tokenizer from the files of an archive."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from makemar.handlers.errors import LoadError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["load_tokenizer"]

# What common models call the token that only fills space.
_PADS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "</s>")


def load_tokenizer(folder: Path, name: str, *, max_length: int | None) -> tuple[Tokenizer, int]:
    """Return the tokenizer of an archive, and the id to pad with.

    `name` is a file for the package tokenizers (tokenizer.json), or `transformers` to let that
    package find its own files. Texts are cut to `max_length` tokens, if it is given; padding and
    cutting that the file itself asks for are switched off: both depend on the neighbours, or
    silently lose text. Raises `LoadError` that names the file and the reason.
    """
    tokenizer = _with_transformers(folder) if name == "transformers" else _from_file(folder / name)
    pad_id = _pad_id(tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    return tokenizer, pad_id


def _from_file(path: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise LoadError(
            f"{path.name} needs the package tokenizers; add it to requirements.txt"
        ) from error
    if not path.is_file():
        raise LoadError(
            f"{path.name} is not in the archive; pack the tokenizer's file, or name it in "
            "handler.tokenizer"
        )
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing more exact
        raise LoadError(f"{path.name} is not a tokenizer's file: {error}") from error


def _with_transformers(folder: Path) -> Tokenizer:
    try:
        # By name: a package that few have, and that no type checker needs to find.
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise LoadError(
            "handler.tokenizer asks for transformers; add it to requirements.txt"
        ) from error
    try:
        # Code that lies in the archive's tokenizer files is not run.
        wrapped = transformers.AutoTokenizer.from_pretrained(
            folder, use_fast=True, local_files_only=True, trust_remote_code=False
        )
        tokenizer: Tokenizer = wrapped.backend_tokenizer
    except (OSError, ValueError, AttributeError) as error:
        raise LoadError(f"transformers finds no fast tokenizer in the archive: {error}") from error
    return tokenizer


def _pad_id(tokenizer: Tokenizer) -> int:
    """Return the id of the padding token; any will do, since the mask hides it."""
    if tokenizer.padding is not None:
        return int(tokenizer.padding["pad_id"])
    known = (tokenizer.token_to_id(token) for token in _PADS)
    return next((number for number in known if number is not None), 0)
