import os
import tempfile
from pathlib import Path

import pytest

from makemar.errors import ServingError
from makemar.serving.guard import remove_paths
from makemar.serving.work_dir import WorkDir, make_work_dir


def test_without_a_folder_a_private_one_is_made_and_can_go():
    place = make_work_dir(None)
    assert place.private
    assert place.model_store.is_dir()
    assert place.logs.is_dir()
    assert place.tmp.parent == place.root
    assert place.root.stat().st_mode & 0o077 == 0
    remove_paths(place.leftovers)
    assert not place.root.exists()


def test_a_given_folder_is_kept_without_keys_and_temporary_files(tmp_path: Path):
    place = make_work_dir(tmp_path / "w")
    place.key_file.write_text("secret")
    place.console.write_text("hello")
    remove_paths(place.leftovers)
    assert not place.key_file.exists()
    assert not place.tmp.exists()
    assert place.console.read_text() == "hello"


def test_a_deep_folder_gets_short_sockets(tmp_path: Path):
    deep = tmp_path.joinpath(*["a-rather-long-name"] * 6)
    place = make_work_dir(deep)
    try:
        assert place.root == deep
        assert len(os.fsencode(place.tmp / ".ts.sock.65535")) <= 103
        assert deep not in place.tmp.parents
        assert place.owns_tmp
    finally:
        remove_paths(place.leftovers)
    assert not place.tmp.exists()


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert make_work_dir(Path(".makemar")).root == tmp_path / ".makemar"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServingError, match=r"cannot make the work directory .*file"):
        make_work_dir(tmp_path / "file" / "inside")


@pytest.mark.parametrize(
    ("tmp", "owned"),
    [
        ("{root}/tmp", True),
        ("{base}/makemar-abc", True),
        ("{root}", False),
        ("{root}/..", False),
        ("{root}/logs", False),
        ("/home", False),
        ("{base}", False),
        ("{base}/other", False),
        ("{base}/x/makemar-abc", False),
    ],
)
def test_only_a_folder_that_was_made_here_counts_as_own(tmp_path: Path, tmp: str, owned: bool):
    folder = Path(tmp.format(root=tmp_path, base=tempfile.gettempdir()))
    assert WorkDir(root=tmp_path, tmp=folder, private=False).owns_tmp == owned
