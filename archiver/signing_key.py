"""The keys of signatures: Ed25519, or the curves that the OpenSSF model signing format asks for.

Keys are PEM files, as openssl and the cryptography library write them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from makemar.errors import ArchiveError, ArchiveExistsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        ECDSA,
        EllipticCurve,
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = [
    "Passphrase",
    "SigningKey",
    "VerifyingKey",
    "create_signing_key",
    "read_public_key",
    "read_signing_key",
]

# Called only if a private key is encrypted.
Passphrase = Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class VerifyingKey:
    """A public key; `hint` is the SHA-256 of its PEM in hex, by which signatures name it."""

    hint: str
    key: Ed25519PublicKey | EllipticCurvePublicKey = field(repr=False)

    def fits(self, signature: bytes, data: bytes) -> bool:
        """Tell whether the private key signed these bytes."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            if isinstance(self.key, Ed25519PublicKey):
                self.key.verify(signature, data)
            else:
                self.key.verify(signature, data, _ecdsa(self.key.curve))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """A private key, which is never shown, and the public key that belongs to it."""

    public: VerifyingKey
    key: Ed25519PrivateKey | EllipticCurvePrivateKey = field(repr=False)

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes; Ed25519's is the same every time."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if isinstance(self.key, Ed25519PrivateKey):
            return self.key.sign(data)
        return self.key.sign(data, _ecdsa(self.key.curve))


def create_signing_key(path: Path, *, passphrase: str = "") -> Path:
    """Make an Ed25519 key: the private one in `path`, the public one beside it, with `.pub`.

    Only the owner can read the private key (mode 0600); a passphrase encrypts it. Returns the
    public key's path. Raises ArchiveExistsError if either file is there, ArchiveError if one cannot
    be written or the library for signing is not installed.
    """
    _need_library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_path = path.with_name(f"{path.name}.pub")
    if os.path.lexists(public_path):
        raise _exists(public_path)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    key = Ed25519PrivateKey.generate()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    _write_new(path, key.private_bytes(pem, pkcs8, encryption), 0o600)
    try:
        _write_new(public_path, _public_pem(key.public_key()), 0o644)
    except BaseException:
        path.unlink()
        raise
    return public_path


def read_signing_key(path: Path, passphrase: Passphrase) -> SigningKey:
    """Read a private key, with the passphrase if it is encrypted.

    Raises ArchiveError if it is no private key of a kind that signs, or the passphrase is wrong.
    """
    _need_library()
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    key = _load_private(path, _read(path), passphrase)
    if isinstance(key, ec.EllipticCurvePrivateKey) and _is_known(key.curve):
        return SigningKey(public=_verifying(key.public_key()), key=key)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return SigningKey(public=_verifying(key.public_key()), key=key)
    raise _unusable(path, "private")


def _load_private(path: Path, data: bytes, passphrase: Passphrase) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(data, None)
    except TypeError:
        # It is encrypted; the library has no other word for that.
        pass
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _unusable(path, "private") from error
    try:
        return load_pem_private_key(data, passphrase().encode())
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"{path}: the passphrase is not this key's", path=path) from error


def read_public_key(path: Path) -> VerifyingKey:
    """Read a public key; raises ArchiveError if it is none of a kind that verifies."""
    _need_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _read(path)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        if b"PRIVATE KEY" in data:
            raise ArchiveError(
                f"{path}: is a private key; give the public one, {path.name}.pub, and keep "
                "this one to yourself",
                path=path,
            ) from error
        raise _unusable(path, "public") from error
    if isinstance(key, ec.EllipticCurvePublicKey) and _is_known(key.curve):
        return _verifying(key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return _verifying(key)
    raise _unusable(path, "public")


def _is_known(curve: EllipticCurve) -> bool:
    return curve.name in ("secp256r1", "secp384r1", "secp521r1")


def _ecdsa(curve: EllipticCurve) -> ECDSA:
    """Return the hash that belongs to a curve, as Sigstore has them."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    by_size = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
    return ec.ECDSA(by_size[curve.key_size])


def _verifying(key: Ed25519PublicKey | EllipticCurvePublicKey) -> VerifyingKey:
    return VerifyingKey(hint=hashlib.sha256(_public_pem(key)).hexdigest(), key=key)


def _public_pem(key: Ed25519PublicKey | EllipticCurvePublicKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArchiveError(
            f"{path}: cannot be read: {error.strerror or error}; check the path", path=path
        ) from error


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that was not there; nothing is left if it cannot be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        # Half a key would be in the way of the next one: no key is replaced.
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(path, error) from error
        raise


def _need_library() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise ArchiveError("signatures need the cryptography package; pip install 'makemar[sign]'")


def _exists(path: Path) -> ArchiveExistsError:
    return ArchiveExistsError(
        f"{path}: is there already, and a key is never replaced; choose another name", path=path
    )


def _unwritable(path: Path, error: OSError) -> ArchiveError:
    return ArchiveError(
        f"{path}: cannot be written: {error.strerror or error}; choose another folder", path=path
    )


def _unusable(path: Path, what: str) -> ArchiveError:
    return ArchiveError(
        f"{path}: is no {what} key in PEM of a kind that signs archives (Ed25519, or P-256, P-384, "
        "P-521); make one with make-mar sign --new-key",
        path=path,
    )
