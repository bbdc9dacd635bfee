"""Films and images signed while the tests run, by chains that are thrown away afterwards. No key is kept anywhere."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import json
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import c2pa
import cbor2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID, ObjectIdentifier

from relay_audit.media import examine, jumbf, worker
from relay_audit.media_facts import MediaFacts

DATA = Path(__file__).resolve().parent.parent / "data" / "media"
CLAIM_SIGNING = ObjectIdentifier("1.3.6.1.4.1.62558.2.1")
ORGANISATION_ID = ObjectIdentifier("2.5.4.97")
UUID = bytes.fromhex("d8fec3d61b0e483c92975828877ec481")
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
CLAIM = {
    "claim_generator_info": [{"name": "relay-audit-tests", "version": "1"}],
    "assertions": [
        {
            "label": "c2pa.actions.v2",
            "data": {
                "actions": [
                    {
                        "action": "c2pa.created",
                        "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia",
                    }
                ]
            },
        }
    ],
}


@dataclass(frozen=True)
class Authority:
    """A root, the issuing certificate below it, and their keys."""

    name: str
    root: x509.Certificate
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Chain:
    leaf: x509.Certificate
    authority: Authority
    key: ec.EllipticCurvePrivateKey

    @property
    def sha256(self) -> str:
        return self.leaf.fingerprint(hashes.SHA256()).hex()

    @property
    def ders(self) -> list[bytes]:
        return [one.public_bytes(serialization.Encoding.DER) for one in (self.leaf, self.authority.certificate)]

    @property
    def pem(self) -> bytes:
        chain = (self.leaf, self.authority.certificate)
        return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def named(common: str, organisation: str, organisation_id: str = "") -> x509.Name:
    parts = [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "SG"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
        x509.NameAttribute(NameOID.COMMON_NAME, common),
    ]
    if organisation_id:
        parts.append(x509.NameAttribute(ORGANISATION_ID, organisation_id))
    return x509.Name(parts)


def certificate(
    subject, issuer, key, issuer_key, *, ca, start, end, usages=(), urls=(), serial=None
) -> x509.Certificate:
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(x509.KeyUsage(digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, **usage), critical=True)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    if urls:
        described = [x509.AccessDescription(oid, x509.UniformResourceIdentifier(url)) for oid, url in urls]
        builder = builder.add_extension(x509.AuthorityInformationAccess(described), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def authority(name: str) -> Authority:
    start, end = NOW - dt.timedelta(days=900), NOW + dt.timedelta(days=3650)
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name = named(f"{name} Root CA", name)
    root = certificate(root_name, root_name, root_key, root_key, ca=True, start=start, end=end)
    issuing = certificate(named(f"{name} Issuing CA", name), root_name, key, root_key, ca=True, start=start, end=end)
    return Authority(name, root, issuing, key)


def chain(
    above: Authority, organisation="Byteplus Pte. Ltd.", organisation_id="NTRSG-202024632W", *, days=(-2, 365),
    usages=(CLAIM_SIGNING,), urls=(), key=None, serial=None,
) -> Chain:  # fmt: skip
    key = key or ec.generate_private_key(ec.SECP256R1())
    start, end = (NOW + dt.timedelta(days=day) for day in days)
    leaf = certificate(
        named("certificate@vendor.example", organisation, organisation_id), above.certificate.subject, key, above.key,
        ca=False, start=start, end=end, usages=usages, urls=urls, serial=serial,
    )  # fmt: skip
    return Chain(leaf, above, key)


def sign(
    source: Path, target: Path, by: Chain, *, parent: Path | None = None, remote: str = "", model: str = ""
) -> Path:
    """As any signer would: the library, its own checks of the result off."""
    settings = {
        "verify": {"verify_after_sign": False, "verify_trust": False, "remote_manifest_fetch": False},
        "builder": {"thumbnail": {"enabled": False}},
        "trust": {"trust_config": "1.3.6.1.4.1.62558.2.1\n1.3.6.1.5.5.7.3.4"},
    }
    info = c2pa.C2paSignerInfo(alg=c2pa.C2paSigningAlg.ES256, sign_cert=by.pem, private_key=by.key_pem, ta_url=None)
    claim = copy.deepcopy(CLAIM)
    if model:
        claim["assertions"][0]["data"]["actions"][0]["parameters"] = {"model_name": model}
    with c2pa.Builder(claim, context=c2pa.Context.from_dict(settings)) as builder:
        if remote:
            builder.set_no_embed()
            builder.set_remote_url(remote)
        if parent is not None:
            with parent.open("rb") as stream:
                kind = {".mp4": "video/mp4", ".jpg": "image/jpeg", ".png": "image/png"}[parent.suffix]
                builder.add_ingredient(json.dumps({"title": "parent", "relationship": "parentOf"}), kind, stream)
        builder.sign_file(str(source), str(target), c2pa.Signer.from_info(info))
    return target


def plain(kind: str = "mp4") -> Path:
    return DATA / f"plain.{kind}"


def top_boxes(raw: bytes) -> list[tuple[bytes, int, int]]:
    """Type, start and end of each box of the first level."""
    found, at = [], 0
    while at + 8 <= len(raw):
        length, kind = struct.unpack(">I4s", raw[at : at + 8])
        found.append((kind, at, at + length))
        at += length
    return found


def credentials(raw: bytes) -> tuple[int, int]:
    """Where the C2PA box lies."""
    return next(
        (start, end) for kind, start, end in top_boxes(raw) if kind == b"uuid" and raw[start + 8 : start + 24] == UUID
    )


def without_credentials(raw: bytes) -> bytes:
    """The C2PA box becomes a `free` box of the same length, so that every offset stays right."""
    start, end = credentials(raw)
    return raw[:start] + struct.pack(">I4s", end - start, b"free") + bytes(end - start - 8) + raw[end:]


def flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def inside(raw: bytes, mark: bytes, nth: int = 0) -> int:
    """Where a text stands in the file's credentials."""
    at = credentials(raw)[0]
    for _ in range(nth + 1):
        at = raw.index(mark, at + 1)
    return at


