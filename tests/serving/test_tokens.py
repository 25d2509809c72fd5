import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from makemar.errors import ServingError
from makemar.serving import InferenceClient, KeyFile, ManagementClient
from makemar.serving.tokens import FileToken, StaticToken, token_source


def write_keys(path: Path, management: str = "manage12", expires: str = "2099-01-01") -> Path:
    time = f"{expires}T12:45:37.919643310Z"
    data = {
        "management": {"key": management, "expiration time": time},
        "inference": {"key": "infer123", "expiration time": time},
        "API": {"key": "renew123"},
    }
    path.write_text(json.dumps(data))
    return path


def test_a_key_file_is_read_with_its_expiry(tmp_path: Path):
    keys = KeyFile.read(write_keys(tmp_path / "key_file.json"))
    assert (keys.management, keys.inference, keys.api) == ("manage12", "infer123", "renew123")
    assert keys.management_expires == datetime(2099, 1, 1, 12, 45, 37, tzinfo=timezone.utc)


def test_no_repr_shows_a_key(tmp_path: Path):
    path = write_keys(tmp_path / "key_file.json")
    source = FileToken(path, "management")
    source.current()
    shown = [
        KeyFile.read(path),
        source,
        StaticToken("manage12"),
        ManagementClient(token="manage12"),
        InferenceClient(key_file=path),
    ]
    for key in ("manage12", "infer123", "renew123"):
        assert key not in repr(shown)


def test_a_missing_key_file_is_told(tmp_path: Path):
    with pytest.raises(ServingError, match=r"no key file at .*nothing\.json"):
        KeyFile.read(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"management": "secret99"}', '{"management": {"key": 5}, "secret99": 1}'],
)
def test_a_damaged_key_file_is_told_without_its_contents(tmp_path: Path, text: str):
    path = tmp_path / "key_file.json"
    path.write_text(text)
    with pytest.raises(ServingError, match="is not a key file") as caught:
        KeyFile.read(path)
    assert "secret99" not in str(caught.value)


def test_each_api_gets_its_own_key(tmp_path: Path):
    path = write_keys(tmp_path / "key_file.json")
    assert FileToken(path, "management").current() == "manage12"
    assert FileToken(path, "inference").current() == "infer123"


def test_a_new_key_in_the_file_is_taken_once(tmp_path: Path):
    path = write_keys(tmp_path / "key_file.json")
    source = FileToken(path, "management")
    assert source.current() == "manage12"
    assert source.renewed("manage12") is None
    write_keys(path, management="manage34")
    assert source.current() == "manage12"
    assert source.renewed("manage12") == "manage34"
    assert source.current() == "manage34"


def test_every_thread_that_was_refused_with_the_old_key_gets_the_new_one(tmp_path: Path):
    path = write_keys(tmp_path / "key_file.json")
    source = FileToken(path, "management")
    refused = [source.current(), source.current()]
    write_keys(path, management="manage34")
    assert [source.renewed(key) for key in refused] == ["manage34", "manage34"]
    assert source.renewed("manage34") is None
    path.unlink()
    assert source.renewed("manage34") is None
    assert source.renewed("manage12") is None


def test_a_key_is_never_lost_while_other_threads_renew_it(tmp_path: Path):
    source = FileToken(write_keys(tmp_path / "key_file.json"), "management")
    with ThreadPoolExecutor(8) as pool:
        renewals = [pool.submit(source.renewed, "manage12") for _ in range(400)]
        looks = [pool.submit(source.current) for _ in range(400)]
        advice = [pool.submit(source.advice) for _ in range(400)]
    assert {item.result() for item in renewals} == {None}
    assert {item.result() for item in looks} == {"manage12"}
    assert all(item.result() for item in advice)


def test_while_there_is_no_file_no_key_is_sent(tmp_path: Path):
    source = FileToken(tmp_path / "key_file.json", "management")
    assert source.current() is None
    assert source.renewed(None) is None
    assert "there is no" in source.advice()
    write_keys(tmp_path / "key_file.json")
    assert source.current() == "manage12"


def test_an_expired_key_is_told_as_expired(tmp_path: Path):
    past = datetime.now(timezone.utc) - timedelta(days=2)
    path = write_keys(tmp_path / "key_file.json", expires=f"{past:%Y-%m-%d}")
    source = FileToken(path, "inference")
    source.current()
    assert "expired at" in source.advice()
    fresh = FileToken(write_keys(path), "inference")
    fresh.current()
    assert "does not belong to this server" in fresh.advice()


def test_a_given_token_comes_before_a_file(tmp_path: Path):
    path = write_keys(tmp_path / "key_file.json")
    assert token_source("inference", key_file=path, token="given").current() == "given"
    assert token_source("inference", key_file=path, token=None).current() == "infer123"
    assert token_source("inference", key_file=None, token=None).current() is None


@pytest.mark.parametrize("token", ["", " ", "two words", "line\n"])
def test_a_token_that_cannot_be_one_is_refused(token: str):
    with pytest.raises(ServingError, match="empty or has a space"):
        InferenceClient(token=token)
