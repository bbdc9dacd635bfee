"""What a refusal says once its wrappers are off: relays put the vendor's answer inside their own, as text inside JSON,
behind a sentence in Chinese, with a suffix, with names masked. Compared is what is meant, never bytes. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from relay_audit.exchange import Exchange

LONGEST = 20_000
DEEPEST = 5
"""JSON inside JSON is followed this far."""
INNER_STATUS = re.compile(r"(?:HTTP|status_code=|status code:?)\s*(\d{3})(?!\d)")
SUFFIX = re.compile(r"\s*\((?:request[ _]id|请求 ?id)[:：][^()]*\)\s*$", re.IGNORECASE)
WRAPPERS = (
    re.compile(r"^litellm\.\w+: (?:\w+Exception - )?"),
    re.compile(r"^\w+ error: "),
    re.compile(r"\n\s*LiteLLM: .*$", re.DOTALL),
)
DOTTED = re.compile(r"(?<![\w.])(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?!\w)")
WORD = re.compile(r"[A-Za-z_]{3,}|\d+")
KEPT_WORDS = 0.6
"""Wording drifts: this share of the vendor's words makes it the same complaint."""
SHELL_TYPES = frozenset(
    {"", "<nil>", "error", "new_api_error", "one_api_error", "one_hub_error", "upstream_error", "api_error", "None"}
)
"""Types that relay software writes over the vendor's; they contradict nothing."""


class Said(NamedTuple):
    """A refusal as it was meant."""

    status: int
    """The outer one, as a client sees it."""
    inner_status: int
    """The vendor's, where the text holds one; else the outer one."""
    kind: str
    """The innermost type."""
    text: str
    """The innermost message, without suffixes and prefixes."""


def read_refusal(status: int, body: str) -> Said:
    """The innermost complaint of an answer that is no success."""
    inner, kind, text = status, "", unescaped(body)
    value: Any = _json_in(body[:LONGEST])
    for _ in range(DEEPEST):
        error = _error_of(value)
        if error is None:
            break
        kind, text = error
        if found := INNER_STATUS.search(text):
            inner = int(found.group(1))
        inside = _json_in(text)
        value = _beside(value) if inside is None else inside
        if value is None:
            break
    return Said(status, inner, kind, _bare(text))


def unescaped(body: str) -> str:
    """A text with the escapes of JSON inside JSON taken off."""
    text = body[:LONGEST]
    for _ in range(3):
        text = text.replace('\\"', '"').replace("\\\\", "\\")
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m.group(1), 16)), text)


def masked(text: str) -> str:
    """As new-api shows a text: whatever looks like a host name keeps only its last part."""
    return DOTTED.sub(lambda m: "***." * m[0].count(".") + m[0].rsplit(".", 1)[-1], text)


def same_complaint(official: str, relay: str, names: str = "") -> bool:
    """Whether a relay's text holds the vendor's complaint, softly: most of its words, masked or not, and the field it
    names where the vendor's text names it."""
    own = {word.lower() for word in WORD.findall(relay)}
    for wanted in (official, masked(official)):
        words = [word.lower() for word in WORD.findall(wanted)]
        named = names not in wanted or names in relay
        if words and named and sum(word in own for word in words) / len(words) >= KEPT_WORDS:
            return True
    return False


def _error_of(value: Any) -> tuple[str, str] | None:  # noqa: ANN401  whatever a stranger sent
    """Type (or code) and message of an error object, in the forms that vendors and relays write."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    error = value.get("error", value.get("detail", value))
    if isinstance(error, str):
        return str(value.get("type") or value.get("code") or ""), str(value.get("message") or error)
    if not isinstance(error, dict):
        return None
    message = next((error[key] for key in ("message", "msg", "detail") if isinstance(error.get(key), str)), None)
    if message is None:
        return None
    return str(error.get("type") or error.get("status") or error.get("code") or ""), message


def _beside(value: Any, deep: int = 0) -> Any:  # noqa: ANN401
    """The vendor's refusal as JSON text that stands beside a gateway's own sentence: OpenRouter's `metadata.raw`
    (documented: the provider's error as it came), a `body` or `response` of others. None where there is none."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict) or deep > DEEPEST:
        return None
    for part in value.values():
        inside = _json_in(part) if isinstance(part, str) and "{" in part else None
        if inside is None or _error_of(inside) is None:
            inside = _beside(part, deep + 1)
        if inside is not None:
            return inside
    return None


def _json_in(text: str) -> Any:  # noqa: ANN401
    """The first JSON object that stands in a text; None where there is none."""
    for form in (text, unescaped(text)):
        for start in [found.start() for found in re.finditer(r"\{", form)][:8]:
            try:
                return json.JSONDecoder().raw_decode(form, start)[0]
            except (ValueError, RecursionError):
                continue
    return None


def _bare(text: str) -> str:
    for pattern in WRAPPERS:
        text = pattern.sub("", text)
    while (shorter := SUFFIX.sub("", text)) != text:
        text = shorter
    return text.strip()


PASSING = frozenset({408, 409, 425, 429, 503, 504, *range(520, 530)})
"""Statuses of a moment: overloaded, rate-limited. They say nothing about a parameter."""
GATES = frozenset({401, 402, 403})
"""A key, a balance, an admission: the relay's own, whatever the body held."""


def turned_away(exchange: Exchange) -> bool:
    """Refused for a moment, or at the door: that says nothing of what the body held. By the status that the innermost text
    names, where one was wrapped."""
    status, body = exchange.status or 0, exchange.response.body if exchange.response else ""
    return status in GATES or (status != 200 and read_refusal(status, body).inner_status in PASSING)
