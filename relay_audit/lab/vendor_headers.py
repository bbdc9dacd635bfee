"""Response headers of the official API, Bedrock and Vertex, as recorded in 2026."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from relay_audit.lab import ids
from relay_audit.lab.variation import Variation
from relay_audit.lab.wire import Headers, date_header

LIMITS = (("input-tokens", 10_000_000), ("output-tokens", 2_000_000), ("tokens", 12_000_000), ("requests", 10_000))
CSP = "default-src 'none'; frame-ancestors 'none'"


class FirstParty:
    """api.anthropic.com behind its CDN. One organisation and one workspace per account, the rest fresh per answer."""

    def __init__(self, seen: Variation, rng: random.Random) -> None:
        self._seen = seen
        self._rng = rng
        self.accounts = [ids.uuid4(rng)]
        self.workspace = ids.unclocked("wrkspc", rng)

    def account(self, number: int) -> str:
        """The organisation id of the n-th account, from 0."""
        while len(self.accounts) <= number:
            self.accounts.append(ids.uuid4(self._rng))
        return self.accounts[number]

    def __call__(
        self, date: float, request_id: str, *, error: bool = False, generation: bool = True, account: int = 0
    ) -> Headers:
        """Everything but the content headers; counting and errors carry no rate limits."""
        rng = self._rng
        rows: dict[str, str] = dict([date_header(date)])
        if generation and not error:
            rows |= self._limits(date)
        rows |= {
            "request-id": request_id,
            "strict-transport-security": "max-age=31536000; includeSubDomains; preload",
            "anthropic-organization-id": self.account(account),
            "server": "cloudflare",
            "cf-cache-status": "DYNAMIC",
            "x-robots-tag": "none",
            "cf-ray": ids.cf_ray(rng),
        }
        if error:
            rows["x-should-retry"] = "false"
        rows |= {name: value for name, value in self._optional().items() if name in self._seen.headers}
        return shuffled(rows, self._seen.header_order)

    def _optional(self) -> dict[str, str]:
        rng = self._rng
        return {
            "content-security-policy": CSP,
            "x-envoy-upstream-service-time": str(rng.randint(30, 900)),
            "traceresponse": f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01",
            "vary": "Accept-Encoding",
            "anthropic-workspace-id": self.workspace,
            "via": "1.1 google",
            "set-cookie": f"_cfuvid={rng.getrandbits(128):032x}; path=/; HttpOnly; Secure",
        }

    def _limits(self, date: float) -> dict[str, str]:
        reset = dt.datetime.fromtimestamp(date, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        rows: dict[str, str] = {}
        for name, limit in LIMITS:
            if name != "requests" or "anthropic-ratelimit-requests-limit" in self._seen.headers:
                left = limit - self._rng.randrange(1 + limit // 1000)
                start = f"anthropic-ratelimit-{name}"
                rows |= {f"{start}-limit": str(limit), f"{start}-remaining": str(left), f"{start}-reset": reset}
        return rows


def bedrock(date: float, usage: dict[str, Any], rng: random.Random) -> Headers:
    """What InvokeModel sends. That a relay passes these on is seen with plain proxies; new-api's own AWS channel speaks
    through an SDK and may not."""
    return (
        date_header(date),
        ("x-amzn-requestid", ids.uuid4(rng)),
        ("x-amzn-bedrock-invocation-latency", str(rng.randint(250, 2400))),
        ("x-amzn-bedrock-input-token-count", str(usage["input_tokens"])),
        ("x-amzn-bedrock-output-token-count", str(usage["output_tokens"])),
        ("x-amzn-bedrock-cache-read-input-token-count", str(usage["cache_read_input_tokens"])),
        ("x-amzn-bedrock-cache-write-input-token-count", str(usage["cache_creation_input_tokens"])),
    )


def foundry(date: float, rng: random.Random) -> Headers:
    """Claude on Azure Foundry: the gateway's headers, and none of the vendor's rate limits."""
    return (
        date_header(date),
        ("apim-request-id", ids.uuid4(rng)),
        ("x-ms-region", rng.choice(("East US 2", "Sweden Central"))),
    )


def shuffled(rows: dict[str, str], seed: int) -> Headers:
    """Headers in the order of this run."""
    items = list(rows.items())
    random.Random(seed).shuffle(items)
    return tuple(items)
