from __future__ import annotations

from pathlib import Path

import pytest

FLAGS = ("--model-name", "echo", "--handler", "handler.py", "--serialized-file", "weights.pt")


@pytest.fixture
def pair(make_mar, model: Path) -> tuple[Path, Path]:
    """Two archives: another version, other weights, one more file."""
    torch = pytest.importorskip("torch")
    paths = []
    for version, value in (("1.0", 0.0), ("2.0", 0.25)):
        torch.save({"layer.weight": torch.full((2, 2), value)}, model / "weights.pt")
        extra = ("--extra-files", "notes.txt") if value else ()
        (model / "notes.txt").write_text("x")
        done = make_mar(*FLAGS, "--version", version, *extra, "--export-path", version, cwd=model)
        assert done.code == 0, done
        paths.append(model / version / "echo.mar")
    return paths[0], paths[1]


def test_equal_archives_are_silent(make_mar, pair) -> None:
    done = make_mar("diff", pair[0], pair[0])
    assert (done.code, done.out, done.err) == (0, "", "")


def test_differences_are_a_table_and_exit_code_1(make_mar, pair) -> None:
    done = make_mar("diff", *pair)
    assert (done.code, done.err) == (1, "")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["what", "name", "change", "before", "after"]
    assert [row[:3] for row in rows[1:]] == [
        ["member", "notes.txt", "added"],
        ["member", "weights.pt", "changed"],
        ["manifest", "model.modelVersion", "changed"],
        ["tensor", "weights.pt: layer.weight", "by 0.25"],
    ]


def test_its_json_holds_the_same(make_mar, pair) -> None:
    done = make_mar("diff", *pair, "--json")
    assert done.code == 1
    assert [member["name"] for member in done.data["members"]] == ["notes.txt", "weights.pt"]
    assert done.data["members"][0]["before"] is None
    assert done.data["members"][0]["after"]["size"] == 1
    assert done.data["manifest"] == [
        {"key": "model.modelVersion", "before": '"1.0"', "after": '"2.0"'}
    ]
    assert done.data["weights"][0]["tensors"] == [
        {
            "name": "layer.weight",
            "before": "float32[2, 2]",
            "after": "float32[2, 2]",
            "largest": 0.25,
        }
    ]
    assert make_mar("diff", pair[0], pair[0], "--json").data["members"] == []


def test_what_is_no_archive_is_one_line(make_mar, pair) -> None:
    make_mar("diff", pair[0], "no.mar").assert_failed("no.mar: cannot be read")
    make_mar("diff", pair[0]).assert_failed("missing argument", code=2)
