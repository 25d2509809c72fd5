"""Who packed an archive: a detached signature over the hashes of all of its members."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.draft import write_text
from makemar.archiver.fault import FETCH_AGAIN, make_error
from makemar.archiver.integrity import compare_record
from makemar.archiver.member import RECORD_NAME
from makemar.archiver.model_signature import ModelSignature, format_signature, parse_signature
from makemar.archiver.record import RecordLine, decode_digest
from makemar.archiver.signing_key import Passphrase, read_public_key, read_signing_key
from makemar.archiver.survey import Survey, survey_archive
from makemar.errors import ArchiveError, Finding, IntegrityError, Severity

__all__ = ["check_signature", "sign_archive", "signature_path"]

_LARGEST = 256 << 20


def signature_path(archive: Path) -> Path:
    """Return where an archive's signature is expected: beside it, with `.sig` at the end."""
    named = _named(archive)
    return named.with_name(f"{named.name}.sig")


def sign_archive(
    path: Path,
    key: Path,
    *,
    passphrase: Passphrase,
    signature: Path | None = None,
    force: bool = False,
) -> Path:
    """Sign a `.mar`, a `.tar.gz` or a model directory; the archive itself stays as it is.

    The signature is a file beside it, which this returns: TorchServe sees the archive it knows, and
    the same archive still has the same bytes. `passphrase` is called if the key is encrypted.

    Raises IntegrityError if the archive is damaged or is not what its RECORD says, ArchiveError if
    the key cannot be used, ArchiveExistsError if there is a signature and `force` is not set.
    """
    signing = read_signing_key(key, passphrase)
    target = signature or signature_path(path)
    survey = survey_archive(path)
    faults = [found for found in survey.findings if found.severity is Severity.ERROR]
    if RECORD_NAME in survey.lines:
        faults += [found for found in compare_record(survey) if found.severity is Severity.ERROR]
    if faults or not survey.lines:
        reason = faults[0].message if faults else "there is nothing in it"
        raise IntegrityError(
            f"{path}: is not signed, for it is not whole: {reason}; {FETCH_AGAIN}",
            path=path,
            findings=tuple(faults),
        )
    digests = {name: _hex(line) for name, line in survey.lines.items()}
    write_text(target, format_signature(_named(path).name, digests, signing), force=force)
    return target


def check_signature(
    path: Path, public_key: Path, *, signature: Path | None = None
) -> tuple[Finding, ...]:
    """Return where an archive is not what the owner of a key signed; every byte is read.

    All findings are errors: `unsigned-archive`, `damaged-signature`, `wrong-key`,
    `forged-signature`, `foreign-signature` (of another archive), and for each member
    `changed-member`, `unsigned-member` and `missing-member`; of a damaged archive what is wrong
    with it. Raises ArchiveError if the key, or the archive, cannot be read.
    """
    key = read_public_key(public_key)
    file = signature or signature_path(path)
    try:
        signed = parse_signature(_read(file))
    except FileNotFoundError:
        message = f"there is no {file.name} beside it, so nobody vouches for it"
        fix = "fetch the signature as well, or sign it with make-mar sign"
        return (make_error("unsigned-archive", message, path, fix=fix),)
    except ArchiveError as error:
        fix = "fetch the signature again, or sign anew"
        return (make_error("damaged-signature", str(error), file, fix=fix),)
    if signed.hint and signed.hint != key.hint:
        message = f"was made with the key {signed.hint[:16]}…, not with {key.hint[:16]}…"
        fix = "ask whoever packed it for the public key"
        return (make_error("wrong-key", message, file, fix=fix),)
    if not signed.is_by(key):
        message = f"was not made with {public_key.name}, or was changed since"
        return (make_error("forged-signature", message, file, fix=FETCH_AGAIN),)
    return tuple(_compare(survey_archive(path), signed, file))


def _compare(survey: Survey, signed: ModelSignature, file: Path) -> Iterator[Finding]:
    path = survey.path
    yield from (found for found in survey.findings if found.severity is Severity.ERROR)
    digests = {name: _hex(line) for name, line in survey.lines.items()}
    if _named(path).name != signed.name and digests.get(RECORD_NAME) != signed.digests.get(
        RECORD_NAME
    ):
        message = f"is the signature of another archive, {signed.name!r}"
        yield make_error("foreign-signature", message, file, fix=FETCH_AGAIN)
        return
    for name, digest in digests.items():
        if name not in signed.digests:
            message = f"{name!r} was added after signing"
            yield make_error("unsigned-member", message, path, fix=FETCH_AGAIN)
        elif digest != signed.digests[name]:
            message = f"{name!r} is not what was signed"
            yield make_error("changed-member", message, path, fix=FETCH_AGAIN)
    if survey.whole:
        for name in sorted(signed.digests.keys() - digests.keys()):
            message = f"{name!r} was signed and is gone"
            yield make_error("missing-member", message, path, fix=FETCH_AGAIN)


def _named(path: Path) -> Path:
    """Give `.` and `..` their names; a link keeps its own."""
    return path if path.name not in ("", "..") else Path(os.path.normpath(path.absolute()))


def _hex(line: RecordLine) -> str:
    return decode_digest(line.digest).hex()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            text = stream.read(_LARGEST + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArchiveError(f"cannot be read: {error.strerror or error}", path=path) from error
    if len(text) > _LARGEST:
        raise ArchiveError("is too long for a signature", path=path)
    return text
