import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from makemar.errors import ResponseError, ServingError, UnreachableError
from makemar.serving import InferenceClient, ManagementClient
from makemar.serving.model_paths import model_path


@contextlib.contextmanager
def listening(answer: bytes | None, *, hold: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """Listen on loopback; answer every connection with these bytes, or say nothing."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    held.append(connection)
                    heard.append(connection.recv(65536))
                    if answer is not None:
                        connection.sendall(answer)
                    if not hold:
                        connection.close()

        held: list[socket.socket] = []
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()


@contextlib.contextmanager
def guarded(key_file: Path, key: str) -> Iterator[str]:
    """Refuse every key but one, as TorchServe does; the first two refusals go out together."""
    together = threading.Barrier(2, timeout=20)
    refusal = json.dumps({"code": 400, "type": "InvalidKeyException", "message": "failed"}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            good = self.headers["Authorization"] == f"Bearer {key}"
            if not good and not together.broken:
                if together.wait() == 0:
                    write_keys(key_file, key)
                    together.abort()
                else:
                    with contextlib.suppress(threading.BrokenBarrierError):
                        together.wait()
            body = b"hello" if good else refusal
            self.send_response(200 if good else 400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def write_keys(path: Path, key: str) -> None:
    path.write_text(json.dumps({api: {"key": key} for api in ("management", "inference", "API")}))


def free_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def test_nobody_there_is_told_in_one_line_with_the_next_step():
    url = free_url()
    with ManagementClient(url) as client, pytest.raises(UnreachableError) as caught:
        client.models()
    assert caught.value.url == url
    assert f"{url}: no server listens there" in str(caught.value)
    assert "make-mar serve" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_never_answers_costs_no_more_than_the_timeout():
    with listening(None, hold=True) as (url, _), InferenceClient(url, timeout=0.3) as client:
        start = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no answer in 0\.3 s"):
            client.predict("m", b"")
        assert time.monotonic() - start < 5


def test_a_connection_that_breaks_is_told():
    with (
        listening(None) as (url, _),
        InferenceClient(url) as client,
        pytest.raises(UnreachableError, match="the connection broke"),
    ):
        client.predict("m", b"")
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf"
    with (
        listening(half) as (url, _),
        InferenceClient(url) as client,
        pytest.raises(UnreachableError, match="the connection broke"),
    ):
        client.predict("m", b"")


def test_a_server_that_is_not_torchserve_is_told_so():
    with (
        listening(answer(b"<html>hello</html>")) as (url, _),
        ManagementClient(url) as client,
        pytest.raises(ResponseError, match="does not answer as TorchServe's management"),
    ):
        client.models()
    with (
        listening(answer(b'{"a": 1}')) as (url, _),
        ManagementClient(url) as client,
        pytest.raises(ResponseError, match="does not answer as TorchServe's management"),
    ):
        client.describe("m")
    with (
        listening(answer(b"no", "404 Not Found")) as (url, _),
        ManagementClient(url) as client,
        pytest.raises(ResponseError, match="not in TorchServe's words"),
    ):
        client.models()


def test_a_redirect_does_not_carry_the_key_away():
    moved = b"HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n"
    with listening(moved) as (url, _), InferenceClient(url, token="key") as client:
        assert client.predict("m", b"").status == 302


def test_neither_proxy_nor_netrc_come_between_a_client_and_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", free_url())
    monkeypatch.setenv("http_proxy", free_url())
    hello = answer(b"hello")
    with listening(hello) as (url, heard), InferenceClient(url, token="right-key") as client:
        assert client.predict("m", b"").text == "hello"
    assert b"Authorization: Bearer right-key\r\n" in heard[0]
    assert b"Basic" not in heard[0]


def test_two_requests_that_are_refused_at_once_both_get_through_with_the_new_key(tmp_path: Path):
    key_file = tmp_path / "key_file.json"
    write_keys(key_file, "old")
    with guarded(key_file, "new") as url, InferenceClient(url, key_file=key_file) as client:
        replies = client.predict_many("m", [b"", b""])
    assert [reply.text for reply in replies] == ["hello", "hello"]


def test_without_a_key_none_is_sent():
    with listening(answer(b"hello")) as (url, heard), InferenceClient(url) as client:
        client.predict("m", b"")
    assert b"authorization" not in heard[0].lower()


def test_a_model_called_tokenizer_is_not_taken_for_a_renewal_of_keys():
    with listening(answer(b"hello")) as (url, heard), InferenceClient(url) as client:
        client.predict("tokenizer", b"", version="1.0+x y")
    assert heard[0].startswith(b"POST /predictions/%74okenizer/1.0%2Bx%20y HTTP/1.1\r\n")


@pytest.mark.parametrize("name", ["", "a/b", ".", ".."])
def test_a_name_that_cannot_be_addressed_is_refused_before_the_call(name: str):
    with pytest.raises(ServingError, match="cannot address the model name"):
        model_path(name)
    with pytest.raises(ServingError, match="cannot address the model version"):
        InferenceClient(free_url()).predict("m", b"", version=name)
    with pytest.raises(ServingError, match="cannot address the model name"):
        ManagementClient(free_url()).register("m.mar", model_name=name)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "localhost", "ftp://host", "http://"])
def test_what_is_not_a_url_is_refused(url: str):
    with pytest.raises(ServingError, match="is not the URL of a server"):
        InferenceClient(url)


def test_a_timeout_that_is_none_is_refused():
    with pytest.raises(ServingError, match="give more than 0"):
        InferenceClient(timeout=0)
    with pytest.raises(ServingError, match="the concurrency is 0"):
        InferenceClient().predict_many("m", [b""], concurrency=0)
