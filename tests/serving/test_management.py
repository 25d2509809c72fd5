"""The management API of a real server."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makemar.configs import load_profile
from makemar.errors import (
    AuthorizationError,
    ModelConflictError,
    ModelNotFoundError,
    ResponseError,
    ServingError,
    WorkersFailedError,
)
from makemar.serving import InferenceClient, ManagementClient, Reply, TorchServe

pytestmark = pytest.mark.server

Pack = Callable[..., Path]
Store = Callable[[Path], str]


@pytest.fixture(scope="module")
def client(server: TorchServe) -> ManagementClient:
    return server.management


def names(client: ManagementClient) -> list[str]:
    return [entry.name for entry in client.models()]


def test_a_version_is_registered_shown_scaled_made_default_and_unregistered(
    client: ManagementClient, server: TorchServe, pack: Pack, store: Store
):
    first, second = (store(pack("life", version)) for version in ("1.0", "2.0"))
    one = client.register(first, batch_size=4, max_batch_delay=20, initial_workers=2)
    assert (one.name, one.version, one.batch_size, one.max_batch_delay) == ("life", "1.0", 4, 20)
    assert (one.ready_workers, len(one.workers)) == (2, 2)
    two = client.register(second, model_name="life", response_timeout=7, startup_timeout=90)
    assert (two.version, two.response_timeout, two.startup_timeout) == ("2.0", 7, 90)

    assert [item.version for item in client.describe("life", "all")] == ["1.0", "2.0"]
    assert client.describe("life")[0].version == "1.0"
    client.set_default("life", "2.0")
    assert client.describe("life")[0].version == "2.0"

    scaled = client.scale("life", "1.0", min_worker=1)
    assert (scaled.version, scaled.ready_workers, len(scaled.workers)) == ("1.0", 1, 1)
    assert client.scale("life", "1.0", min_worker=0).workers == ()
    assert client.scale("life", min_worker=2, max_worker=3).ready_workers == 2

    client.unregister("life", "1.0")
    assert [item.version for item in client.describe("life", "all")] == ["2.0"]
    client.unregister("life")
    assert "life" not in names(client)


def test_the_models_at_the_start_are_ready_with_their_settings(server: TorchServe):
    (model,) = server.models
    assert (model.name, model.version) == ("counter", "1.0")
    assert (model.batch_size, model.max_batch_delay, model.ready_workers) == (8, 300, 1)
    assert model.workers[0].pid > 0
    assert model.remaining_capacity == 100


def test_without_waiting_the_description_comes_at_once(
    client: ManagementClient, pack: Pack, store: Store, wait_for: Callable[..., None]
):
    model = client.register(store(pack("hasty")), wait=None)
    assert (model.name, model.ready_workers) == ("hasty", 0)
    assert client.scale("hasty", min_worker=1, wait=None).name == "hasty"
    wait_for(lambda: client.describe("hasty")[0].ready_workers == 1)


def test_a_file_url_is_registered_under_another_name(
    client: ManagementClient, pack: Pack, store: Store
):
    model = client.register(f"file://{pack('distant')}", model_name="near by: né")
    assert model.name == "near by: né"
    assert client.describe("near by: né")[0].ready_workers == 1
    client.unregister("near by: né")


def test_a_model_called_tokenizer_can_be_managed(
    client: ManagementClient, server: TorchServe, pack: Pack, store: Store
):
    model = client.register(store(pack("tokenizer")))
    assert model.ready_workers == 1
    assert server.inference.predict("tokenizer", b"").text == "1"
    client.unregister("tokenizer")
    assert "tokenizer" not in names(client)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("        raise ValueError('no ' + 'weights')\n", "ValueError: no weights"),
        # TorchServe keeps a model registered when this one is raised.
        ("        raise RuntimeError('wrong shape')\n", "RuntimeError: wrong shape"),
        ("        import nopackage_x\n", "No module named 'nopackage_x'"),
        ("        syntax error here\n", "SyntaxError: invalid syntax"),
    ],
)
def test_a_broken_handler_is_told_with_its_own_exception_and_nothing_stays_registered(
    client: ManagementClient, zip_up: Pack, store: Store, line: str, told: str
):
    source = f"class H:\n    def initialize(self, context):\n{line}    def handle(self, d, c):\n"
    archive = store(zip_up("broken", f"{source}        return d\n"))
    start = time.monotonic()
    with pytest.raises(WorkersFailedError) as caught:
        client.register(archive)
    assert time.monotonic() - start < 40  # and not only at the deadline
    line, trace = str(caught.value), caught.value.traceback
    assert "\n" not in line
    assert "model 'broken' version 1.0" in line
    assert told in line
    assert "handler.py line " in line
    assert trace[0] == "Traceback (most recent call last):"
    assert told in trace[-1]
    with pytest.raises(ModelNotFoundError):
        client.describe("broken")


def test_a_broken_new_version_leaves_the_old_one_as_it_was(
    client: ManagementClient, server: TorchServe, zip_up: Pack, store: Store
):
    archive = store(zip_up("counter", "raise ValueError('bad release')\n", version="2.0"))
    with pytest.raises(WorkersFailedError, match="bad release"):
        client.register(archive)
    assert [item.version for item in client.describe("counter", "all")] == ["1.0"]
    assert server.inference.predict("counter", b"").text == "1"


def test_a_worker_that_dies_without_a_word_is_noticed(
    client: ManagementClient, zip_up: Pack, store: Store
):
    archive = store(zip_up("mute", "import os\nos._exit(3)\n"))
    with pytest.raises(WorkersFailedError, match="ends without a traceback"):
        client.register(archive)
    assert "mute" not in names(client)


def test_without_the_log_a_broken_handler_is_noticed_too(
    server: TorchServe, zip_up: Pack, store: Store
):
    archive = store(zip_up("far", "raise ValueError('unseen')\n"))
    with (
        ManagementClient(server.addresses.management, key_file=server.key_file) as client,
        pytest.raises(WorkersFailedError, match=r"in the server's model_log\.log"),
    ):
        client.register(archive)
    assert "far" not in names(server.management)


def test_workers_that_are_late_are_a_failure_at_the_deadline(
    client: ManagementClient, zip_up: Pack, store: Store
):
    archive = store(zip_up("slow", "import time\ntime.sleep(600)\n"))
    with pytest.raises(WorkersFailedError, match="0 of 1 workers are READY after 1 s"):
        client.register(archive, wait=1.0)
    assert "slow" not in names(client)


def test_workers_in_the_archives_own_configuration_count(
    client: ManagementClient, zip_up: Pack, store: Store
):
    config = "minWorkers: 1\nmaxWorkers: 1\n"
    archive = store(zip_up("own", "def handle(d, c):\n    return d and ['x']\n", config=config))
    assert client.register(archive, initial_workers=3).ready_workers == 1


def test_one_name_and_version_twice_is_a_conflict_and_keeps_the_first(
    client: ManagementClient, pack: Pack, store: Store
):
    archive = store(pack("twice"))
    client.register(archive)
    with pytest.raises(ModelConflictError, match="unregister it first") as caught:
        client.register(archive)
    assert caught.value.status == 409
    assert client.describe("twice")[0].ready_workers == 1


def test_the_default_version_goes_last(client: ManagementClient, pack: Pack, store: Store):
    for version in ("1.0", "2.0"):
        client.register(store(pack("pair", version)), initial_workers=0)
    with pytest.raises(ResponseError, match="make another version the default first"):
        client.unregister("pair", "1.0")
    with pytest.raises(ResponseError, match="make another version the default first"):
        client.unregister("pair")
    client.unregister("pair", "2.0")
    client.unregister("pair", "1.0")


def test_what_is_not_there_is_not_found(client: ManagementClient):
    calls: list[Callable[[], object]] = [
        lambda: client.describe("nobody"),
        lambda: client.describe("counter", "9.9"),
        lambda: client.scale("nobody", min_worker=1),
        lambda: client.scale("counter", "9.9", min_worker=1),
        lambda: client.set_default("counter", "9.9"),
        lambda: client.unregister("nobody"),
        lambda: client.unregister("counter", "9.9"),
        lambda: client.register("nothing.mar"),
        lambda: client.register("https://127.0.0.1/not-allowed.mar"),
    ]
    for call in calls:
        with pytest.raises(ModelNotFoundError) as caught:
            call()
        assert caught.value.status == 404


def test_numbers_of_workers_that_would_kill_all_are_refused_before_the_call(
    client: ManagementClient,
):
    for minimum, maximum in ((-1, None), (-1, 3), (3, 1)):
        with pytest.raises(ServingError, match="cannot have"):
            client.scale("counter", min_worker=minimum, max_worker=maximum)
    assert client.describe("counter")[0].ready_workers == 1


def test_a_wrong_key_is_an_authorization_error_and_never_shown(server: TorchServe, tmp_path: Path):
    url = server.addresses.management
    with (
        ManagementClient(url, token="wrong-key") as client,
        pytest.raises(AuthorizationError) as caught,
    ):
        client.models()
    assert "wrong-key" not in str(caught.value)
    assert caught.value.status == 400
    assert caught.value.kind == "InvalidKeyException"
    with ManagementClient(url) as client, pytest.raises(AuthorizationError, match="no key was"):
        client.models()
    key_file = server.key_file
    assert key_file is not None
    other = tmp_path / "key_file.json"
    other.write_text(key_file.read_text().replace('"key": "', '"key": "x'))
    with (
        ManagementClient(url, key_file=other) as client,
        pytest.raises(AuthorizationError, match="does not belong to this server"),
    ):
        client.models()


def test_a_key_that_was_renewed_is_read_again(server: TorchServe, client: ManagementClient):
    import requests

    from makemar.serving import KeyFile

    assert server.key_file is not None
    assert client.models()
    before = KeyFile.read(server.key_file)
    renewed = requests.get(
        f"{server.addresses.management}/token",
        params={"type": "management"},
        headers={"Authorization": f"Bearer {before.api}"},
        timeout=10,
    )
    assert renewed.status_code == 200
    assert KeyFile.read(server.key_file).management != before.management
    assert client.models()


def test_the_inference_port_is_not_taken_for_the_management_port(server: TorchServe):
    inference = server.addresses.inference
    with (
        InferenceClient(server.addresses.management, key_file=server.key_file) as client,
        pytest.raises(ResponseError),
    ):
        client.predict("counter", b"")
    with (
        ManagementClient(inference, key_file=server.key_file) as client,
        pytest.raises(ResponseError),
    ):
        client.models()


def test_a_hundred_models_and_more_are_listed_over_pages(
    client: ManagementClient, server: TorchServe, pack: Pack, store: Store
):
    archive = store(pack("many"))
    before = len(client.models())
    for number in range(100 - before):
        client.register(archive, model_name=f"many{number:03}", initial_workers=0)
    assert len(client.models()) == 100  # a full page, which may promise another
    client.register(archive, initial_workers=0)
    listed = client.models()
    assert len(listed) == 101
    assert [entry.name for entry in listed] == sorted({entry.name for entry in listed})
    assert all(entry.url.endswith(".mar") for entry in listed)


def test_two_clients_that_register_at_once_get_each_their_own(
    client: ManagementClient, pack: Pack, store: Store
):
    archives = [store(pack(f"racer{number}")) for number in range(3)]
    got: dict[str, str] = {}

    def register(archive: str) -> None:
        got[archive] = client.register(archive).url

    threads = [threading.Thread(target=register, args=[archive]) for archive in archives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {archive: archive for archive in archives}


class Crowded(ManagementClient):
    """A client whom others come before: they act just before its registration is sent."""

    def __init__(self, server: TorchServe, others: Callable[[], object]) -> None:
        super().__init__(server.addresses.management, key_file=server.key_file)
        self._others = others

    def _call(self, method: str, *path: str, **details: Any) -> Reply:
        if method == "POST":
            self._others()
        return super()._call(method, *path, **details)


@pytest.mark.parametrize("name", [None, "typo"])
def test_a_registration_that_is_refused_touches_no_other_clients_model(
    client: ManagementClient, server: TorchServe, pack: Pack, store: Store, name: str | None
):
    neighbour = store(pack("neighbour"))
    with (
        Crowded(server, lambda: client.register(neighbour)) as crowded,
        pytest.raises(ModelNotFoundError),
    ):
        crowded.register("mistyped.mar", model_name=name)
    assert client.describe("neighbour")[0].ready_workers == 1


def test_a_handler_that_fails_takes_no_other_clients_model_with_it(
    client: ManagementClient, server: TorchServe, pack: Pack, zip_up: Pack, store: Store
):
    # It sorts before the broken one, and it is new as well.
    neighbour, broken = store(pack("aaa")), store(zip_up("bad", "raise ValueError('me')\n"))
    with (
        Crowded(server, lambda: client.register(neighbour)) as crowded,
        pytest.raises(WorkersFailedError, match="model 'bad'"),
    ):
        crowded.register(broken)
    assert client.describe("aaa")[0].ready_workers == 1
    assert "bad" not in names(client)


def test_one_archive_that_two_register_is_told_apart_by_name_or_not_touched(
    client: ManagementClient, server: TorchServe, pack: Pack, store: Store
):
    archive = store(pack("shared"))
    with Crowded(server, lambda: client.register(archive, model_name="theirs")) as crowded:
        assert crowded.register(archive, model_name="ours").name == "ours"
    client.unregister("theirs")
    with (
        Crowded(server, lambda: client.register(archive, model_name="theirs")) as crowded,
        pytest.raises(ServingError, match=r"'shared' 1\.0 and 'theirs' 1\.0 are both new"),
    ):
        crowded.register(archive)
    assert {"shared", "theirs"} <= set(names(client))


def test_a_model_whose_requirements_cannot_be_installed_does_not_stay(zip_up: Pack):
    source = "def handle(data, context):\n    return ['x'] * len(data or ())\n"
    broken = zip_up("needy", source, requirements="./absent-1.0-py3-none-any.whl\n")
    config = replace(load_profile("development"), install_py_dep_per_model=True)
    with TorchServe(config=config, free_ports=True, stop_timeout=0) as fresh:
        shutil.copy(broken, fresh.work_dir / "model_store" / "needy.mar")
        for _ in range(2):  # the second try is no conflict
            with pytest.raises(ResponseError, match="pip package installation failed") as caught:
                fresh.management.register("needy.mar")
            assert caught.value.status == 400
        assert fresh.management.models() == ()


@pytest.fixture(autouse=True)
def unharmed(server: TorchServe) -> Iterator[None]:
    """Whatever a test does, the module's own model stays as it was."""
    yield
    assert server.management.describe("counter")[0].ready_workers == 1
