"""Which adapter reads the books of which software, by the data in `known_fingerprints/relay_software.toml`."""

from __future__ import annotations

from relay_audit.fingerprint import Knowledge
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.claude_relay_service import ClaudeRelayService
from relay_audit.relays.detect import facts
from relay_audit.relays.generic import Generic
from relay_audit.relays.litellm import LiteLlm
from relay_audit.relays.new_api import NewApi
from relay_audit.relays.one_api import OneApi
from relay_audit.relays.sub2api import Sub2Api
from relay_audit.relays.veloera import Veloera

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        Adapter(), NewApi(), OneApi(), Veloera(), Sub2Api(), ClaudeRelayService(), LiteLlm(), Generic(),
    )
}  # fmt: skip


def adapter_of(software: str, knowledge: Knowledge) -> Adapter:
    """The adapter of a software by its name (or its own name in a target file). A site that shows nothing of its software
    may still have the usage pages that many imitate."""
    row = facts(software, knowledge)
    if row is not None:
        return ADAPTERS[row.log_adapter]
    return ADAPTERS.get(software.replace("-", "_"), ADAPTERS["generic"])
