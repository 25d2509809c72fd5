"""The manifest: what TorchServe reads, written the same every time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.archiver import Manifest, format_manifest, parse_manifest
from makemar.archiver.build_time import find_build_time
from makemar.archiver.manifest import format_time
from makemar.errors import ArchiveError, ManifestError

words = st.text(min_size=1)
files = st.none() | words
manifests = st.builds(
    Manifest,
    model_name=words,
    handler=words,
    model_version=st.text(),
    description=st.text(),
    serialized_file=files,
    model_file=files,
    requirements_file=files,
    config_file=files,
    runtime=words,
    created_on=st.text(),
    archiver_version=st.text(),
)


@given(manifests)
def test_a_manifest_that_is_written_is_read_back_the_same(manifest):
    assert parse_manifest(format_manifest(manifest)) == manifest


def test_the_keys_are_torchserves():
    manifest = Manifest(
        model_name="m",
        handler="h.py:f",
        model_version="1.0",
        serialized_file="w.pth",
        model_file="n.py",
        requirements_file="r.txt",
        config_file="c.yaml",
        created_on="01/01/1980 00:00:00",
        archiver_version="0.1.0",
    )
    assert json.loads(format_manifest(manifest)) == {
        "createdOn": "01/01/1980 00:00:00",
        "runtime": "python",
        "archiverVersion": "0.1.0",
        "model": {
            "modelName": "m",
            "modelVersion": "1.0",
            "handler": "h.py:f",
            "serializedFile": "w.pth",
            "modelFile": "n.py",
            "requirementsFile": "r.txt",
            "configFile": "c.yaml",
        },
    }


def test_a_bare_number_is_the_version_that_was_written():
    text = '{"model": {"modelName": "m", "handler": "h", "modelVersion": 1.10}, "new": [1]}'
    assert parse_manifest(text).model_version == "1.10"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        (b"\xff\xfe\xfd", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("null", "the manifest is missing"),
        ("[]", "the manifest is a list, not an object"),
        ("{}", "'model' in the manifest is missing"),
        ('{"model": null}', "'model' in the manifest is missing"),
        ('{"model": {"handler": "h"}}', "no model.modelName"),
        ('{"model": {"modelName": "m"}}', "no model.handler"),
        ('{"model": {"modelName": ["m"], "handler": "h"}}', "modelName in the manifest is a list"),
    ],
)
def test_a_manifest_that_torchserve_would_refuse_is_refused(text, reason):
    with pytest.raises(ManifestError, match=reason):
        parse_manifest(text)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (None, "01/01/1980 00:00:00"),
        ("0", "01/01/1980 00:00:00"),
        ("1735689599", "31/12/2024 23:59:59"),
        ("99999999999999999999", "07/02/2106 06:28:15"),
    ],
)
def test_the_time_is_never_the_clocks(epoch, expected):
    environment = {} if epoch is None else {"SOURCE_DATE_EPOCH": epoch}
    assert format_time(find_build_time(environment)) == expected


def test_a_bad_source_date_epoch_says_how_to_set_it():
    with pytest.raises(ArchiveError, match="SOURCE_DATE_EPOCH='yesterday' is not a number"):
        find_build_time({"SOURCE_DATE_EPOCH": "yesterday"})


def test_the_version_of_an_archive_that_names_none_is_the_server_s():
    assert Manifest(model_name="m", handler="h").effective_version == "1.0"
    assert Manifest(model_name="m", handler="h", model_version="2").effective_version == "2"
