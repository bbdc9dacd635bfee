"""Response headers of OpenAI's own servers and of Azure OpenAI, as recorded in 2026."""

from __future__ import annotations

import random

from relay_audit.lab import ids
from relay_audit.lab.variation import Variation
from relay_audit.lab.vendor_headers import shuffled
from relay_audit.lab.wire import Headers, date_header

OPTIONAL = {"x-openai-proxy-wasm": 0.58, "openai-organization": 0.85, "openai-project": 0.88}


class OpenAiHeaders:
    """api.openai.com behind its CDN: one organisation and one project per account, the rest fresh per answer."""

    def __init__(self, seen: Variation, rng: random.Random) -> None:
        self._seen = seen
        self._rng = rng
        own = {
            "x-openai-proxy-wasm": "v0.1",
            "openai-organization": ids.lookalike("lab-", 17, rng),
            "openai-project": ids.lookalike("proj_", 24, rng),
        }
        self._own = {name: value for name, value in own.items() if rng.random() < OPTIONAL[name]}

    def __call__(self, date: float, *, limited: bool = True) -> Headers:
        """Everything but the content headers; counting, listing and refusals carry no rate limits."""
        rng = self._rng
        rows: dict[str, str] = dict([date_header(date)])
        rows |= {
            "cf-ray": ids.cf_ray(rng),
            "cf-cache-status": "DYNAMIC",
            "server": "cloudflare",
            "strict-transport-security": "max-age=31536000; includeSubDomains; preload",
            "x-content-type-options": "nosniff",
            "access-control-expose-headers": "CF-Ray, CF-Ray, X-Request-ID",
            "openai-processing-ms": str(rng.randint(80, 2400)),
            "openai-version": "2020-10-01",
            "x-request-id": f"req_{rng.getrandbits(128):032x}",
            "alt-svc": 'h3=":443"; ma=86400',
            **self._own,
        }
        if limited:
            for name, limit in (("requests", 5000), ("tokens", 1_000_000)):
                rows[f"x-ratelimit-limit-{name}"] = str(limit)
                rows[f"x-ratelimit-remaining-{name}"] = str(limit - rng.randint(1, 40))
                rows[f"x-ratelimit-reset-{name}"] = f"{rng.randint(0, 150)}ms"
        return shuffled(rows, self._seen.header_order)


def azure(date: float, model: str, rng: random.Random) -> Headers:
    """What an Azure OpenAI deployment sends."""
    return (
        date_header(date),
        ("apim-request-id", ids.uuid4(rng)),
        ("x-ms-region", rng.choice(("West Europe", "East US 2", "Sweden Central"))),
        ("x-request-id", ids.uuid4(rng)),
        ("azureai-fe-offer-type", "paygo"),
        ("x-ms-deployment-name", model),
        ("skip-error-remapping", "true"),
        ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
        ("x-content-type-options", "nosniff"),
    )
