"""The inference API of a real server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.errors import AuthorizationError, ModelNotFoundError, ResponseError, UnreachableError
from makemar.serving import InferenceClient, TorchServe

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def client(server: TorchServe) -> InferenceClient:
    return server.inference


def test_eight_requests_at_once_land_in_one_batch(client: InferenceClient):
    replies = client.predict_many("counter", [b"x"] * 8)
    assert [reply.text for reply in replies] == ["8"] * 8
    assert all(reply.ok for reply in replies)


def test_one_request_is_a_batch_of_one(client: InferenceClient):
    reply = client.predict("counter", b"x", version="1.0")
    assert (reply.status, reply.body, reply.text) == (200, b"1", "1")


def test_replies_come_in_the_order_of_the_bodies(client: InferenceClient):
    bodies = [str(number).encode() for number in range(20)]
    replies = client.predict_many("counter", bodies, content_type="text/plain", concurrency=5)
    assert [reply.text for reply in replies] == [f"text {number}" for number in range(20)]
    assert client.predict_many("counter", []) == ()


def test_the_content_type_decides_what_the_handler_gets(client: InferenceClient):
    body = json.dumps({"a": [1, 2]}).encode()
    got = client.predict("counter", body, content_type="application/json")
    assert got.json() == {"version": "1.0", "got": {"a": [1, 2]}}
    assert client.predict("counter", b"hi", content_type="text/plain").text == "text hi"
    assert client.predict("counter", body).text == "1"


def test_headers_go_both_ways(client: InferenceClient):
    reply = client.predict("counter", b"headers", headers={"X-Sent": "hello"})
    assert reply.headers["x-seen"] == "hello"
    assert reply.headers["X-Request-Id"]


def test_what_the_handler_refuses_is_a_reply_and_costs_its_neighbours_nothing(
    client: InferenceClient,
):
    good, refused, teapot = client.predict_many("counter", [b"x", b"refuse", b"teapot"])
    assert (good.status, good.text) == (200, "3")
    assert (refused.status, refused.ok) == (422, False)
    problem = refused.json()
    assert isinstance(problem, dict)
    assert problem["message"] == "no picture"
    assert (teapot.status, teapot.text) == (418, "short and stout")


def test_what_the_server_answers_in_the_handlers_place_raises(
    client: InferenceClient, server: TorchServe, wait_for: Callable[..., None]
):
    with pytest.raises(ModelNotFoundError, match="models list"):
        client.predict("nobody", b"")
    with pytest.raises(ModelNotFoundError, match="versions"):
        client.predict("counter", b"", version="9.9")
    with pytest.raises(ResponseError, match="the handler raised an error") as caught:
        client.predict("counter", b"raise")
    assert caught.value.status == 503
    assert "asked to" in server.model_log()
    with pytest.raises(ResponseError, match="the worker process ended") as caught:
        client.predict("counter", b"die")
    assert caught.value.status == 500
    wait_for(lambda: server.management.describe("counter")[0].ready_workers == 1)
    assert client.predict("counter", b"").text == "1"


def test_the_first_body_that_fails_is_raised_for_many(client: InferenceClient):
    with pytest.raises(ModelNotFoundError):
        client.predict_many("nobody", [b"x"] * 3)


def test_a_body_over_the_limit_is_told(client: InferenceClient):
    with pytest.raises((ResponseError, UnreachableError), match=r"max_request_size|too large"):
        client.predict("counter", bytes(20_000_000))


def test_a_model_without_workers_is_told(
    client: InferenceClient,
    server: TorchServe,
    pack: Callable[..., Path],
    store: Callable[..., str],
):
    server.management.register(store(pack("idle")), initial_workers=0)
    with pytest.raises(ResponseError, match="queue is full or there is no worker") as caught:
        client.predict("idle", b"")
    assert caught.value.status == 503


def test_each_api_has_a_key_of_its_own(server: TorchServe):
    from makemar.serving import KeyFile

    assert server.key_file is not None
    key = KeyFile.read(server.key_file).management
    with (
        InferenceClient(server.addresses.inference, token=key) as client,
        pytest.raises(AuthorizationError, match="refused the key") as caught,
    ):
        client.predict("counter", b"")
    assert key not in str(caught.value)


def test_a_client_can_be_closed_and_used_again(server: TorchServe):
    client = InferenceClient(server.addresses.inference, key_file=server.key_file)
    for _ in range(2):
        assert client.predict("counter", b"").ok
        client.close()
