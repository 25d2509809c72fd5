"""What a server can be asked about: one rule for packing and for the clients."""

from __future__ import annotations

import pytest

from makemar.archiver import is_addressable


@pytest.mark.parametrize("name", ["m", "1.0", "...", "we ird", "größe", "a%2Fb", "token", "all"])
def test_a_name_that_fits_into_a_url_s_path_can_be_asked_about(name: str) -> None:
    assert is_addressable(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "1\0", "a\n", "a\x9f", "\udc80"])
def test_a_name_that_a_path_would_lose_or_split_cannot(name: str) -> None:
    assert not is_addressable(name)
