"""Which adapter reads the books of which software, by the data in `known_fingerprints/relay_software.toml`."""

from __future__ import annotations

from relay_audit.fingerprint import Knowledge
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.detect import facts
from relay_audit.relays.new_api import NewApi
from relay_audit.relays.one_api import OneApi

ADAPTERS: dict[str, Adapter] = {adapter.name: adapter for adapter in (Adapter(), NewApi(), OneApi())}


def adapter_of(software: str, knowledge: Knowledge) -> Adapter:
    """The adapter of a software by its name; the one that reads nothing for a software that nobody knows."""
    row = facts(software, knowledge)
    return ADAPTERS[row.log_adapter] if row else ADAPTERS["none"]
