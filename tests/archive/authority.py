"""A time stamp authority on loopback: certificates of its own, RFC 3161 answers, and whatever a bad one might send."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from asn1crypto import cms, core, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.loopback import answering

NOW = dt.datetime(2026, 11, 30, 4, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
REJECTED = bytes.fromhex("30053003020102")
"""A response whose status is `rejection`; it holds no token."""


class Authority:
    def __init__(self, *, valid_until: dt.datetime = NOW + 300 * DAY, for_stamps: bool = True) -> None:
        root_key, self._key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        self.root = _certificate("root", root_key, "root", root_key, None, NOW + 3000 * DAY)
        usage = ExtendedKeyUsageOID.TIME_STAMPING if for_stamps else ExtendedKeyUsageOID.CODE_SIGNING
        self._leaf = _certificate("authority", self._key, "root", root_key, usage, valid_until)

    def write_root(self, folder: Path) -> Path:
        path = folder / f"{id(self)}.pem"
        path.write_bytes(self.root.public_bytes(serialization.Encoding.PEM))
        return path

    def stamp(self, asked: bytes, *, imprint: bytes = b"", nonce: int | None = None) -> bytes:
        """A granted response to a request's bytes; over another imprint or nonce where one is given."""
        request = tsp.TimeStampReq.load(asked)
        over = request["message_imprint"]
        if imprint:
            over = tsp.MessageImprint({"hash_algorithm": {"algorithm": "sha256"}, "hashed_message": imprint})
        content = tsp.TSTInfo(
            {"version": "v1", "policy": "1.2.3.4.1", "message_imprint": over, "serial_number": 7, "gen_time": NOW,
             "nonce": request["nonce"].native if nonce is None else nonce}
        ).dump()  # fmt: skip
        leaf = asn1_x509.Certificate.load(self._leaf.public_bytes(serialization.Encoding.DER))
        own = hashlib.sha256(leaf.dump()).digest()
        attributes = cms.CMSAttributes(
            [
                {"type": "content_type", "values": ["tst_info"]},
                {"type": "message_digest", "values": [hashlib.sha256(content).digest()]},
                {"type": "signing_certificate_v2", "values": [{"certs": [{"cert_hash": own}]}]},
            ]
        )
        signer = {
            "version": "v1",
            "sid": {"issuer_and_serial_number": {"issuer": leaf.issuer, "serial_number": leaf.serial_number}},
            "digest_algorithm": {"algorithm": "sha256"},
            "signed_attrs": attributes,
            "signature_algorithm": {"algorithm": "sha256_ecdsa"},
            "signature": self._key.sign(attributes.dump(), ec.ECDSA(hashes.SHA256())),
        }
        signed = {
            "version": "v3",
            "digest_algorithms": [{"algorithm": "sha256"}],
            "encap_content_info": {"content_type": "tst_info", "content": core.ParsableOctetString(content)},
            "certificates": [leaf],
            "signer_infos": [signer],
        }
        token = {"content_type": "signed_data", "content": cms.SignedData(signed)}
        return tsp.TimeStampResp({"status": {"status": "granted"}, "time_stamp_token": token}).dump()


def request_for(head: str) -> bytes:
    """A request's bytes over a hash, as any client would make it."""
    imprint = {"hash_algorithm": {"algorithm": "sha256"}, "hashed_message": bytes.fromhex(head)}
    return tsp.TimeStampReq({"version": "v1", "message_imprint": imprint, "nonce": 5, "cert_req": True}).dump()


@contextlib.contextmanager
def listening(answer: Callable[[bytes], tuple[int, bytes]]) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that answers so, and the requests (head and body) that reached it."""
    seen: list[bytes] = []

    def stamped(_path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        seen.append("\n".join(f"{name}: {value}" for name, value in headers.items()).encode() + b"\n\n" + body)
        status, raw = answer(body)
        return status, "application/timestamp-reply", raw

    with answering(stamped) as origin:
        yield f"{origin}/tsr", seen


def _certificate(name, key, issuer, issuer_key, usage, until) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    made = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 1000 * DAY)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(usage is None, None), critical=True)
    )
    if usage is not None:
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    return made.sign(issuer_key, hashes.SHA256())
