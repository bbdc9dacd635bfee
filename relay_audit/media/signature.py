"""Who signed: the one certificate chain of a COSE signature, and the signature checked again under it.

A library that only says "valid" and a name says nothing: both can be had by anybody. The fingerprint is bound to the
key that really signed the claim. A signature with two chains is refused: two readers would read two signers.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import cbor2
import certifi
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from relay_audit.media.jumbf import Manifest, StoreUnreadable, manifests

ALGORITHMS: dict[int, tuple[str, type[hashes.HashAlgorithm]]] = {
    -7: ("ES256", hashes.SHA256), -35: ("ES384", hashes.SHA384), -36: ("ES512", hashes.SHA512),
    -37: ("PS256", hashes.SHA256), -38: ("PS384", hashes.SHA384), -39: ("PS512", hashes.SHA512),
    -8: ("EdDSA", hashes.SHA512),
}  # fmt: skip
CHAIN_HEADERS = (33, "x5chain")
PEM_END = b"-----END CERTIFICATE-----\n"
SIGN1_TAG = 18
MAX_CHAIN = 8
NAME_AT_MOST = 200
ORGANISATION, ORGANISATION_ID = "2.5.4.10", "2.5.4.97"


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("cbor2", "cryptography")}


def read_signer(store: bytes, roots: Sequence[x509.Certificate] | None) -> tuple[dict[str, Any], str]:
    """The active manifest's signer as `media_facts.Signer`, and the serial number of its leaf.

    Raises `StoreUnreadable` for anything else.
    """
    try:
        found = manifests(store)
        chain, algorithm = _verified(found[-1])
        return _signer(found, chain, algorithm, roots), str(chain[0].serial_number)
    except StoreUnreadable:
        raise
    except Exception as error:  # a stranger's CBOR and DER fail in ways that no list foresees
        raise StoreUnreadable("malformed_signature") from error


def public_roots() -> list[x509.Certificate] | None:
    """The roots that browsers trust, as this machine has them; None where there is no list."""
    try:
        raw = Path(certifi.where()).read_bytes()
    except OSError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old roots bend the rules of today
        return [root for block in raw.split(PEM_END)[:-1] if (root := _root(block + PEM_END)) is not None]


def _root(pem: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None


def _signer(
    found: list[Manifest], chain: list[x509.Certificate], algorithm: str, roots: Sequence[x509.Certificate] | None
) -> dict[str, Any]:
    linked = _linked(chain)
    return {
        "label": found[-1].label,
        "algorithm": algorithm,
        "chain": [_certificate(one) for one in chain],
        "linked": linked,
        "public_root": None if roots is None else linked and _rooted(chain[-1], roots),
        "generator": _generator(cbor2.loads(found[-1].claim)),
        "model": _model(found[-1].actions),
        "ingredients": [_earlier_leaf(manifest) for manifest in found[:-1]],
    }


def _earlier_leaf(manifest: Manifest) -> str:
    """SHA-256 of an ingredient's leaf; empty where its signature does not hold."""
    try:
        return _fingerprint(_verified(manifest)[0][0])
    except Exception:  # noqa: BLE001  see read_signer
        return ""


def _verified(manifest: Manifest) -> tuple[list[x509.Certificate], str]:
    """The chain under which the claim's signature holds. Raises `StoreUnreadable`."""
    protected, unprotected, payload, signature = _sign1(manifest.signature)
    headers = cbor2.loads(protected) if protected else {}
    carried = [table[key] for table in (headers, unprotected) for key in CHAIN_HEADERS if key in table]
    if len(carried) != 1:
        raise StoreUnreadable("two_chains" if carried else "malformed_signature")
    raw = [carried[0]] if isinstance(carried[0], bytes) else carried[0]
    if payload is not None or not isinstance(raw, list | tuple) or not 1 <= len(raw) <= MAX_CHAIN:
        raise StoreUnreadable("malformed_signature")
    chain = [x509.load_der_x509_certificate(one) for one in raw]
    name, hash_ = ALGORITHMS[headers[1]]
    signed = cbor2.dumps(["Signature1", protected, b"", manifest.claim])
    try:
        _check(chain[0].public_key(), name, hash_(), signature, signed)
    except InvalidSignature:
        raise StoreUnreadable("signature_does_not_hold") from None
    return chain, name


