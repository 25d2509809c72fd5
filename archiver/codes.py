"""Every code that a finding about an archive can have, with what it stands for.

Codes are stable: scripts and `[silence]` tables name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from makemar.errors import Severity

__all__ = ["CODES", "FindingCode"]


@dataclass(frozen=True, kw_only=True)
class FindingCode:
    """What a code stands for, in one line, and how bad its findings can be."""

    description: str
    severities: frozenset[Severity]


_ERRORS = {
    "absolute-name": "A member's name starts at the root of the file system.",
    "archive-bomb": "The archive unpacks to more than any model of its size.",
    "archive-name": "TorchServe cannot load a file of this name.",
    "async-handle": "The handler is async and the server does not wait, or the other way round.",
    "backslash-name": "A member's name has backslashes.",
    "changed-member": "A member is not what RECORD says.",
    "class-as-function": "A class is named where TorchServe calls a function.",
    "compression": "A member is compressed by a method that TorchServe cannot read.",
    "config-clash": "Settings of the model's config that cannot go together.",
    "config-empty": "The model's config sets nothing, which stops the server.",
    "config-key": "A key of the model's config is no text.",
    "config-mapping": "The model's config is no mapping.",
    "config-syntax": "The model's config is no YAML that the server can read.",
    "damaged-archive": "The archive's bytes are not as they were written.",
    "damaged-member": "A member's bytes are not as they were written.",
    "damaged-record": "RECORD cannot be read.",
    "damaged-signature": "The signature is not whole, or none.",
    "duplicate-member": "Two files for one place in the archive.",
    "encrypted-member": "A member is encrypted.",
    "envelope": "The server has no such envelope.",
    "envelope-batch": "The envelope answers the first request of a batch only.",
    "file-as-folder": "A member is a file and a folder.",
    "flat-tarball": "A tarball without the top folder that TorchServe strips.",
    "foreign-signature": "The signature is that of another archive.",
    "forged-signature": "The signature was changed after it was made.",
    "gzip-members": "Several gzip streams in one tarball.",
    "handler": "The handler names nothing.",
    "handler-constructor": "The handler's class cannot be made without arguments.",
    "handler-method": "The handler's class lacks a method that TorchServe calls.",
    "handler-module": "The handler's module is not where the spec is.",
    "handler-name": "The handler's file cannot be imported under its name.",
    "handler-signature": "A function does not take the arguments that TorchServe calls it with.",
    "header-mismatch": "A member's header and the list of members tell of two archives.",
    "hidden-member": "A member that the list of members does not have.",
    "initial-none": "The entry function fails over the None of its first call.",
    "leading-bytes": "Something stands before the zip, so that TorchServe finds nothing in it.",
    "lfs-pointer": "A pointer of Git LFS instead of the file.",
    "link-member": "A member is a link.",
    "lost-member": "A member that TorchServe does not come upon.",
    "manifest-bom": "The manifest starts with a byte order mark.",
    "manifest-empty": "The manifest is empty.",
    "manifest-encoding": "The manifest is not UTF-8.",
    "manifest-json": "The manifest is no JSON object.",
    "manifest-model": "The manifest has no model.",
    "manifest-null": "The manifest is null.",
    "manifest-type": "A value of the manifest has the wrong type.",
    "many-handler-classes": "The handler's file defines several classes.",
    "member-name": "A member's name cannot be used.",
    "misnamed-archive": "The file's name promises another format.",
    "missing-function": "The handler's file has no function or class of that name.",
    "missing-handler": "The handler is not in the archive.",
    "missing-member": "A member that RECORD names is not there.",
    "model-file-path": "The model file is not at the archive's root.",
    "no-handler": "The manifest names no handler.",
    "no-handler-class": "The handler's file defines nothing that TorchServe could call.",
    "no-manifest": "The archive has no manifest.",
    "no-model-name": "The manifest names no model.",
    "not-a-file": "A folder, a broken link or a device where a file belongs.",
    "not-an-archive": "The file is no archive.",
    "plain-tar": "A tar that is not compressed.",
    "relative-import": "A relative import without a parent package.",
    "runtime": "TorchServe has no such runtime.",
    "silence": "A silence without a reason, of an error, or of an unknown code.",
    "stored-descriptor": "A stored member's size follows its contents.",
    "stray-bytes": "Something that is no member stands among them.",
    "syntax-error": "A file is no Python.",
    "target": "The target is no Python that TorchServe runs in.",
    "truncated-archive": "The archive ends too early.",
    "unreadable-archive": "The archive cannot be read.",
    "unreadable-member": "A member cannot be read.",
    "unrecorded-member": "A member that RECORD does not name.",
    "unsafe-name": "A member's name leaves the archive.",
    "unsafe-pickle": "Loading a pickle would run code.",
    "unsigned-archive": "Nobody has signed the archive.",
    "unsigned-member": "A member that was added after signing.",
    "weights-format": "TorchServe's handler cannot load weights of this format.",
    "weights-missing": "TorchServe's handler has nothing to load.",
    "wrapper-directory": "Everything lies in one folder of the archive.",
    "wrong-key": "The signature was made with another key.",
    "zip64-descriptor": "A small member's size follows its contents in the long form.",
}
_WARNINGS = {
    "bare-base-handler": "TorchServe's base_handler answers 503 without an envelope.",
    "broken-link": "A link of the directory leads to nothing.",
    "case-clash": "Two names differ in nothing but case.",
    "config-ignored": "A line of the model's config that the server ignores.",
    "empty-glob": "A pattern that matches no file.",
    "executable-member": "A program, which the server unpacks without the right to run.",
    "first-row-only": "The handler reads the first request of a batch only.",
    "flattened-package": "A package whose contents go to the root.",
    "handle-before-class": "An imported function is called instead of the handler's class.",
    "handler-elsewhere": "The handler has to be installed on the server.",
    "hidden-file": "A hidden file stays out.",
    "import-replaced": "A file that the spec names is packed, not its namesake beside the handler.",
    "link-loop": "A link of the directory leads back into it.",
    "manifest-duplicate-key": "A key of the manifest is there twice.",
    "manifest-envelope": "The manifest names an envelope, which the server ignores.",
    "missing-module": "An imported module is not in its package.",
    "missing-requirement": "An imported package that no requirement brings.",
    "nested-archive": "An archive in the archive.",
    "no-record": "The archive has no RECORD to compare with.",
    "non-ascii-name": "A member's name that a server in the C locale cannot write.",
    "odd-name": "A member's name that not every system can write.",
    "outside-link": "A link of the directory leads out of it.",
    "pickle-import": "A pickle that torch.load refuses by default.",
    "pickle-protocol": "A pickle protocol that torch.load refuses by default.",
    "requirement-file": "A file that pip is told to read is not in the archive.",
    "requirement-syntax": "A line that pip cannot read.",
    "runtime-lsp": "The runtime needs the C++ backend.",
    "runtime-python3": "The runtime is whatever python3 the server finds.",
    "shadowed-handler": "A file in the archive beats TorchServe's handler of its name.",
    "shadowed-import": "A local module that in the worker is another one.",
    "special-file": "A pipe, a device or a socket in the directory.",
    "target-python": "Code that the server's Python does not have.",
    "trailing-bytes": "Something follows the archive in its file.",
    "unused-silence": "A silence that silences nothing.",
}
_EITHER = {
    "damaged-pickle": "A pickle cannot be followed to its end.",
    "missing-file": "A file that is named is not there.",
    "model-file-classes": "TorchServe's handlers want one class in the model file.",
    "model-name": "The model's name cannot be asked for.",
    "no-central-directory": "The list of members at the end is not there.",
    "shadowed-module": "A member replaces a module that the worker imports.",
    "version": "The version cannot be part of a URL.",
}


def _list_codes() -> Mapping[str, FindingCode]:
    tables = (
        (_ERRORS, {Severity.ERROR}),
        (_WARNINGS, {Severity.WARNING}),
        (_EITHER, {Severity.ERROR, Severity.WARNING}),
    )
    return {
        code: FindingCode(description=description, severities=frozenset(severities))
        for table, severities in tables
        for code, description in sorted(table.items())
    }


CODES = _list_codes()
