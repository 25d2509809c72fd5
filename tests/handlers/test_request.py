"""A request is read the way people really send it, and a lost payload is explained."""

import pytest

from makemar.handlers import BadRequestError, Request


@pytest.mark.parametrize("field", ["body", "data", "picture"])
def test_the_payload_is_the_body_the_data_field_or_the_only_field(field):
    assert Request({field: bytearray(b"x")}).payload() == b"x"


def test_the_body_wins_over_other_fields():
    assert Request({"other": b"1", "body": b"2"}).payload() == b"2"


def test_several_fields_without_a_main_one_are_named():
    with pytest.raises(BadRequestError, match="fields a, b; name the input 'data'"):
        Request({"b": b"1", "a": b"2"}).payload()


def test_a_missing_field_names_the_ones_that_came():
    with pytest.raises(BadRequestError, match=r"'mask' is missing \(fields sent: image\)"):
        Request({"image": b"1"}).field("mask")


def test_curl_d_without_a_content_type_is_explained():
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    with pytest.raises(BadRequestError, match="curl -d does this"):
        Request({}, headers=headers).payload()


def test_an_empty_request_says_so():
    with pytest.raises(BadRequestError, match="has no body"):
        Request({}).payload()


def test_headers_are_found_in_any_case():
    request = Request({"body": b""}, headers={"X-Tenant": "a", "body": {"content-type": "Text/X"}})
    assert request.headers["x-tenant"] == "a"
    assert request.content_type() == "text/x"


def test_the_content_type_loses_its_parameters():
    request = Request({"body": b""}, headers={"content-type": "Application/JSON; charset=utf-8"})
    assert request.content_type() == "application/json"


def test_only_torchserves_own_word_asks_for_an_explanation():
    assert Request({}, headers={"explain": "True"}).explain
    assert not Request({}, headers={"Explain": "true"}).explain


def test_neither_payload_nor_headers_show_in_its_repr():
    request = Request({"body": b"password"}, headers={"authorization": "Bearer secret"})
    assert "password" not in repr(request)
    assert "secret" not in repr(request)
