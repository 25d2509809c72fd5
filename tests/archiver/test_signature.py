"""A signature vouches for every member of an archive, and nothing that is changed goes unnamed."""

import base64
import hashlib
import json
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from makemar.archiver import (
    ArchiveFormat,
    check_signature,
    create_signing_key,
    plan_archive,
    sign_archive,
    write_archive,
)
from makemar.errors import ArchiveError, ArchiveExistsError, IntegrityError, Severity

FILES = {"weights.bin": bytes(range(256)) * 100, "labels/en.txt": b"cat\ndog\n"}
RECORD, MANIFEST = "MAR-INF/RECORD", "MAR-INF/MANIFEST.json"


def refuse():
    raise AssertionError("nobody should be asked for a passphrase")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A folder with two keys, `mine` and `other`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "other"):
        create_signing_key(folder / name)
    return folder


@pytest.fixture
def pack(project, store):
    """Pack a small model in a format, under a name."""

    def make(archive_format=ArchiveFormat.MAR, name="pong", files=FILES):
        from makemar.archiver import parse_include

        include = tuple(map(parse_include, ("weights.bin", "labels=labels")))
        spec = project(files, model_name=name, include=include, vendor=False)
        target = store / f"{name}{archive_format.suffix}"
        write_archive(plan_archive(spec), target, archive_format=archive_format)
        return target

    return make


@pytest.fixture
def signed(pack, keys):
    """A `.mar` with its signature."""
    path = pack()
    sign_archive(path, keys / "mine", passphrase=refuse)
    return path


def check(path, keys, **options):
    return check_signature(path, keys / "mine.pub", **options)


def only(findings):
    (finding,) = findings
    assert finding.severity is Severity.ERROR
    assert "\n" not in str(finding)
    return finding


