from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from makemar.configs import format_properties, parse_properties
from makemar.configs.properties import property_lines
from makemar.errors import ConfigError

# Pieces that matter to the reader: separators, escapes, line ends, comments. Escaped line ends
# are left to the examples below, because Java's listing shows one entry per line.
PIECES = st.sampled_from(
    (
        *(" ", "\t", "\f", "=", ":", "#", "!", "\\", "\\\\", "\n", "\r", "\r\n", "\\\n", "\\\r\n"),
        *(
            "a",
            "b",
            "0",
            "\\t",
            "\\z",
            "\\=",
            "\\ ",
            "\\u0041",
            "\\u00e9",
            "\xe9",
            "\\ud83d\\ude00",
        ),
    )
)


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read_back(mapping: dict[str, str]) -> None:
    assert parse_properties(format_properties(mapping)) == mapping


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_plain_ascii_without_trailing_spaces(mapping: dict[str, str]) -> None:
    text = format_properties(mapping)
    assert text.isascii()
    assert not any(line.endswith(" ") for line in text.split("\n"))


def ask_java(java: Path, file: Path) -> list[str]:
    """List the entries that `java.util.Properties` finds in a file, sorted, as `key=value`."""
    # The JVM reads its security properties with Properties.load and shows them on request.
    command = [
        str(java),
        "-Dstderr.encoding=UTF-8",
        f"-Djava.security.properties=={file}",
        "-XshowSettings:security:properties",
        "-version",
    ]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    lines = done.stderr.decode("utf-8").split("\n")
    return sorted(line[8:] for line in lines if line.startswith(" " * 8))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pieces=st.lists(PIECES, max_size=60))
def test_java_reads_any_text_the_same_way(java: Path, tmp_path: Path, pieces: list[str]) -> None:
    text = "anchor = here\n" + "".join(pieces)
    file = tmp_path / "any.properties"
    file.write_bytes(text.encode("latin-1"))
    found = "\n".join(sorted(f"{k}={v}" for k, v in parse_properties(text).items()))
    # Half a surrogate pair cannot be printed; Java shows a question mark.
    assert sorted(ask_java(java, file)) == sorted(
        found.encode(errors="replace").decode().split("\n")
    )


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    mapping=st.dictionaries(
        st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs", "Cc"])),
        st.text(
            st.characters(exclude_characters=",\n\r", exclude_categories=["Cs", "Cc"]), max_size=20
        ),
    )
)
def test_java_reads_what_is_written(java: Path, tmp_path: Path, mapping: dict[str, str]) -> None:
    file = tmp_path / "written.properties"
    file.write_text(format_properties(mapping), encoding="ascii")
    assert ask_java(java, file) == sorted(f"{k}={v}" for k, v in mapping.items())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a  =  1  \n", {"a": "1  "}),  # spaces at the end belong to the value
        ("a=1\na=2\n", {"a": "2"}),
        ("# a=1\n  ! b=2\nc=3 # not a comment\n", {"c": "3 # not a comment"}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),  # an even number of backslashes ends the line
        ("a=\\ttab\\nline\\rreturn\\fform\\q", {"a": "\ttab\nline\rreturn\fformq"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a\n=b\n", {"a": "", "": "b"}),
        ("a==b\nc=:d", {"a": "=b", "c": ":d"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\", {"a": "1"}),
        ("a=\u2028b", {"a": "\u2028b"}),  # a line end to Python, not to Java
        ("", {}),
    ],
)
def test_the_syntax_is_java_s(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_every_entry_knows_its_first_line() -> None:
    entries = property_lines("# top\n\na=1,\\\n  2\nb=3\na=4\n")
    assert [(entry.line, entry.key, entry.value) for entry in entries] == [
        (3, "a", "1,2"),
        (5, "b", "3"),
        (6, "a", "4"),
    ]


@pytest.mark.parametrize("escape", ["\\u12", "\\u12g4", "\\u"])
def test_a_malformed_escape_names_its_line(escape: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: malformed escape") as caught:
        parse_properties(f"a=1\nb={escape}\n")
    assert caught.value.line == 2
