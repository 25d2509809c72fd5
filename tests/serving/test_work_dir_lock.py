import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.errors import ServingError
from makemar.serving.work_dir_lock import WorkDirLock

WaitFor = Callable[..., None]
HOLDER = """
import sys, time
from pathlib import Path
from makemar.serving.work_dir_lock import WorkDirLock
lock = WorkDirLock.take(Path(sys.argv[1]))
print("taken", flush=True)
time.sleep(600)
"""


def is_free(folder: Path) -> bool:
    try:
        WorkDirLock.take(folder).release()
    except ServingError:
        return False
    return True


def test_a_folder_is_made_and_one_has_it_at_a_time(tmp_path: Path):
    folder = tmp_path / "new" / "work"
    first = WorkDirLock.take(folder)
    with pytest.raises(ServingError, match=rf"process {os.getpid()} has .*work for a server"):
        WorkDirLock.take(folder)
    first.release()
    first.release()
    assert is_free(folder)


def test_a_dead_owner_does_not_block_the_next(tmp_path: Path, wait_for: WaitFor):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        assert not is_free(tmp_path)
        holder.kill()
    assert is_free(tmp_path)


def test_a_process_that_it_was_handed_on_to_keeps_it(tmp_path: Path):
    lock = WorkDirLock.take(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=[lock.descriptor],
    ) as heir:
        lock.leave()
        assert not is_free(tmp_path)
        heir.kill()
    assert is_free(tmp_path)


def test_a_release_counts_whoever_has_the_file_open(tmp_path: Path):
    lock = WorkDirLock.take(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=[lock.descriptor],
    ):
        lock.release()
        assert is_free(tmp_path)


def test_who_has_patience_gets_it_when_it_is_free(tmp_path: Path):
    lock = WorkDirLock.take(tmp_path)
    timer = threading.Timer(0.2, lock.release)
    timer.start()
    start = time.monotonic()
    WorkDirLock.take(tmp_path, patience=20).release()
    assert time.monotonic() - start < 10
    timer.join()


def test_a_better_reason_to_give_up_is_told_at_once(tmp_path: Path):
    def check() -> None:
        raise ServingError("a server runs there")

    with pytest.raises(ServingError, match="a server runs there"):
        WorkDirLock.take(tmp_path, patience=60, check=check)
    assert is_free(tmp_path)


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("years")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "server.lock").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(ServingError, match="cannot make the work directory"):
        WorkDirLock.take(tmp_path / "work")
    assert (tmp_path / "thesis.txt").read_text() == "years"
