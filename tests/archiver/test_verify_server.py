"""A real TorchServe loads what verify passes and fails what it fails: one server for them all."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
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


SENT = {
    **{case.name: case.build for case in BROKEN if case.server != "absent"},
    **ODD,
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether verify has an error, the server registered the archive, and what it answered."""

    error: bool
    registered: bool
    reply: str


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    """Register every archive with one server, two at a time: most start a worker."""
    from makemar.serving import TorchServe

    with TorchServe() as server, ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(SENT, pool.map(partial(judge, server), SENT), strict=True))


def judge(server: TorchServe, name: str) -> Verdict:
    path = SENT[name](store(server), name)
    try:
        registered = register(server, path)
        reply = ""
        if registered:
            reply = call(server, "POST", f"predictions/{name}", api="inference", data=b"ping").text
        return Verdict(error=has_error(path), registered=registered, reply=reply)
    finally:
        call(server, "DELETE", f"models/{name}")


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
    "case", [case for case in BROKEN if case.name in SENT], ids=lambda case: case.name
)
def test_it_agrees_on_a_broken_archive(verdicts, case: Broken):
    verdict = verdicts[case.name]
    assert verdict.error
    assert verdict.registered == (case.server == "loads"), case.reason


@pytest.mark.parametrize("name", ODD)
def test_it_serves_what_only_looks_odd(verdicts, name):
    assert verdicts[name] == Verdict(error=False, registered=True, reply="pong")


def test_in_the_c_locale_it_refuses_names_that_are_not_ascii():
    from makemar.serving import TorchServe

    with TorchServe(environ={"LC_ALL": "C"}) as server:
        path = mar(store(server), "m", files("m") | {"größe.txt": "12"})
        assert "non-ascii-name" in {found.code for found in verify_archive(path)}
        assert not register(server, path)
        assert register(server, mar(store(server), "plain", files("plain") | {"size.txt": "12"}))
