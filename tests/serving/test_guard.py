import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from makemar.errors import ServingError
from makemar.serving.guard import Guard
from makemar.serving.processes import is_alive, start_time, terminate_group

# A leader with a child in its group; `deaf` ignores the polite signal.
FAMILY = """
import signal, subprocess, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""
OWNER = """
import subprocess, sys, time
from pathlib import Path
from makemar.serving.guard import Guard
from makemar.serving.processes import start_time
family = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE,
                          start_new_session=True, text=True)
child = family.stdout.readline().strip()
guard = Guard(grace=5, leftovers=list(map(Path, sys.argv[2:])))
guard.watch(family.pid, start_time(family.pid))
print(family.pid, child, flush=True)
time.sleep(600)
"""
WaitFor = Callable[..., None]


class Family:
    def __init__(self, *words: str) -> None:
        self.leader = subprocess.Popen(
            [sys.executable, "-c", FAMILY, *words],
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert self.leader.stdout is not None
        self.child = int(self.leader.stdout.readline())
        self.started = start_time(self.leader.pid) or 0.0

    def gone(self) -> bool:
        return not runs(self.leader.pid) and not runs(self.child)

    def close(self) -> None:
        if not self.gone():
            os.killpg(self.leader.pid, signal.SIGKILL)
        self.leader.wait()
        assert self.leader.stdout is not None
        self.leader.stdout.close()


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture
def family() -> Iterator[Family]:
    made = Family()
    yield made
    made.close()


@pytest.fixture
def deaf() -> Iterator[Family]:
    made = Family("deaf")
    yield made
    made.close()


def test_a_group_ends_with_its_leader_and_its_children(family: Family):
    terminate_group(family.leader.pid, family.started, grace=5)
    assert family.gone()
    assert family.leader.wait() == -signal.SIGTERM


def test_a_leader_that_will_not_end_is_killed(deaf: Family):
    terminate_group(deaf.leader.pid, deaf.started, grace=0.2)
    assert deaf.gone()
    assert deaf.leader.wait() == -signal.SIGKILL


def test_children_that_outlive_their_leader_end_too(family: Family):
    family.leader.kill()
    family.leader.wait()
    assert runs(family.child)
    terminate_group(family.leader.pid, family.started, grace=5)
    assert family.gone()


def test_a_process_that_only_has_an_old_id_is_left_alone(family: Family):
    assert not is_alive(family.leader.pid, family.started - 60)
    terminate_group(family.leader.pid, family.started - 60, grace=0)
    assert runs(family.leader.pid)
    assert runs(family.child)


def test_the_guard_ends_a_server_whose_owner_was_killed(tmp_path: Path, wait_for: WaitFor):
    keys, folder = tmp_path / "key_file.json", tmp_path / "tmp"
    keys.write_text("secret")
    (folder / "models").mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, FAMILY, str(keys), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        leader, child = map(int, owner.stdout.readline().split())
        assert runs(leader)
        owner.kill()
    wait_for(lambda: not runs(leader) and not runs(child) and not folder.exists())
    assert not keys.exists()
    assert tmp_path.exists()


def test_a_guard_that_is_released_does_nothing(family: Family, tmp_path: Path):
    keys = tmp_path / "key_file.json"
    keys.write_text("secret")
    guard = Guard(grace=0, leftovers=[keys])
    guard.watch(family.leader.pid, family.started)
    guard.release()
    assert runs(family.leader.pid)
    assert keys.exists()


def test_no_file_in_the_owners_folder_is_run_by_the_guard(tmp_path: Path, wait_for: WaitFor):
    for name in ("shutil", "psutil", "makemar", "sitecustomize", "signal"):
        (tmp_path / f"{name}.py").write_text(
            "open('/proc/self/cwd/was-run', 'w')\nraise SystemExit"
        )
    keys = tmp_path / "key_file.json"
    keys.write_text("secret")
    # The owner itself has read its modules before it comes to this folder.
    come = f"import os, psutil; start_time(1); os.chdir({str(tmp_path)!r})\nguard = Guard("
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.replace("guard = Guard(", come), FAMILY, str(keys)],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        leader, child = map(int, owner.stdout.readline().split())
        owner.kill()
    wait_for(lambda: not runs(leader) and not runs(child) and not keys.exists())
    assert not (tmp_path / "was-run").exists()


def test_a_guard_that_cannot_start_is_told_and_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho 'this Python is broken' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ServingError, match="guard of the server: this Python is broken"):
        Guard(grace=0, leftovers=[])


def test_a_guard_that_died_is_told_when_it_is_needed(family: Family):
    before = set(psutil.Process().children())
    guard = Guard(grace=0, leftovers=[])
    for process in set(psutil.Process().children()) - before:
        process.kill()
        process.wait()
    with pytest.raises(ServingError, match="guard of the server has died"):
        guard.watch(family.leader.pid, family.started)
    guard.release()
    assert runs(family.leader.pid)


def test_an_owner_that_dies_before_it_has_a_server_leaves_nothing(
    tmp_path: Path, wait_for: WaitFor
):
    keys = tmp_path / "key_file.json"
    keys.write_text("secret")
    code = (
        "import os, sys; from pathlib import Path; from makemar.serving.guard import Guard; "
        "guard = Guard(grace=0, leftovers=[Path(sys.argv[1])]); os._exit(1)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(keys)], check=False).returncode == 1
    wait_for(lambda: not keys.exists())