def with_chain_in_unprotected(raw: bytes, foreign: list[bytes]) -> bytes:
    """The same length again: the foreign chain takes the room of the signature's padding."""
    at = inside(raw, b"c2pa.signature")
    box = raw.index(b"cbor", at) - 4
    length = struct.unpack(">I", raw[box : box + 4])[0]
    tag = cbor2.loads(raw[box + 8 : box + length])
    protected, unprotected, payload, signature = tag.value
    table = {key: value for key, value in unprotected.items() if key != "pad"} | {33: list(foreign)}
    room = len(raw[box + 8 : box + length]) - len(_envelope(protected, {**table, "pad": b""}, payload, signature))
    for pad in range(room, room - 6, -1):
        forged = _envelope(protected, {**table, "pad": bytes(max(pad, 0))}, payload, signature)
        if len(forged) == length - 8:
            return raw[: box + 8] + forged + raw[box + length :]
    raise AssertionError(f"no room for the foreign chain: {room}")


def preliminary(film: Path, by: Chain) -> bytes:
    """As before version 1.0: assertions hashed without their boxes, and the claim signed again. Everything else holds."""
    raw = film.read_bytes()
    with film.open("rb") as file:
        store = worker.walk(file).stores[0]
    manifest = jumbf.manifests(store)[-1]
    claim, tag = cbor2.loads(manifest.claim), cbor2.loads(manifest.signature)
    changed = manifest.claim
    for row in (*claim["created_assertions"], *claim["gathered_assertions"]):
        at = store.index(row["url"].rsplit("/", 1)[-1].encode() + b"\0")
        box = store.index(b"cbor", at) - 4
        body = store[box + 8 : box + struct.unpack(">I", store[box : box + 4])[0]]
        changed = changed.replace(row["hash"], hashlib.sha256(body).digest())
    signed = cbor2.dumps(["Signature1", tag.value[0], b"", changed])
    pair = utils.decode_dss_signature(by.key.sign(signed, ec.ECDSA(hashes.SHA256())))
    signature = b"".join(number.to_bytes(32, "big") for number in pair)
    return raw.replace(manifest.claim, changed).replace(tag.value[3], signature)


def _envelope(protected, unprotected, payload, signature) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(18, [protected, unprotected, payload, signature]))


READ_ALL = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from pathlib import Path
from relay_audit.media import native, signature, worker
from relay_audit.media.contents import Malformed
worker.limit()
libraries, roots = native.libraries() | signature.versions(), signature.public_roots()
signature.public_roots = lambda: roots
for name in sys.stdin.read().splitlines():
    path, parts = Path(name), {"libraries": libraries}
    try:
        with path.open("rb") as file:
            contents = worker.walk(file)
        parts |= {"contents": worker.described(contents), "signer": worker.signer(contents)}
        parts |= {"integrity": native.integrity(path)}
    except Malformed as reason:
        parts["refused"] = {"reason": reason.reason}
    print(json.dumps(parts), flush=True)
"""


def read_all(paths: list[Path]) -> list[MediaFacts]:
    """What `examine` reads, for many files in one child: the same functions, without MediaInfo."""
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, json.dumps([p for p in sys.path if p])],
        input="\n".join(map(str, paths)), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    answers = done.stdout.splitlines()
    assert (done.returncode, len(answers)) == (0, len(paths)), done.stderr[-2000:]
    bare = [
        MediaFacts(name=p.name, sha256=hashlib.sha256(p.read_bytes()).hexdigest(), size=p.stat().st_size) for p in paths
    ]
    return [examine.together(one, json.loads(answer), "") for one, answer in zip(bare, answers, strict=True)]