def rewrite(path, change):
    """Write the zip anew with its members' contents changed by name; None drops one."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members = change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("archive_format", list(ArchiveFormat))
def test_what_is_signed_has_no_findings(pack, keys, archive_format):
    path = pack(archive_format)
    before = path.read_bytes() if path.is_file() else sorted(path.rglob("*"))
    assert sign_archive(path, keys / "mine", passphrase=refuse) == Path(f"{path}.sig")
    assert check(path, keys) == ()
    assert before == (path.read_bytes() if path.is_file() else sorted(path.rglob("*")))


def test_the_archive_and_its_signature_may_be_renamed_and_moved(signed, keys, tmp_path):
    moved, signature = tmp_path / "other.mar", tmp_path / "signature"
    shutil.copy(signed, moved)
    shutil.copy(f"{signed}.sig", signature)
    assert check(moved, keys, signature=signature) == ()


def test_the_folder_one_is_in_can_be_signed(pack, keys, monkeypatch):
    path = pack(ArchiveFormat.DIRECTORY)
    monkeypatch.chdir(path)
    assert sign_archive(Path(), keys / "mine", passphrase=refuse) == Path(f"{path}.sig")
    assert check(Path(), keys) == ()
    assert check(path, keys) == ()


def test_the_same_archive_and_key_give_the_same_signature(signed, keys):
    first = Path(f"{signed}.sig").read_bytes()
    sign_archive(signed, keys / "mine", passphrase=refuse, force=True)
    assert Path(f"{signed}.sig").read_bytes() == first


NAMES = [MANIFEST, RECORD, "handler.py", "labels/en.txt", "weights.bin"]


@pytest.mark.parametrize("name", NAMES)
def test_each_changed_member_is_named(signed, keys, name):
    rewrite(signed, lambda members: {**members, name: members[name] + b"\n"})
    finding = only(check(signed, keys))
    assert (finding.code, finding.path) == ("changed-member", signed)
    assert repr(name) in finding.message


@pytest.mark.parametrize("name", NAMES)
def test_each_missing_member_is_named(signed, keys, name):
    rewrite(signed, lambda members: {n: d for n, d in members.items() if n != name})
    finding = only(check(signed, keys))
    assert finding.code == "missing-member"
    assert repr(name) in finding.message


def test_an_added_member_is_named(signed, keys):
    rewrite(signed, lambda members: {**members, "sitecustomize.py": b"import os\n"})
    finding = only(check(signed, keys))
    assert finding.code == "unsigned-member"
    assert "'sitecustomize.py'" in finding.message


def test_a_change_that_record_agrees_with_is_named_as_well(signed, keys):
    def change(members):
        old = base64.urlsafe_b64encode(hashlib.sha256(members["handler.py"]).digest()).rstrip(b"=")
        handler = b"import os" + members["handler.py"][9:]
        new = base64.urlsafe_b64encode(hashlib.sha256(handler).digest()).rstrip(b"=")
        assert old in members[RECORD]
        return {**members, "handler.py": handler, RECORD: members[RECORD].replace(old, new)}

    rewrite(signed, change)
    findings = check(signed, keys)
    assert sorted(f.message.split("'")[1] for f in findings) == [RECORD, "handler.py"]


def test_several_changes_are_named_one_by_one(signed, keys):
    def change(members):
        members = {**members, "handler.py": b"", "new.py": b"", "weights.bin": b"\0"}
        del members["labels/en.txt"]
        return members

    rewrite(signed, change)
    assert sorted((f.code, f.message.split("'")[1]) for f in check(signed, keys)) == [
        ("changed-member", "handler.py"),
        ("changed-member", "weights.bin"),
        ("missing-member", "labels/en.txt"),
        ("unsigned-member", "new.py"),
    ]


def test_a_file_changed_in_a_directory_is_named(pack, keys):
    path = pack(ArchiveFormat.DIRECTORY)
    sign_archive(path, keys / "mine", passphrase=refuse)
    (path / "handler.py").write_text("changed")
    (path / "new.py").write_text("")
    assert {f.code for f in check(path, keys)} == {"changed-member", "unsigned-member"}


def test_a_second_member_of_one_name_is_found(signed, keys):
    with pytest.warns(match="Duplicate"), zipfile.ZipFile(signed, "a") as archive:
        archive.writestr("handler.py", archive.read("handler.py"))
    assert [f.code for f in check(signed, keys)] == ["duplicate-member"]


def test_a_truncated_archive_is_found(signed, keys):
    signed.write_bytes(signed.read_bytes()[:-400])
    findings = check(signed, keys)
    assert findings
    assert all(f.severity is Severity.ERROR for f in findings)


def test_without_a_signature_nobody_vouches(pack, keys):
    finding = only(check(pack(), keys))
    assert finding.code == "unsigned-archive"
    assert "pong.mar.sig" in finding.message


def test_a_wrong_key_is_one_line(signed, keys):
    finding = only(check_signature(signed, keys / "other.pub"))
    assert finding.code == "wrong-key"


def test_a_signature_of_another_archive_is_one_line(signed, pack, keys):
    other = pack(name="ping", files={**FILES, "weights.bin": b"other"})
    shutil.copy(f"{signed}.sig", f"{other}.sig")
    finding = only(check(other, keys))
    assert finding.code == "foreign-signature"
    assert "'pong.mar'" in finding.message


@pytest.mark.parametrize("size", [0, 1, 100, 1000, -3])
def test_a_truncated_signature_is_one_line(signed, keys, size):
    file = Path(f"{signed}.sig")
    file.write_bytes(file.read_bytes()[:size])
    finding = only(check(signed, keys))
    assert (finding.code, finding.path) == ("damaged-signature", file)


def edit(file, change):
    bundle = json.loads(file.read_bytes())
    change(bundle)
    file.write_text(json.dumps(bundle))


def test_a_changed_statement_is_a_forgery(signed, keys):
    def change(bundle):
        payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(
            payload.replace(b"handler.py", b"hAndler.py")
        ).decode()

    edit(Path(f"{signed}.sig"), change)
    assert only(check(signed, keys)).code == "forged-signature"


def test_a_hint_that_was_changed_to_the_wanted_key_s_is_a_forgery(pack, keys):
    path = pack()
    sign_archive(path, keys / "mine", passphrase=refuse)
    hint = json.loads(Path(f"{path}.sig").read_bytes())["verificationMaterial"]
    sign_archive(path, keys / "other", passphrase=refuse, force=True)
    edit(Path(f"{path}.sig"), lambda bundle: bundle.update(verificationMaterial=hint))
    assert only(check(path, keys)).code == "forged-signature"


BROKEN = {
    "no json": b"\xff\xfe",
    "a list": b"[]",
    "nothing": b"{}",
    "deep": b"[" * 100_000,
    "no envelope": b'{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_is_no_signature_is_one_line(signed, keys, text):
    Path(f"{signed}.sig").write_bytes(text)
    assert only(check(signed, keys)).code == "damaged-signature"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("payloadType", "text/plain"),
        ("payload", "e30="),
        ("payload", "%%%"),
        ("payload", None),
        ("signatures", []),
        ("signatures", [{"sig": "AAAA"}]),
    ],
)
def test_an_envelope_of_another_kind_is_one_line(signed, keys, place, value):
    edit(Path(f"{signed}.sig"), lambda bundle: bundle["dsseEnvelope"].update({place: value}))
    assert only(check(signed, keys)).code in ("damaged-signature", "forged-signature")


def test_a_damaged_archive_is_not_signed(signed, keys):
    rewrite(signed, lambda members: {**members, "handler.py": b"changed"})
    with pytest.raises(IntegrityError, match=r"handler\.py"):
        sign_archive(signed, keys / "mine", passphrase=refuse, force=True)


def test_a_signature_is_not_replaced_unasked(signed, keys):
    with pytest.raises(ArchiveExistsError):
        sign_archive(signed, keys / "other", passphrase=refuse)
    assert check(signed, keys) == ()


def test_an_archive_of_another_program_can_be_signed(tmp_path, keys):
    path = tmp_path / "theirs.mar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, "{}")
        archive.writestr("handler.py", "")
    sign_archive(path, keys / "mine", passphrase=refuse)
    assert check(path, keys) == ()


# Keys


def test_a_new_key_is_readable_by_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        public = create_signing_key(tmp_path / "key")
    finally:
        os.umask(old)
    assert public == tmp_path / "key.pub"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert b"PRIVATE" in (tmp_path / "key").read_bytes()
    assert b"PRIVATE" not in public.read_bytes()


@pytest.mark.parametrize("name", ["key", "key.pub"])
def test_a_key_is_never_replaced(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(ArchiveExistsError):
        create_signing_key(tmp_path / "key")
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_an_encrypted_key_needs_its_passphrase(tmp_path, pack):
    create_signing_key(tmp_path / "key", passphrase="correct horse")
    path = pack()
    with pytest.raises(ArchiveError, match="passphrase") as caught:
        sign_archive(path, tmp_path / "key", passphrase=lambda: "wrong")
    assert "wrong" not in str(caught.value)
    with pytest.raises(ArchiveError, match="passphrase"):
        sign_archive(path, tmp_path / "key", passphrase=str)
    sign_archive(path, tmp_path / "key", passphrase=lambda: "correct horse")
    assert check_signature(path, tmp_path / "key.pub") == ()


def write_pair(folder, key):
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "key").write_bytes(private)
    (folder / "key.pub").write_bytes(public)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_the_curves_of_the_openssf_format_sign_as_well(tmp_path, pack, curve):
    write_pair(tmp_path, ec.generate_private_key(curve))
    path = pack()
    sign_archive(path, tmp_path / "key", passphrase=refuse)
    assert check_signature(path, tmp_path / "key.pub") == ()
    rewrite(path, lambda members: {**members, "handler.py": b""})
    assert only(check_signature(path, tmp_path / "key.pub")).code == "changed-member"


@pytest.mark.parametrize("curve", [rsa, ec.SECP256K1()], ids=["rsa", "secp256k1"])
def test_other_kinds_of_keys_are_refused(tmp_path, pack, curve):
    key = rsa.generate_private_key(65537, 2048) if curve is rsa else ec.generate_private_key(curve)
    write_pair(tmp_path, key)
    with pytest.raises(ArchiveError, match="Ed25519"):
        sign_archive(pack(), tmp_path / "key", passphrase=refuse)
    with pytest.raises(ArchiveError, match="Ed25519"):
        check_signature(tmp_path, tmp_path / "key.pub")


def test_keys_that_are_mixed_up_or_missing_are_one_line(tmp_path, signed, keys):
    with pytest.raises(ArchiveError, match="private key; give the public one"):
        check_signature(signed, keys / "mine")
    with pytest.raises(ArchiveError, match="no private key"):
        sign_archive(signed, keys / "mine.pub", passphrase=refuse, force=True)
    with pytest.raises(ArchiveError, match="cannot be read"):
        check_signature(signed, tmp_path / "none.pub")


def test_a_private_key_is_not_shown(keys):
    from makemar.archiver.signing_key import read_signing_key

    key = read_signing_key(keys / "mine", refuse)
    secret = (keys / "mine").read_text().splitlines()[1]
    assert secret not in repr(key)
    assert repr(key) == f"SigningKey(public=VerifyingKey(hint={key.public.hint!r}))"


def test_the_file_is_a_bundle_of_the_openssf_format(signed, keys):
    bundle = json.loads(Path(f"{signed}.sig").read_bytes())
    assert set(bundle) == {"mediaType", "verificationMaterial", "dsseEnvelope"}
    pem = (keys / "mine.pub").read_bytes()
    assert bundle["verificationMaterial"]["publicKey"]["hint"] == hashlib.sha256(pem).hexdigest()
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    assert statement["predicateType"] == "https://model_signing/signature/v1.0"
    resources = statement["predicate"]["resources"]
    assert [item["name"] for item in resources] == sorted(NAMES)
    assert {item["algorithm"] for item in resources} == {"sha256"}
    root = hashlib.sha256(b"".join(bytes.fromhex(item["digest"]) for item in resources))
    assert statement["subject"] == [{"name": "pong.mar", "digest": {"sha256": root.hexdigest()}}]


def test_what_the_openssf_s_own_program_signed_is_verified(tmp_path):
    # Made once with `model_signing sign key` 1.1.1, of a folder with these two files.
    data = Path(__file__).with_name("data")
    model = tmp_path / "model"
    (model / "labels").mkdir(parents=True)
    (model / "labels/en.txt").write_text("cat\ndog\n")
    (model / "config.json").write_text('{"model": {}}\n')
    key, signature = data / "openssf.pub", data / "openssf.sig"
    assert check_signature(model, key, signature=signature) == ()
    (model / "labels/en.txt").write_text("dog\ncat\n")
    assert only(check_signature(model, key, signature=signature)).code == "changed-member"
