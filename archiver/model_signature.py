"""The signature file: the OpenSSF model signing format 1.0, a Sigstore bundle.

A bundle holds a DSSE envelope, that an in-toto statement, and that the SHA-256 of every member.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from makemar.archiver.signing_key import SigningKey, VerifyingKey
from makemar.errors import ArchiveError

__all__ = ["ModelSignature", "format_signature", "parse_signature"]

_BUNDLE = "application/vnd.dev.sigstore.bundle"
_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://model_signing/signature/v1.0"


@dataclass(frozen=True, kw_only=True)
class ModelSignature:
    """A signature as it was read, by whomever.

    `digests` has the SHA-256, in hex, of every member that was signed; `hint` names the key.
    Nothing of it is true before `is_by` says so.
    """

    name: str
    digests: Mapping[str, str]
    hint: str
    payload: bytes
    signatures: tuple[bytes, ...]

    def is_by(self, key: VerifyingKey) -> bool:
        """Tell whether this key's owner signed it."""
        signed = _encode(self.payload)
        return any(key.fits(signature, signed) for signature in self.signatures)


def format_signature(name: str, digests: Mapping[str, str], key: SigningKey) -> str:
    """Sign the members of what is called `name` and return the signature file's text.

    With an Ed25519 key the same members give the same text.
    """
    ordered = sorted(digests.items())
    root = hashlib.sha256(b"".join(bytes.fromhex(digest) for _, digest in ordered)).hexdigest()
    statement = {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": root}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False},
            "resources": [
                {"name": member, "algorithm": "sha256", "digest": digest}
                for member, digest in ordered
            ],
        },
    }
    payload = json.dumps(statement, indent=2).encode()
    bundle = {
        "mediaType": f"{_BUNDLE}.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": key.public.hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD,
            "signatures": [{"sig": base64.b64encode(key.sign(_encode(payload))).decode()}],
        },
    }
    return json.dumps(bundle, indent=2) + "\n"


def parse_signature(text: bytes) -> ModelSignature:
    """Read a signature file; whether it is true is not looked at.

    Raises ArchiveError, which says what is wrong, if it is none or is damaged.
    """
    try:
        bundle = json.loads(text)
        media_type = bundle["mediaType"]
        envelope = bundle["dsseEnvelope"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(s["sig"], validate=True) for s in envelope["signatures"]]
        hint = bundle["verificationMaterial"].get("publicKey", {}).get("hint", "")
        statement = json.loads(payload)
        kinds = (envelope["payloadType"], statement["_type"], statement["predicateType"])
        name = statement["subject"][0]["name"]
        digests = _read_digests(statement["predicate"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError(f"is no whole signature ({_describe(error)})") from error
    if not str(media_type).startswith(_BUNDLE) or kinds != (_PAYLOAD, _STATEMENT, _PREDICATE):
        raise ArchiveError("is a signature of something else than a model")
    return ModelSignature(
        name=str(name),
        digests=digests,
        hint=str(hint),
        payload=payload,
        signatures=tuple(signatures),
    )


def _read_digests(predicate: Mapping[str, object]) -> dict[str, str]:
    resources = predicate["resources"]
    serialization = predicate["serialization"]
    if not isinstance(resources, list) or not isinstance(serialization, dict):
        raise TypeError("the members are not listed")
    if (serialization["method"], serialization["hash_type"]) != ("files", "sha256"):
        raise ValueError("it has other hashes than SHA-256 of whole files")
    digests = {str(item["name"]): str(item["digest"]).lower() for item in resources}
    if not digests or len(digests) != len(resources):
        raise ValueError("a member is listed twice, or none is")
    return digests


def _describe(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "its JSON ends too early, or is none"
    if isinstance(error, binascii.Error):
        return "its base64 is damaged"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return str(error) or type(error).__name__


def _encode(payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding, with lengths in front."""
    kind = _PAYLOAD.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
