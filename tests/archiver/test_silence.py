"""Warnings that are accepted with a reason, and warnings that are not accepted at all."""

from __future__ import annotations

import pytest

from makemar.archiver import Silence, parse_silence, parse_spec, plan_archive, write_archive
from makemar.errors import ArchiveError, Severity

MINIMAL = '[model]\nname = "m"\nversion = "1"\nhandler = "h.py"\n'
WARNED = {"data/.env": "SECRET=1", "data/.private": "x", "data/a.txt": ""}
OURS = Silence(code="hidden-file", reason="settings of our editor")


def test_a_silenced_warning_is_kept_apart(project):
    spec = project(WARNED, extra_files=("data",), silence=(OURS,))
    plan = plan_archive(spec)
    assert plan.findings == ()
    assert [f.code for f in plan.silenced] == ["hidden-file", "hidden-file"]


def test_strict_makes_errors_of_the_warnings_that_are_left(project, tmp_path):
    files = {**WARNED, "handler.py": "import tomllib\ndef handle(data, context): ...\n"}
    spec = project(files, extra_files=("data",), silence=(OURS,), strict=True)
    plan = plan_archive(spec)
    assert [(f.code, f.severity) for f in plan.findings] == [("target-python", Severity.ERROR)]
    with pytest.raises(ArchiveError, match="not packed"):
        write_archive(plan, tmp_path / "m.mar")


def test_a_silence_that_silences_nothing_is_a_warning(project):
    (finding,) = plan_archive(project(silence=(OURS,))).findings
    assert (finding.code, finding.severity) == ("unused-silence", Severity.WARNING)
    assert "'hidden-file'" in finding.message


def test_an_error_is_never_silenced(project):
    silence = Silence(code="missing-file", reason="not needed")
    plan = plan_archive(project(extra_files=("nope",), silence=(silence,)))
    assert [f.code for f in plan.errors] == ["missing-file"]
    assert "cannot be silenced" in plan.findings[-1].message


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        ("hiden-file", "why", "there is no finding 'hiden-file'; did you mean 'hidden-file'?"),
        ("zebra", "why", "there is no finding 'zebra'; write the one in a finding's brackets"),
        ("hidden-file", "", "no reason to silence 'hidden-file'; write why"),
        ("hidden-file", "  ", "no reason to silence"),
        ("syntax-error", "why", "'syntax-error' is an error: the archive would not work"),
    ],
)
def test_a_silence_that_cannot_be_meant_is_refused_everywhere(project, code, reason, words):
    plan = plan_archive(project(silence=(Silence(code=code, reason=reason),)))
    (finding,) = plan.errors
    assert finding.code == "silence"
    assert words in finding.message
    with pytest.raises(ArchiveError, match="silence") as caught:
        parse_silence(f"{code}={reason}")
    assert words in str(caught.value)
    text = f'{MINIMAL}[silence]\nempty-glob = "fine"\n{code} = "{reason}"\n'
    with pytest.raises(ArchiveError, match=r"mar\.toml:7: ") as caught:
        parse_spec(text, project().base)
    assert words in str(caught.value)


def test_a_reason_may_hold_anything():
    assert parse_silence("hidden-file = a = b") == Silence(code="hidden-file", reason="a = b")


@pytest.mark.parametrize("text", ["", "=", "hidden-file", "hidden-file="])
def test_a_silence_without_a_side_is_refused(text):
    with pytest.raises(ArchiveError, match="silence"):
        parse_silence(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("silence = 3\n" + MINIMAL, "'silence' must be a table"),
        (MINIMAL + "[silence]\nhidden-file = true\n", ":6: 'hidden-file' must be a text"),
        (MINIMAL + "[silense]\n", "did you mean [silence]?"),
    ],
)
def test_the_silences_of_a_mar_toml_are_checked(project, text, words):
    with pytest.raises(ArchiveError) as caught:
        parse_spec(text, project().base)
    assert words in str(caught.value)
