"""Whose line it is: what would show it, and how a name is looked for as a whole word."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from relay_audit.evidence import Evidence
from relay_audit.exchange import Exchange
from relay_audit.finding import Finding

SHORTEST_TERM = 2
"""Characters of a name that can be looked for; a single letter is found everywhere."""
RELAY_REQUEST_IDS = ("x-oneapi-request-id", "x-litellm-call-id", "x-request-id", "request-id", "cf-ray")
"""Headers in which relay software numbers its requests, most specific first."""
OWN_WORDS = frozenset({"default", "relay", "auto"})
"""Words of our own that a group may be called, too."""
COMMON_LABELS = frozenset({"api", "www", "relay", "proxy", "gateway", "cloud", "server", "example", "localhost"})
"""Parts of host names that point to nobody."""


@dataclass(frozen=True)
class Terms:
    """What would show in public whose line was tested: never printed there, and looked for before it leaves."""

    names: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()
    """Patterns of model names that are public knowledge: a relay's text that is exactly one may be repeated."""

    @staticmethod
    def of(evidence: Evidence, models: tuple[str, ...] = ()) -> Terms:
        target, site = evidence.target, evidence.site
        host = host_of(target.relay_origin)
        rows = [row for reading in evidence.log for row in reading.rows]
        named = {target.name, target.relay_origin, host, host.rpartition(":")[0] or host, target.claim.group}
        named |= {name for row in rows for name in (row.request_id, row.upstream_request_id, row.group)}
        named |= set(site.group_ratio)
        named |= {part for part in host.split(":")[0].split(".")[:-1] if len(part) > 3 and part not in COMMON_LABELS}
        for exchange in evidence.exchanges:
            named |= {exchange.connection.address, exchange.connection.address.rpartition(":")[0]}
            named |= set(request_ids(exchange))
        model = target.model.casefold()
        kept = (name for name in named if len(name) >= SHORTEST_TERM and name.casefold() not in model)
        return Terms(frozenset(name for name in kept if name.casefold() not in OWN_WORDS), models)

    def holds(self, text: str) -> bool:
        folded = text.casefold()
        return any(name.casefold() in folded and whole_word(name.casefold()).search(folded) for name in self.names)

    def may_repeat(self, text: str) -> bool:
        """Whether a stranger's text is nothing but the name of a known model."""
        plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{2,79}", text) is not None
        return plain and not self.holds(text) and any(fnmatch.fnmatchcase(text, model) for model in self.models)


UNIT_PRICES = frozenset({"published_rate", "charged_rate", "per_mtok"})
"""Parameters that say what a unit costs on this line."""
TIER_PRICES = frozenset({"quoted", "charged", "refunded", "net"})
"""What a film of one tier costs, in the relay's own dollars."""


def without_prices(finding: Finding) -> Finding:
    """The same without what stands in the line's price list, by which it could be told: what remains of a price in public
    is its ratio to the official one."""
    params = {name: value for name, value in finding.params.items() if name not in UNIT_PRICES}
    if "table" in params:  # `480p 5 s: charged / given back / net / ×ratio`
        params["table"] = [f"{row.partition(':')[0]}: {row.rpartition(' / ')[2]}" for row in params["table"]]
    observed = {
        name: {key: told for key, told in value.items() if key not in TIER_PRICES}
        if isinstance(value, Mapping)
        else value
        for name, value in finding.observed.items()
    }
    return finding.model_copy(update={"params": params, "observed": observed})


def whole_word(name: str) -> re.Pattern[str]:
    """A name as a whole word. Scripts without spaces have no word edges."""
    left = r"(?<![a-z0-9_])" if name[0].isascii() and name[0].isalnum() else ""
    right = r"(?![a-z0-9_])" if name[-1].isascii() and name[-1].isalnum() else ""
    return re.compile(left + re.escape(name) + right)


def request_ids(exchange: Exchange) -> tuple[str, ...]:
    """What the relay numbers a request by, from the headers of its answer."""
    response = exchange.response
    return tuple(v for name in RELAY_REQUEST_IDS if response and (v := response.header(name)))


def host_of(address: str) -> str:
    """The host and port of an address; the address itself where it has none."""
    return urlsplit(address).netloc.rsplit("@", 1)[-1] or address