def _sign1(raw: bytes) -> tuple[bytes, Mapping[Any, Any], bytes | None, bytes]:
    value = cbor2.loads(raw)
    parts = value.value if isinstance(value, cbor2.CBORTag) and value.tag == SIGN1_TAG else value
    if not isinstance(parts, list | tuple) or len(parts) != 4 or not isinstance(parts[1], Mapping):
        raise StoreUnreadable("malformed_signature")
    return parts[0], parts[1], parts[2], parts[3]


def _check(key: object, name: str, hash_: hashes.HashAlgorithm, signature: bytes, signed: bytes) -> None:
    if name.startswith("ES") and isinstance(key, ec.EllipticCurvePublicKey):
        half = len(signature) // 2
        pair = (int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
        key.verify(utils.encode_dss_signature(*pair), signed, ec.ECDSA(hash_))
    elif name.startswith("PS") and isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, signed, padding.PSS(padding.MGF1(hash_), padding.PSS.DIGEST_LENGTH), hash_)
    elif name == "EdDSA" and isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(signature, signed)
    else:
        raise StoreUnreadable("malformed_signature")


def _linked(chain: list[x509.Certificate]) -> bool:
    return all(_issued(lower, upper) for lower, upper in pairwise(chain))


def _issued(lower: x509.Certificate, upper: x509.Certificate) -> bool:
    """Really issued by it, and by a certificate that may issue: any leaf can sign another one."""
    try:
        if not upper.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        lower.verify_directly_issued_by(upper)
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound, UnsupportedAlgorithm):
        return False
    return True


def _rooted(last: x509.Certificate, roots: Sequence[x509.Certificate]) -> bool:
    key = _key_fingerprint(last)
    return any(
        (root.subject == last.subject and _key_fingerprint(root) == key)
        or (root.subject == last.issuer and _issued(last, root))
        for root in roots
    )


def _certificate(one: x509.Certificate) -> dict[str, str]:
    return {
        "sha256": _fingerprint(one),
        "spki_sha256": _key_fingerprint(one),
        "subject": one.subject.rfc4514_string()[:NAME_AT_MOST],
        "issuer": one.issuer.rfc4514_string()[:NAME_AT_MOST],
        "organisation": _named(one, ORGANISATION),
        "organisation_id": _named(one, ORGANISATION_ID),
        "not_before": one.not_valid_before_utc.isoformat(),
        "not_after": one.not_valid_after_utc.isoformat(),
    }


def _fingerprint(one: x509.Certificate) -> str:
    return one.fingerprint(hashes.SHA256()).hex()


def _key_fingerprint(one: x509.Certificate) -> str:
    return hashlib.sha256(one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _named(one: x509.Certificate, oid: str) -> str:
    values = [str(part.value) for part in one.subject if part.oid.dotted_string == oid]
    return values[-1][:NAME_AT_MOST] if values else ""


def _model(actions: bytes) -> str:
    """The model that the action of making names (Volcengine and BytePlus: `parameters.model_name`); else empty."""
    table = cbor2.loads(actions) if actions else {}
    rows = table.get("actions") if isinstance(table, Mapping) else None
    for row in rows if isinstance(rows, list | tuple) else ():
        given = row.get("parameters") if isinstance(row, Mapping) and row.get("action") == "c2pa.created" else None
        if isinstance(given, Mapping) and isinstance(name := given.get("model_name"), str):
            return name[:NAME_AT_MOST]
    return ""


def _generator(claim: Any) -> str:  # noqa: ANN401  any CBOR value
    if not isinstance(claim, Mapping):
        return ""
    info = claim.get("claim_generator_info") or claim.get("claim_generator") or ""
    first = info[0] if isinstance(info, list | tuple) and info else info
    if isinstance(first, Mapping):
        return f"{first.get('name', '')} {first.get('version', '')}".strip()[:NAME_AT_MOST]
    return str(first)[:NAME_AT_MOST]
