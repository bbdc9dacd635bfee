"""Veloera, a descendant of new-api from before 2026: `/api/log/token` wants a key in the URL and a user's session besides,
so no audit can read it. It left before `/api/usage/token/` came, so its balance is what the usage pages say. Sources: Veloera
8117f302; its routes at 192bb428."""

from __future__ import annotations

from relay_audit.books import LogState
from relay_audit.relays.new_api import NewApi


class Veloera(NewApi):
    name = "veloera"
    log = None
    no_log: tuple[LogState, str] | None = ("unsafe", "needs_session")
