"""What is known of a connection below HTTP: whose address answered, and with which certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any


def peer(stream: Any) -> str:  # noqa: ANN401  the wire's own stream type is private
    place = stream.get_extra_info("server_addr")
    if not isinstance(place, tuple):
        return ""
    host, port = place[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def header_text(raw: list[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw)


def certificate(tls: Any) -> dict[str, str]:  # noqa: ANN401  SSLObject or SSLSocket
    leaf = tls.getpeercert(binary_form=True) if tls else None
    if not leaf:
        return {}
    parts = [part for group in (tls.getpeercert() or {}).get("issuer", ()) for part in group]
    short = {"commonName": "CN", "organizationName": "O", "countryName": "C", "organizationalUnitName": "OU"}
    return {
        "tls_version": tls.version() or "",
        "leaf_sha256": hashlib.sha256(leaf).hexdigest(),
        "issuer": ", ".join(f"{short.get(name, name)}={value}" for name, value in parts),
    }


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it: the libraries on the way wrap each other's."""
    seen = 0
    step: BaseException | None = error
    while step is not None and seen < 20:
        yield step
        step, seen = step.__cause__ or step.__context__, seen + 1
