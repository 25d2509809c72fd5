"""RECORD: lines as in a wheel."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.archiver.record import RecordLine, encode_digest, format_record, parse_record
from makemar.errors import IntegrityError

# A plan lets no control characters through.
lines = st.builds(
    RecordLine,
    name=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
        lambda name: name != "MAR-INF/RECORD"
    ),
    digest=st.binary(min_size=32, max_size=32).map(encode_digest),
    size=st.integers(min_value=0, max_value=2**63 - 1),
)


@given(st.lists(lines, unique_by=lambda line: line.name).map(tuple))
def test_lines_that_are_written_are_read_back_the_same(record):
    text = format_record(record)
    assert parse_record(text) == record
    assert parse_record(text.encode()) == record


def test_a_line_is_that_of_a_wheel():
    digest = encode_digest(hashlib.sha256(b"").digest())
    text = format_record([RecordLine(name="a,b.txt", digest=digest, size=0)])
    assert text == (
        '"a,b.txt",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nMAR-INF/RECORD,,\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "a\n",
        "a,md5=x,1\n",
        "a,sha256=,1\n",
        "a,sha256=x,-1\n",
        "a,sha256=x,many\n",
        f"a,sha256=x,{'9' * 5000}\n",
        ",sha256=x,1\n",
        "a,sha256=x,1\na,sha256=x,1\n",
        '"',
        b"\xff,",
    ],
)
def test_a_line_that_is_none_is_an_integrity_error(text):
    with pytest.raises(IntegrityError, match="RECORD"):
        parse_record(text)
