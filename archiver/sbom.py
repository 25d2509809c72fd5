"""The bill of materials of an archive: CycloneDX 1.6, the same bytes for the same archive."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import makemar
from makemar.archiver.manifest import Manifest, parse_manifest
from makemar.archiver.member import MANIFEST_NAME
from makemar.archiver.record import RecordLine, decode_digest
from makemar.archiver.requirements import normalize_name
from makemar.archiver.survey import Survey, survey_archive
from makemar.errors import IntegrityError, ManifestError, Severity

__all__ = ["make_sbom"]

_SPACE = uuid.UUID("6f0c3f4e-3b6d-5b51-9d0e-6d616b656d61")
_VENDORED = "makemar/__init__.py"
_VERSION = re.compile(rb"^__version__ *(?:: *[A-Za-z.]+ *)?= *[\"']([^\"']+)[\"']", re.MULTILINE)
_NAME = r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_PINNED = re.compile(
    rf"{_NAME}\s*(?:\[[^\]]*\])?\s*===?\s*(?P<version>[A-Za-z0-9.+!_-]+)\s*(?:;.*)?"
)
# A name, and after it nothing that makes it a URL or a path.
_NAMED = re.compile(rf"{_NAME}(?=\s*(?:$|[\[(<>=!~;@,]))")
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(r"\s--?[a-z][a-z-]*(?:[= ].*)?$")


def make_sbom(path: Path) -> dict[str, object]:
    """Return the bill of materials of a `.mar`, a `.tar.gz` or a model directory, fit for JSON.

    The model is the subject; every member is a file with its SHA-256, every line of the
    requirements file a library, with a package URL, and its version if that is pinned; makemar's
    vendored handlers are a library, with their version. Every byte is read and nothing is run; no
    time and no random number is in it.

    Raises IntegrityError if the archive is damaged, ManifestError if it has no usable manifest.
    """
    survey = survey_archive(path)
    faults = [found for found in survey.findings if found.severity is Severity.ERROR]
    if faults:
        raise IntegrityError(
            f"{path}: {faults[0].message}; {faults[0].fix}", path=path, findings=tuple(faults)
        )
    manifest = _read_manifest(survey)
    libraries = [*_vendored(survey), *_requirements(survey, manifest)]
    files = [_file(line) for _, line in sorted(survey.lines.items())]
    lines = "".join(f"{line.name},{line.digest},{line.size}\n" for line in survey.lines.values())
    serial = uuid.uuid5(
        _SPACE, hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
    )
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": "makemar", "version": makemar.__version__}
                ]
            },
            "component": _model(manifest),
        },
        "components": [*libraries, *files],
        "dependencies": [
            {"ref": "model", "dependsOn": sorted(str(item["bom-ref"]) for item in libraries)}
        ],
    }


def _read_manifest(survey: Survey) -> Manifest:
    path, text = survey.path, survey.texts.get(MANIFEST_NAME)
    if text is None:
        raise ManifestError(f"{path}: there is no {MANIFEST_NAME} in it; pack it again", path=path)
    try:
        return parse_manifest(text)
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}", path=path) from error


def _model(manifest: Manifest) -> dict[str, object]:
    facts = {
        "handler": manifest.handler,
        "runtime": manifest.runtime,
        "serializedFile": manifest.serialized_file,
        "modelFile": manifest.model_file,
    }
    component: dict[str, object] = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": manifest.model_name,
        "version": manifest.effective_version,
    }
    if manifest.description:
        component["description"] = manifest.description
    component["properties"] = [
        {"name": f"torchserve:{name}", "value": value} for name, value in facts.items() if value
    ]
    return component


def _file(line: RecordLine) -> dict[str, object]:
    return {
        "type": "file",
        "bom-ref": f"file:{line.name}",
        "name": line.name,
        "hashes": [{"alg": "SHA-256", "content": decode_digest(line.digest).hex()}],
    }


def _vendored(survey: Survey) -> Iterator[dict[str, object]]:
    """Yield makemar's own copy inside of the archive, by the version that it says it has."""
    if text := survey.texts.get(_VENDORED):
        found = _VERSION.search(text)
        yield _library("makemar", found[1].decode("ascii", "replace") if found else "", "vendored:")


def _requirements(survey: Survey, manifest: Manifest) -> Iterator[dict[str, object]]:
    """Yield what a server would install for the model, as the requirements file names it."""
    text = survey.texts.get(manifest.requirements_file or "", b"")
    seen: set[object] = set()
    for line in _lines(text.decode("utf-8-sig", "replace")):
        pinned, named = _PINNED.fullmatch(line), _NAMED.match(line)
        if pinned is not None:
            library = _library(pinned["name"], pinned["version"])
        elif named is not None:
            library = _library(named["name"], "")
        else:
            library = {"type": "library", "bom-ref": f"requirement:{line}", "name": line}
        if library["bom-ref"] not in seen:
            seen.add(library["bom-ref"])
            yield library


def _lines(text: str) -> Iterator[str]:
    """Yield the requirements, without comments, options and hashes."""
    for whole in text.replace("\\\n", " ").splitlines():
        line = _COMMENT.sub("", whole).strip()
        while (bare := _OPTION.sub("", line)) != line:
            line = bare.strip()
        if line.startswith(("-e ", "--editable")):
            line = re.split(r"[ =]", line, maxsplit=1)[1].strip()
        if line and not line.startswith("-"):
            yield line


def _library(name: str, version: str, kind: str = "pypi:") -> dict[str, object]:
    normal = normalize_name(name)
    purl = f"pkg:pypi/{normal}" + (f"@{quote(version, safe='')}" if version else "")
    component: dict[str, object] = {
        "type": "library",
        "bom-ref": f"{kind}{normal}" + (f"@{version}" if version else ""),
        "name": normal,
    }
    if version:
        component["version"] = version
    return {**component, "purl": purl}
