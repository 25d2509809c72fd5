"""The archive: choose what goes in, plan it, write it, read it."""

from makemar.archiver.archive_format import ArchiveFormat
from makemar.archiver.manifest import Manifest, format_manifest, parse_manifest
from makemar.archiver.member import Member
from makemar.archiver.spec import ArchiveSpec, Include, parse_include, split_extra_files

__all__ = [
    "ArchiveFormat",
    "ArchiveSpec",
    "Include",
    "Manifest",
    "Member",
    "format_manifest",
    "parse_include",
    "parse_manifest",
    "split_extra_files",
]
