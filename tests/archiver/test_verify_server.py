"""A real TorchServe loads what verify passes and fails what it fails: one server for them all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

sys.path.insert(0, str(Path(__file__).parent))
from broken_archives import BROKEN, Broken, files, mar
from odd_archives import ODD

from makemar.archiver import verify_archive
from makemar.errors import Severity

if TYPE_CHECKING:
    from makemar.serving import TorchServe

pytestmark = pytest.mark.server
pytest.importorskip("model_archiver", reason="torch-model-archiver is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[TorchServe]:
    from makemar.serving import TorchServe

    with TorchServe() as running:
        yield running


def store(server: TorchServe) -> Path:
    return server.work_dir / "model_store"


def call(server: TorchServe, method: str, url: str, api: str = "management", **how: object):
    """Send a request as any client does, without what makemar's own would make of the reply."""
    from makemar.serving import KeyFile

    key = getattr(KeyFile.read(server.key_file), api)
    base = getattr(server.addresses, api)
    headers = {"Authorization": f"Bearer {key}"}
    return requests.request(method, f"{base}/{url}", headers=headers, timeout=130, **how)


def register(server: TorchServe, path: Path) -> bool:
    """Tell whether an archive of the store is registered and its worker started."""
    query = {"url": path.name, "initial_workers": "1", "synchronous": "true"}
    return call(server, "POST", "models", params=query).status_code == 200


def has_error(path: Path) -> bool:
    return any(found.severity is Severity.ERROR for found in verify_archive(path))


@pytest.mark.parametrize(
    "case", [case for case in BROKEN if case.server != "absent"], ids=lambda case: case.name
)
def test_it_agrees_on_a_broken_archive(server, case: Broken):
    path = case.make(store(server))
    try:
        assert has_error(path)
        assert register(server, path) == (case.server == "loads"), case.reason
    finally:
        call(server, "DELETE", f"models/{case.name}")


@pytest.mark.parametrize("name", ODD)
def test_it_serves_what_only_looks_odd(server, name):
    path = ODD[name](store(server), name)
    try:
        assert not has_error(path)
        assert register(server, path)
        reply = call(server, "POST", f"predictions/{name}", api="inference", data=b"ping")
        assert (reply.status_code, reply.text) == (200, "pong")
    finally:
        call(server, "DELETE", f"models/{name}")


def test_in_the_c_locale_it_refuses_names_that_are_not_ascii():
    from makemar.serving import TorchServe

    with TorchServe(environ={"LC_ALL": "C"}) as server:
        path = mar(store(server), "m", files("m") | {"größe.txt": "12"})
        assert "non-ascii-name" in {found.code for found in verify_archive(path)}
        assert not register(server, path)
        assert register(server, mar(store(server), "plain", files("plain") | {"size.txt": "12"}))
