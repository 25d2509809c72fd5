import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.errors import (
    AuthorizationError,
    ModelConflictError,
    ModelNotFoundError,
    ResponseError,
    ServingError,
    WorkersFailedError,
)
from makemar.serving import Reply
from makemar.serving.responses import error_for, server_fault


def told(status: int, kind: str, message: str | None) -> Reply:
    body = {"code": status, "type": kind}
    if message is not None:
        body["message"] = message
    return Reply(status=status, headers={}, body=json.dumps(body, indent=2).encode())


# As TorchServe 0.12 answered them.
NO_WORKER = 'Model "ok" Version 2.0" has no worker to serve inference request.'
CASES = [
    (400, "InvalidKeyException", "Token Authorization failed.", AuthorizationError, "the key"),
    (404, "ModelNotFoundException", "Model not found: x", ModelNotFoundError, "models list"),
    (404, "ModelNotFoundException", "Model not found at: x.mar", ModelNotFoundError, "model store"),
    (404, "ModelNotFoundException", "empty url", ModelNotFoundError, "give the name"),
    (
        404,
        "ModelNotFoundException",
        "Given URL x does not match any allowed URL(s)",
        ModelNotFoundError,
        "allowed_urls",
    ),
    (404, "ModelVersionNotFoundException", "no 3.0", ModelNotFoundError, "versions"),
    (404, "ResourceNotFoundException", "not found", ResponseError, "check the ports"),
    (405, "MethodNotAllowedException", "no", ResponseError, "enable_model_api=true"),
    (409, "ConflictStatusException", "is already registered", ModelConflictError, "unregister"),
    (403, "NumberFormatException", 'For input string: "abc"', ResponseError, "config.properties"),
    (403, "IllegalArgumentException", None, ResponseError, "out of range"),
    (403, "InvalidModelVersionException", "default", ResponseError, "default first"),
    (400, "BadRequestException", "max_worker < min_worker", ResponseError, "max_worker <"),
    (400, "ModelException", "Custom pip package installation failed", ResponseError, "ts_log"),
    (500, "InternalServerException", "Failed to start workers", WorkersFailedError, "model_log"),
    (507, "InternalServerException", "Failed to start workers", WorkersFailedError, "memory"),
    (500, "InternalServerException", "Failed to save model: x", ResponseError, "inspect"),
    (500, "InternalServerException", "Worker died.", ResponseError, "response_timeout"),
    (503, "InternalServerException", "Prediction failed", ResponseError, "handler raised"),
    (503, "ServiceUnavailableException", NO_WORKER, ResponseError, "queue is full"),
    (507, "InternalServerException", "Out of resources", ResponseError, "batch_size"),
    (500, "SomethingNewException", "what is this", ResponseError, "what is this"),
]


@pytest.mark.parametrize(("status", "kind", "message", "error", "hint"), CASES)
def test_every_error_answer_has_its_exception_and_its_advice(
    status: int, kind: str, message: str | None, error: type[ResponseError], hint: str
):
    made = error_for(
        told(status, kind, message), url="http://h:1", about="asking", token_advice="read the file"
    )
    assert type(made) is error
    assert (made.status, made.kind, made.url) == (status, kind, "http://h:1")
    assert hint in str(made)
    assert str(made).startswith("asking: ")
    assert "\n" not in str(made)


def test_a_body_that_is_too_large_is_told_though_the_answer_is_empty():
    made = error_for(Reply(status=413, headers={}, body=b""), url="http://h:1", about="asking")
    assert "max_request_size" in str(made)
    assert made.status == 413


def test_an_answer_that_is_not_torchserves_is_told_so():
    reply = Reply(status=404, headers={}, body=b"<html>nginx</html>")
    made = error_for(reply, url="http://h:1", about="asking")
    assert "not in TorchServe's words" in str(made)


@given(
    st.integers(400, 599),
    st.text(),
    st.dictionaries(st.text(), st.integers() | st.text(), max_size=3),
)
def test_an_error_of_makemars_handlers_is_never_taken_for_the_servers(
    status: int, message: str, more: dict[str, object]
):
    body = {
        **more,
        "code": status,
        "type": "ValueException",
        "message": message,
        "request_id": "f00",
    }
    reply = Reply(status=status, headers={}, body=json.dumps(body).encode())
    assert server_fault(reply) is None


@given(st.binary(max_size=64), st.integers(100, 599))
def test_any_bytes_can_be_a_handlers_reply(body: bytes, status: int):
    reply = Reply(status=status, headers={}, body=body)
    fault = server_fault(reply)
    assert fault is None or (status == 413 and not body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"code": 404, "type": "not java"}',
        b'{"code": "404", "type": "ModelNotFoundException"}',
        b'{"type": "ModelNotFoundException", "message": "x"}',
        b'[{"code": 404, "type": "ModelNotFoundException"}]',
    ],
)
def test_a_handlers_own_error_body_is_its_reply(body: bytes):
    assert server_fault(Reply(status=404, headers={}, body=body)) is None


def test_a_good_reply_is_never_a_fault():
    body = b'{"code": 200, "type": "ModelNotFoundException", "message": "an essay on errors"}'
    assert server_fault(Reply(status=200, headers={}, body=body)) is None


def test_a_reply_tells_what_is_wrong_with_its_json():
    reply = Reply(status=200, headers={}, body=b"\xffNaNcy")
    assert reply.ok
    assert reply.text == "\ufffdNaNcy"
    with pytest.raises(ServingError, match="is not JSON: it starts with"):
        reply.json()
    assert Reply(status=200, headers={}, body=b'{"a": 1}').json() == {"a": 1}
