"""A site of unknown software that imitates OpenAI's old usage pages: what it says was used before and after.

Such a counter is recorded and compared, and never becomes a charge: see `dashboard`."""

from __future__ import annotations

from relay_audit.books import LogState
from relay_audit.relays.one_api import OneApi


class Generic(OneApi):
    name = "generic"
    no_log: tuple[LogState, str] | None = None
