"""The archive: choose what goes in, plan it, write it, read it.

Names are loaded when they are first used, so that a verb loads no more than it needs: `_HOMES` says
where each lives.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from makemar.archiver.archive_format import ArchiveFormat
    from makemar.archiver.codes import CODES, FindingCode
    from makemar.archiver.container import StoredMember
    from makemar.archiver.diff import (
        ArchiveDiff,
        KeyChange,
        MemberChange,
        WeightsDiff,
        diff_archives,
    )
    from makemar.archiver.draft import write_text
    from makemar.archiver.identity import is_addressable
    from makemar.archiver.integrity import check_record
    from makemar.archiver.manifest import Manifest, format_manifest, parse_manifest
    from makemar.archiver.mar_toml import format_spec, parse_spec, read_spec
    from makemar.archiver.member import Member
    from makemar.archiver.pickle_machine import PickleImport
    from makemar.archiver.pickle_scan import PickleScan, scan_pickle
    from makemar.archiver.pickles import scan_weights
    from makemar.archiver.plan import ArchivePlan, plan_archive
    from makemar.archiver.reader import Archive, RecordState, read_archive
    from makemar.archiver.record import RecordLine
    from makemar.archiver.sbom import make_sbom
    from makemar.archiver.signature import check_signature, sign_archive, signature_path
    from makemar.archiver.signing_key import create_signing_key
    from makemar.archiver.silence import Silence, parse_silence
    from makemar.archiver.spec import ArchiveSpec, Include, parse_include, split_extra_files
    from makemar.archiver.tensors import TensorChange
    from makemar.archiver.unpack import unpack_archive
    from makemar.archiver.verify import verify_archive
    from makemar.archiver.writer import WrittenArchive, write_and_hash, write_archive

__all__ = [
    "CODES",
    "Archive",
    "ArchiveDiff",
    "ArchiveFormat",
    "ArchivePlan",
    "ArchiveSpec",
    "FindingCode",
    "Include",
    "KeyChange",
    "Manifest",
    "Member",
    "MemberChange",
    "PickleImport",
    "PickleScan",
    "RecordLine",
    "RecordState",
    "Silence",
    "StoredMember",
    "TensorChange",
    "WeightsDiff",
    "WrittenArchive",
    "check_record",
    "check_signature",
    "create_signing_key",
    "diff_archives",
    "format_manifest",
    "format_spec",
    "is_addressable",
    "make_sbom",
    "parse_include",
    "parse_manifest",
    "parse_silence",
    "parse_spec",
    "plan_archive",
    "read_archive",
    "read_spec",
    "scan_pickle",
    "scan_weights",
    "sign_archive",
    "signature_path",
    "split_extra_files",
    "unpack_archive",
    "verify_archive",
    "write_and_hash",
    "write_archive",
    "write_text",
]

_HOMES = {
    "CODES": "codes",
    "Archive": "reader",
    "ArchiveDiff": "diff",
    "ArchiveFormat": "archive_format",
    "ArchivePlan": "plan",
    "ArchiveSpec": "spec",
    "FindingCode": "codes",
    "Include": "spec",
    "KeyChange": "diff",
    "Manifest": "manifest",
    "Member": "member",
    "MemberChange": "diff",
    "PickleImport": "pickle_machine",
    "PickleScan": "pickle_scan",
    "RecordLine": "record",
    "RecordState": "reader",
    "Silence": "silence",
    "StoredMember": "container",
    "TensorChange": "tensors",
    "WeightsDiff": "diff",
    "WrittenArchive": "writer",
    "check_record": "integrity",
    "check_signature": "signature",
    "create_signing_key": "signing_key",
    "diff_archives": "diff",
    "format_manifest": "manifest",
    "format_spec": "mar_toml",
    "is_addressable": "identity",
    "make_sbom": "sbom",
    "parse_include": "spec",
    "parse_manifest": "manifest",
    "parse_silence": "silence",
    "parse_spec": "mar_toml",
    "plan_archive": "plan",
    "read_archive": "reader",
    "read_spec": "mar_toml",
    "scan_pickle": "pickle_scan",
    "scan_weights": "pickles",
    "sign_archive": "signature",
    "signature_path": "signature",
    "split_extra_files": "spec",
    "unpack_archive": "unpack",
    "verify_archive": "verify",
    "write_and_hash": "writer",
    "write_archive": "writer",
    "write_text": "draft",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
