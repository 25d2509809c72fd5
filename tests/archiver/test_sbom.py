"""A bill of materials that any reader of CycloneDX 1.6 understands, the same every time."""

import hashlib
import json
import zipfile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import makemar
from makemar.archiver import ArchiveFormat, make_sbom, plan_archive, write_archive
from makemar.errors import IntegrityError, ManifestError

REQUIREMENTS = """\
# pinned ones have a version
Pillow==13.0.0
torch_geometric[full] == 2.7.0+cpu ; python_version > "3.9"  # why
requests>=2.31,<3
tokenizers
numpy==2.4.6 \\
    --hash=sha256:0000
pillow==13.0.0
--extra-index-url https://example.org/simple
-r other.txt
mine @ https://example.org/mine-1.0-py3-none-any.whl
https://example.org/loose-1.0-py3-none-any.whl
"""
HANDLER = "from makemar.handlers import BaseHandler\n\n\nclass Mine(BaseHandler):\n    pass\n"


@pytest.fixture
def pack(project, store):
    """Pack a model with makemar's handlers and requirements, in a format."""

    def make(archive_format=ArchiveFormat.MAR, **spec):
        from pathlib import Path

        files = {"handler.py": HANDLER, "requirements.txt": REQUIREMENTS, "odd, 名.txt": "?"}
        files["weights.bin"] = b"\0" * 1000
        values = {
            "serialized_file": Path("weights.bin"),
            "requirements_file": Path("requirements.txt"),
            "extra_files": ("odd*.txt",),
            "description": "Ping",
            **spec,
        }
        plan = plan_archive(project(files, **values))
        target = store / f"pong{archive_format.suffix}"
        write_archive(plan, target, archive_format=archive_format, force=True)
        return target

    return make


def components(sbom, kind):
    return {item["name"]: item for item in sbom["components"] if item["type"] == kind}


def assert_valid(sbom):
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom))
    assert error is None, error


@pytest.mark.parametrize("archive_format", list(ArchiveFormat))
def test_it_is_valid_and_the_same_every_time(pack, archive_format):
    path = pack(archive_format)
    sbom = make_sbom(path)
    assert_valid(sbom)
    assert json.dumps(make_sbom(path)) == json.dumps(sbom)


def test_another_archive_has_another_serial_number(pack):
    first = make_sbom(pack())["serialNumber"]
    assert make_sbom(pack())["serialNumber"] == first
    assert make_sbom(pack(version="2.0"))["serialNumber"] != first


def test_the_model_is_the_subject(pack):
    model = make_sbom(pack())["metadata"]["component"]
    assert model["type"] == "machine-learning-model"
    assert (model["name"], model["version"], model["description"]) == ("pong", "1.0", "Ping")
    assert {"name": "torchserve:serializedFile", "value": "weights.bin"} in model["properties"]


def test_every_member_is_a_file_with_its_hash(pack):
    path = pack()
    with zipfile.ZipFile(path) as archive:
        contents = {info.filename: archive.read(info) for info in archive.infolist()}
    files = components(make_sbom(path), "file")
    assert files.keys() == contents.keys()
    for name, data in contents.items():
        digest = hashlib.sha256(data).hexdigest()
        assert files[name]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_requirements_and_the_vendored_makemar_are_libraries(pack):
    sbom = make_sbom(pack())
    libraries = components(sbom, "library")
    purls = {name: item.get("purl") for name, item in libraries.items()}
    assert purls == {
        "makemar": f"pkg:pypi/makemar@{makemar.__version__}",
        "pillow": "pkg:pypi/pillow@13.0.0",
        "torch-geometric": "pkg:pypi/torch-geometric@2.7.0%2Bcpu",
        "requests": "pkg:pypi/requests",
        "tokenizers": "pkg:pypi/tokenizers",
        "numpy": "pkg:pypi/numpy@2.4.6",
        "mine": "pkg:pypi/mine",
        "https://example.org/loose-1.0-py3-none-any.whl": None,
    }
    assert "version" not in libraries["requests"]
    (dependencies,) = sbom["dependencies"]
    assert dependencies["dependsOn"] == sorted(item["bom-ref"] for item in libraries.values())


def test_an_archive_of_another_program_has_one(tmp_path):
    path = tmp_path / "theirs.mar"
    manifest = {"model": {"modelName": "theirs", "handler": "image_classifier"}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
    sbom = make_sbom(path)
    assert_valid(sbom)
    assert sbom["metadata"]["component"]["version"] == "1.0"


def test_a_damaged_archive_and_one_without_manifest_have_none(pack, tmp_path):
    path = pack()
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(IntegrityError):
        make_sbom(path)
    with zipfile.ZipFile(tmp_path / "bare.mar", "w") as archive:
        archive.writestr("handler.py", "")
    with pytest.raises(ManifestError, match="MANIFEST"):
        make_sbom(tmp_path / "bare.mar")
