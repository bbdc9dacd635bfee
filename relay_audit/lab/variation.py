"""What a seed changes in an honest world, so that no test leans on one arrangement of it.

Everything here lies within what was recorded: header shares, id clocks, template constants, usage fields by date.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from relay_audit.lab.knobs import Knobs

OPTIONAL_HEADERS: dict[str, float] = {
    "content-security-policy": 0.73,
    "x-envoy-upstream-service-time": 0.61,
    "traceresponse": 0.41,
    "vary": 0.43,
    "anthropic-workspace-id": 0.5,
    "anthropic-ratelimit-requests-limit": 0.95,
    "via": 0.2,
    "set-cookie": 0.04,
}
"""First-party response headers that are not always there, with the share of recordings that have them (2026)."""


@dataclass(frozen=True)
class Variation:
    """One arrangement, constant over a run."""

    template_offset: int
    headers: frozenset[str]
    """The optional first-party headers of this run."""
    header_order: int
    """Seed of the order in which headers are written."""
    usage_order: int
    output_details: bool
    """`usage.output_tokens_details`, mid-2026 and later."""
    nulls: bool
    """`container` and `diagnostics` as null at the top level, about September 2026 and later."""
    rebuilds_json: int
    """0: the relay passes the body on byte for byte. Else the seed of the key order in which it writes it anew."""
    latency: tuple[float, float]
    """Seconds, from and to."""
    longest_piece: int
    """Bytes per chunk at most; 0 sends a content-length."""
    gzip: bool
    """Compress JSON answers on the wire for a caller who accepts it."""
    version: str
    front: str
    """What stands before the relay and writes `server`: nothing, nginx, or a CDN."""
    granted: int
    """Quota units given to the key."""
    unlimited: bool
    retry_after: bool
    flaky_phase: int


def vary(rng: random.Random, knobs: Knobs) -> Variation:
    """Draws an arrangement. A fixed offset in the knobs wins over the seed's."""
    offset = rng.randint(0, 8)
    return Variation(
        template_offset=offset if knobs.template_offset is None else knobs.template_offset,
        headers=frozenset(name for name, share in OPTIONAL_HEADERS.items() if rng.random() < share),
        header_order=rng.getrandbits(32),
        usage_order=rng.randrange(3),
        output_details=rng.random() < 0.6,
        nulls=rng.random() < 0.5,
        rebuilds_json=rng.choice((0, 0, rng.getrandbits(32))),
        latency=(0.35, 0.8) if knobs.slow else (rng.uniform(0.0, 0.005), rng.uniform(0.006, 0.03)),
        longest_piece=rng.choice((0, 64, 400, 4000)),
        gzip=rng.random() < 0.35,
        version=f"v0.9.{rng.randint(1, 9)}",
        front=rng.choice(("", "nginx", "cloudflare")),
        granted=rng.randint(500_000, 25_000_000),
        unlimited=rng.random() < 0.2,
        retry_after=rng.random() < 0.5,
        flaky_phase=rng.getrandbits(32),
    )
