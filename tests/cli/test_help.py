from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import makemar
from makemar.cli.verbs import VERBS

HEAVY = ("torch", "rich", "requests", "yaml", "numpy", "psutil")
ROOMS = ("archiver", "configs", "handlers", "planning", "serving")
# They describe one model or one run, so nobody sets them once for a whole session.
OF_ONE_RUN = {
    "--content-type",
    "--json",
    "--force",
    "--version",
    "--model-name",
    "--handler",
    "--runtime",
    "--signature",
}


def loaded_after(*arguments: str, cwd: Path | None = None) -> tuple[int, set[str]]:
    """Run one command line in a fresh interpreter; return its code and what it has imported."""
    code = (
        "import json, sys\n"
        "from makemar.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules)


def test_help_loads_no_room_and_nothing_heavy() -> None:
    code, modules = loaded_after("--help")
    assert code == 0
    assert not modules & set(HEAVY)
    assert not modules & {f"makemar.{room}" for room in ROOMS}


def test_packing_and_inspecting_never_import_torch(model: Path) -> None:
    flags = ["--model-name", "echo", "--version", "1.0", "--handler", "handler.py"]
    for arguments in (["pack", *flags], ["inspect", "echo.mar"], ["config", "init"]):
        code, modules = loaded_after(*arguments, cwd=model)
        assert code == 0
        assert not modules & {"torch", "requests", "numpy", "rich"}


def test_without_arguments_the_program_prints_its_help(make_mar) -> None:
    bare = make_mar()
    assert bare.code == 0
    assert bare.out == make_mar("--help").out == make_mar("-h").out
    for verb in VERBS:
        assert f"\n  {verb}  " in bare.out


def test_the_version_alone_is_makemar_s(make_mar) -> None:
    assert make_mar("--version").out == f"make-mar {makemar.__version__}\n"


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_s_line_in_the_table_is_the_first_of_its_help(name: str) -> None:
    command = VERBS[name].load(name)
    assert (command.help or "").splitlines()[0] == VERBS[name].help


def every_command() -> dict[str, typer.core.TyperCommand]:
    commands = {}
    for name, verb in VERBS.items():
        loaded = verb.load(name)
        inner = getattr(loaded, "commands", None)
        commands |= (
            {f"{name} {key}": value for key, value in inner.items()} if inner else {name: loaded}
        )
    return commands


def test_every_verb_has_help_for_itself_and_each_flag(make_mar) -> None:
    for name, command in every_command().items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), (name, parameter.name)
        shown = make_mar(*name.split(), "--help")
        assert shown.code == 0
        assert shown.out.startswith(f"Usage: make-mar {name}")


def test_a_flag_that_repeats_can_come_from_the_environment() -> None:
    where: dict[str, list[tuple[str, object]]] = {}
    for name, command in every_command().items():
        for parameter in command.params:
            for flag in parameter.opts:
                if flag.startswith("--"):
                    where.setdefault(flag, []).append((name, parameter.envvar))
    repeated = {flag: uses for flag, uses in where.items() if len(uses) > 1}
    assert {"--work-dir", "--url", "--key-file", "--timeout"} <= repeated.keys()
    for flag in repeated.keys() - OF_ONE_RUN:
        for name, variable in repeated[flag]:
            assert str(variable).startswith("MAKEMAR_"), (flag, name)


def test_a_verb_that_is_none_gets_a_hint(make_mar) -> None:
    make_mar("inspekt").assert_failed("'inspekt'", "did you mean 'inspect'?", code=2)
    make_mar("frobnicate").assert_failed("there are pack, inspect", code=2)
    make_mar("models").assert_failed("missing command", "make-mar models --help", code=2)
    make_mar("models", "lst").assert_failed("'lst'", code=2)


def test_a_flag_that_is_none_is_told_with_the_verb_s_help(make_mar) -> None:
    make_mar("stop", "--nope").assert_failed("--nope", "`make-mar stop --help`", code=2)
    make_mar("--nope").assert_failed("--nope", "`make-mar pack --help`", code=2)


def test_the_module_is_the_program_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "makemar.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"make-mar {makemar.__version__}\n"


def test_a_shell_s_completion_finds_verbs_and_flags(make_mar) -> None:
    variables = {
        "_MAKE_MAR_COMPLETE": "complete_bash",
        "COMP_WORDS": "make-mar ",
        "COMP_CWORD": "1",
    }
    assert set(make_mar(env=variables).out.split()) >= set(VERBS)
    variables |= {"COMP_WORDS": "make-mar stop --w", "COMP_CWORD": "2"}
    assert "--work-dir" in make_mar(env=variables).out
