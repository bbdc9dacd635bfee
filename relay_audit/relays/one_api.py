"""one-api, and what its whole family has in common: the public pages and the OpenAI-style usage pages. It has no log
that a key may read (`/api/log/self` needs a session). Source: one-api 8df4a267."""

from __future__ import annotations

from relay_audit.books import LogState, SiteFacts, UsageReading, When
from relay_audit.relays import dashboard
from relay_audit.relays.adapter import Adapter
from relay_audit.relays.asked import Asked


class OneApi(Adapter):
    name = "one_api"
    no_log: tuple[LogState, str] | None = ("unavailable", "no_log_for_keys")
    usage = dashboard.PAGES

    def read_usage(self, asked: tuple[Asked, ...], site: SiteFacts, when: When) -> UsageReading | None:
        return dashboard.read_usage(asked, site, when)
