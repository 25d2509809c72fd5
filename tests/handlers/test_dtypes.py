"""Types of numbers have one name, wherever they are named."""

import pytest
import torch

from makemar.handlers.dtypes import DTYPES, PRECISIONS, name_of


@pytest.mark.parametrize("name", DTYPES)
def test_a_name_and_its_type_belong_together(name):
    assert DTYPES[name] is getattr(torch, name)
    assert name_of(DTYPES[name]) == name


def test_every_precision_is_a_floating_point_type():
    assert all(DTYPES[name].is_floating_point for name in PRECISIONS)


def test_a_type_that_no_setting_takes_has_a_name_too():
    assert name_of(torch.complex64) == "complex64"
