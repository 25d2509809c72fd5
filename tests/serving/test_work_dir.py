import os
import tempfile
from pathlib import Path

import pytest

from makemar.errors import ServingError
from makemar.serving.guard import remove_paths
from makemar.serving.work_dir import WorkDir, make_work_dir


def test_without_a_folder_a_private_one_is_made_and_can_go():
    work_dir = make_work_dir(None)
    assert work_dir.private
    assert work_dir.model_store.is_dir()
    assert work_dir.logs.is_dir()
    assert work_dir.tmp.parent == work_dir.root
    assert work_dir.root.stat().st_mode & 0o077 == 0
    remove_paths(work_dir.leftovers)
    assert not work_dir.root.exists()


def test_a_given_folder_is_kept_without_keys_and_temporary_files(tmp_path: Path):
    work_dir = make_work_dir(tmp_path / "w")
    work_dir.key_file.write_text("secret")
    work_dir.console.write_text("hello")
    remove_paths(work_dir.leftovers)
    assert not work_dir.key_file.exists()
    assert not work_dir.tmp.exists()
    assert work_dir.console.read_text() == "hello"


def test_a_deep_folder_gets_short_sockets(tmp_path: Path):
    deep = tmp_path.joinpath(*["a-rather-long-name"] * 6)
    work_dir = make_work_dir(deep)
    try:
        assert work_dir.root == deep
        assert len(os.fsencode(work_dir.tmp / ".ts.sock.65535")) <= 103
        assert deep not in work_dir.tmp.parents
        assert work_dir.owns_tmp
    finally:
        remove_paths(work_dir.leftovers)
    assert not work_dir.tmp.exists()


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
