"""mar.toml: every key is checked, and what is written is read back the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.archiver import (
    CODES,
    ArchiveSpec,
    Include,
    Silence,
    format_spec,
    parse_include,
    parse_spec,
    read_spec,
    split_extra_files,
)
from makemar.errors import ArchiveError, Severity

MINIMAL = '[model]\nname = "m"\nversion = "1"\nhandler = "h.py"\n'

texts = st.text(st.characters(exclude_categories=("Cs",)))
words = texts.filter(bool)
paths = words.filter(lambda text: "\0" not in text).map(Path)
includes = st.builds(Include, source=paths, destination=st.none() | words)
warnings = [code for code, info in CODES.items() if Severity.WARNING in info.severities]
silences = st.builds(
    Silence, code=st.sampled_from(warnings), reason=texts.filter(lambda text: text.strip())
)
specs = st.builds(
    ArchiveSpec,
    model_name=texts,
    version=texts,
    handler=texts,
    model_file=st.none() | paths,
    serialized_file=st.none() | paths,
    extra_files=st.lists(words).map(tuple),
    include=st.lists(includes).map(tuple),
    requirements_file=st.none() | paths,
    config_file=st.none() | paths,
    runtime=texts,
    description=texts,
    vendor=st.booleans(),
    strict=st.booleans(),
    target_python=texts,
    target_envelope=texts,
    silence=st.lists(silences, unique_by=lambda silence: silence.code).map(tuple),
    base=st.just(Path("somewhere")),
)


@given(specs)
def test_a_spec_that_is_written_is_read_back_the_same(spec):
    assert parse_spec(format_spec(spec), spec.base) == spec


def test_every_key_reaches_its_field(tmp_path):
    path = tmp_path / "mar.toml"
    path.write_text(
        """
        [model]
        name = "pets"
        version = "2.1"
        handler = "src/handler.py:serve"
        model_file = "src/network.py"
        serialized_file = "weights.pth"
        runtime = "python3"
        description = "cats & dogs"

        [files]
        extra = ["a.txt", "labels/*.json"]
        include = ["vision", "static=web/static", { source = "a=b.txt", destination = "b.txt" }]
        requirements = "requirements.txt"
        config = "model-config.yaml"

        [archive]
        vendor = false
        strict = true

        [target]
        python = "3.11"
        envelope = "json"

        [silence]
        hidden-file = "ours"
        """
    )
    assert read_spec(path) == ArchiveSpec(
        model_name="pets",
        version="2.1",
        handler="src/handler.py:serve",
        model_file=Path("src/network.py"),
        serialized_file=Path("weights.pth"),
        runtime="python3",
        description="cats & dogs",
        extra_files=("a.txt", "labels/*.json"),
        include=(
            Include(source=Path("vision")),
            Include(source=Path("static"), destination="web/static"),
            Include(source=Path("a=b.txt"), destination="b.txt"),
        ),
        requirements_file=Path("requirements.txt"),
        config_file=Path("model-config.yaml"),
        vendor=False,
        strict=True,
        target_python="3.11",
        target_envelope="json",
        silence=(Silence(code="hidden-file", reason="ours"),),
        base=tmp_path,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MINIMAL + 'modle_file = "n.py"\n',
            ":5: unknown key 'modle_file' in [model]; did you mean",
        ),
        (
            MINIMAL + 'config = "c"\n',
            ":5: unknown key 'config' in [model]; did you mean 'config' in",
        ),
        ("[files]\nextra_files = []\n" + MINIMAL, ":2: unknown key 'extra_files'"),
        (MINIMAL + "[fiels]\n", ":5: unknown table [fiels]; did you mean [files]?"),
        (
            MINIMAL + "[zebra]\n",
            ":5: unknown table [zebra]; there are [model], [files], [archive], [target]",
        ),
        (
            'name = "m"\n',
            "unknown key 'name' outside of any table; did you mean 'name' in [model]?",
        ),
        ("files = 3\n" + MINIMAL, "'files' must be a table; write [files]"),
        ('[model]\nname = "m"\n', ":1: 'version' is missing from [model]"),
        ("", "'name' is missing from [model]; add it"),
        (MINIMAL.replace('"1"', "1.0"), ":3: 'version' must be a text; write version = \"1.0\""),
        (MINIMAL + 'model_file = ""\n', ":5: 'model_file' has an empty text"),
        (MINIMAL + '[archive]\nvendor = "no"\n', ":6: 'vendor' must be true or false"),
        (MINIMAL + '[files]\nextra = "a.txt"\n', ":6: 'extra' must be a list"),
        (MINIMAL + "[files]\nextra = [1]\n", ":6: 'extra' must be a text"),
        (MINIMAL + '[files]\ninclude = ["=x"]\n', ":6: include '=x': a side is empty"),
        (MINIMAL + "[files]\ninclude = [{ from = 1 }]\n", ":6: an entry of 'include' must look"),
        (MINIMAL + "[archive]\nstrict = 1\n", ":6: 'strict' must be true or false"),
        (MINIMAL + "[target]\npython = 3.9\n", ":6: 'python' must be a text; write python = \"3.9"),
        (MINIMAL + 'target_python = "3.9"\n', "did you mean 'python' in [target]?"),
        ("[model\n", "not valid TOML: "),
        ("a = " + "[" * 5000, "TOML that cannot be read: "),
        ("a = " + "9" * 5000, "TOML that cannot be read: "),
        (MINIMAL.replace('"1"', "0x" + "f" * 5000), ":3: 'version' must be a text"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, text, expected):
    path = tmp_path / "mar.toml"
    path.write_text(text)
    with pytest.raises(ArchiveError) as caught:
        read_spec(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert expected in message
    assert "\n" not in message
    assert caught.value.path == path


@pytest.mark.parametrize(("contents", "reason"), [(None, "No such file"), (b"\xff", "not UTF-8")])
def test_a_file_that_cannot_be_read_says_why(tmp_path, contents, reason):
    path = tmp_path / "mar.toml"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(ArchiveError, match=reason):
        read_spec(path)


def test_an_include_flag_splits_at_its_last_equals_sign():
    assert parse_include("src/pkg") == Include(source=Path("src/pkg"))
    assert parse_include("src/pkg=lib/pkg") == Include(
        source=Path("src/pkg"), destination="lib/pkg"
    )
    assert parse_include("a=b=c") == Include(source=Path("a=b"), destination="c")
    for text in ("", "=", "a=", "=b"):
        with pytest.raises(ArchiveError, match="a side is empty"):
            parse_include(text)


def test_a_comma_list_may_have_blanks():
    assert split_extra_files("a.txt, b.txt ,,*.json") == ("a.txt", "b.txt", "*.json")


def test_the_example_in_the_documentation_is_a_spec(tmp_path):
    from makemar.archiver import mar_toml
    from makemar.archiver.mar_toml_keys import KEYS

    text = (mar_toml.__doc__ or "").partition("\n\n")[2].partition("\n`handler` is one of")[0]
    spec = parse_spec(text, tmp_path)
    assert spec.silence[0].code == "hidden-file"
    for table, keys in KEYS.items():
        assert f"[{table}]" in text
        assert all(f"{key} = " in text for key in keys)
