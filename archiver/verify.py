"""Everything that would make TorchServe refuse an archive, or take it for another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.fault import make_error, make_warning
from makemar.archiver.integrity import compare_record
from makemar.archiver.member import MANIFEST_NAME
from makemar.archiver.stored_handler import check_shadows, check_stored_handler
from makemar.archiver.stored_identity import check_stored_identity
from makemar.archiver.stored_manifest import StoredManifest, read_manifest
from makemar.archiver.stored_names import settle_name
from makemar.archiver.stored_weights import scan_stored_weights
from makemar.archiver.survey import Survey, survey_archive
from makemar.configs import check_model_config
from makemar.errors import Finding, Severity

__all__ = ["verify_archive"]


def verify_archive(path: Path) -> tuple[Finding, ...]:
    """Read every byte of an archive, made by whatever program, and return what is wrong with it.

    Nothing is unpacked, imported or unpickled. An error means that TorchServe 0.12 fails to
    register it or to start its workers, or that it serves something else than was packed; what it
    lives with is a warning; but weights that would run code are an error, too. Raises ArchiveError
    if the path cannot be read.
    """
    survey = survey_archive(path)
    findings = list(survey.findings)
    if survey.whole:
        record = list(compare_record(survey))
        if not record:
            findings = [_relax(found) for found in findings]
        findings += record
        findings += _check_insides(survey)
        findings += scan_stored_weights(path)
    return tuple(sorted(dict.fromkeys(findings), key=lambda f: f.severity is not Severity.ERROR))


def _relax(finding: Finding) -> Finding:
    """Make a warning of what is no loss where RECORD tells that every member is there."""
    if finding.code != "no-central-directory":
        return finding
    message = "there is no usable list of members at its end, which other programs go by"
    return make_warning(finding.code, message, finding.path or Path())


def _check_insides(survey: Survey) -> Iterator[Finding]:
    path = survey.path
    if MANIFEST_NAME not in survey.lines:
        yield _explain_missing(survey)
        return
    manifest, findings = read_manifest(survey.texts.get(MANIFEST_NAME, b""), path)
    yield from findings
    if manifest is not None:
        yield from check_stored_identity(manifest, set(survey.lines), path)
        yield from check_shadows(survey.lines, path)
        yield from check_stored_handler(manifest, survey.lines, survey.texts, path)
        yield from _check_config(manifest, survey)


def _check_config(manifest: StoredManifest, survey: Survey) -> Iterator[Finding]:
    name = settle_name(manifest.text("configFile"))
    if name in survey.texts:
        yield from check_model_config(survey.texts[name], path=survey.path / name)


def _explain_missing(survey: Survey) -> Finding:
    """Say why there is no manifest where TorchServe looks for it."""
    path = survey.path
    wrapped = [name for name in survey.lines if name.endswith(f"/{MANIFEST_NAME}")]
    if wrapped:
        folder = wrapped[0].removesuffix(f"/{MANIFEST_NAME}")
        message = f"everything is in the folder {folder!r}, and TorchServe looks for it outside"
        return make_error("wrapper-directory", message, path)
    if "MANIFEST.json" in survey.lines:
        message = (
            "MANIFEST.json is not in MAR-INF; of a tar TorchServe drops the first folder of each "
            "name, so there must be one around everything"
        )
        return make_error("flat-tarball", message, path)
    return make_error("no-manifest", f"there is no {MANIFEST_NAME} in it", path)
