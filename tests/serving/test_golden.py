from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.errors import ServingError
from makemar.serving import Reply
from makemar.serving.comparison import find_reply_difference
from makemar.serving.golden import (
    format_golden,
    golden_path,
    parse_golden,
    read_golden,
    write_golden,
)

bodies = st.binary() | st.text(st.characters(exclude_categories=["Cs"])).map(str.encode)
bodies |= st.sampled_from([b"{}", b'"\\ud800"', b"NaN", b"[1e999]", b"1" * 5000, b" 1 ", b"\x0c"])


@given(bodies, st.none() | st.text(min_size=1), st.integers(100, 599))
def test_a_golden_reply_is_read_as_it_was_written(body: bytes, kind: str | None, status: int):
    headers = {} if kind is None else {"content-type": kind}
    reply = Reply(status=status, headers=headers, body=body)
    again = parse_golden(format_golden(reply))
    assert find_reply_difference(reply, again, 0.0) == ""
    assert format_golden(again) == format_golden(reply)


def test_what_people_will_read_is_readable():
    reply = Reply(status=200, headers={"content-type": "application/json"}, body=b'{"cat":0.5}')
    lines = format_golden(reply).splitlines()
    assert '    "cat": 0.5' in lines
    assert '  "content_type": "application/json",' in lines


def test_golden_replies_are_written_whole_and_replace_older_ones(tmp_path: Path):
    folder = tmp_path / "new" / "golden"
    path = golden_path(folder, "somewhere/cat.png")
    assert path == folder / "cat.png.golden.json"
    assert read_golden(path) is None
    for body in (b"first", b"second"):
        write_golden([(path, Reply(status=200, headers={}, body=body))])
    found = read_golden(path)
    assert found is not None
    assert found.body == b"second"
    assert [file.name for file in folder.iterdir()] == ["cat.png.golden.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"status": 200}', '{"status": 200, "base64": "%"}']
)
def test_a_broken_golden_reply_is_told(tmp_path: Path, text: str):
    path = tmp_path / "x.golden.json"
    path.write_text(text)
    with pytest.raises(ServingError, match=r"x.golden.json: is no golden reply: .*--update"):
        read_golden(path)
