"""Veloera, a descendant of new-api from before 2026: `/api/log/token` wants a key in the URL and a user's session besides,
so no audit can read it. Balance and usage pages answer as its ancestor's do. Source: Veloera 8117f302."""

from __future__ import annotations

from relay_audit.books import LogState
from relay_audit.relays.new_api import NewApi


class Veloera(NewApi):
    name = "veloera"
    log = None
    no_log: tuple[LogState, str] | None = ("unsafe", "needs_session")
