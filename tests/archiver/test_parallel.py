"""Many at once, of one name into one folder: what is there at the end is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat, check_record, read_archive

BUILDS = 50
# One process imports makemar, and forks the builds; all of them start when the pipe is closed.
SCRIPT = """
import os, sys
from pathlib import Path
from makemar.archiver import *
from makemar.errors import ArchiveExistsError
kind, target, force = ArchiveFormat({kind!r}), Path({target!r}), {force}
gate, opener = os.pipe()
children = []
for number in range({builds}):
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(opener)
            base = Path({base!r}) / str(number)
            base.mkdir()
            (base / "handler.py").write_text("def handle(data, context): ...\\n")
            (base / "weights.pth").write_bytes(number.to_bytes(4, "big") * 100_000)
            plan = plan_archive(ArchiveSpec(model_name="pong", version=str(number),
                handler="handler.py", serialized_file=Path("weights.pth"), base=base, vendor=False))
            os.read(gate, 1)
            write_archive(plan, target, archive_format=kind, force=force)
            code = 0
        except ArchiveExistsError:
            code = 3
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        finally:
            os._exit(code)
    children.append(child)
os.close(opener)
print(sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", list(ArchiveFormat))
def test_fifty_builds_of_one_name_leave_one_whole_archive(tmp_path: Path, kind, force) -> None:
    base, store = tmp_path / "base", tmp_path / "store"
    base.mkdir()
    store.mkdir()
    target = store / f"pong{kind.suffix}"
    script = SCRIPT.format(
        kind=kind.value, target=str(target), force=force, builds=BUILDS, base=str(base)
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120
    )
    # Each ran; with force each succeeded, without it the first did and the others were told.
    assert done.stdout.strip() == str([0] * BUILDS if force else [0] + [3] * (BUILDS - 1))
    assert [path.name for path in store.iterdir()] == [target.name]
    assert check_record(target) == ()
    winner = int(read_archive(target).manifest.model_version)
    sizes = {member.name: member.size for member in read_archive(target).members}
    assert sizes["weights.pth"] == 400_000
    assert 0 <= winner < BUILDS
