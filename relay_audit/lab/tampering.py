"""What a relay does to a request's parameters on the way, and to the vendor's refusals: a knob per fault."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from relay_audit.lab.knobs import Knobs
from relay_audit.lab.message import Treatment
from relay_audit.lab.official import Official, Reply
from relay_audit.lab.wire import Headers, HttpAnswer, json_answer

FALLBACK = "claude-haiku-5-5"
"""The model that a fallback asks instead."""
SAMPLING = ("temperature", "top_p", "top_k")
BLANK = {"error": {"code": "E015", "message": "Internal server error"}, "status": 500}
"""claude-relay-service with console accounts: the same body for every refusal, under the vendor's status."""
HOST_LIKE = re.compile(r"(?<![\w.])(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?!\w)")


def tampered(body: dict[str, Any], knobs: Knobs) -> dict[str, Any]:
    """The body after the vendor's patches: fields that vanish, a limit that is set to another one."""
    kept = {name: value for name, value in body.items() if name not in knobs.swallows}
    if knobs.draws:
        kept = {name: value for name, value in kept.items() if name not in SAMPLING or not _in_range(value)}
    if knobs.limit_to and "max_tokens" in kept:
        kept["max_tokens"] = knobs.limit_to
    return kept


def _in_range(value: Any) -> bool:  # noqa: ANN401  whatever a caller sent
    return isinstance(value, int | float) and 0 <= value <= 1


def fallback(upstream: Official, how: Treatment) -> Reply:
    """The request asked again elsewhere, stripped to what anybody takes: another model, on Bedrock."""
    body = {
        "model": FALLBACK,
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "Reply with the single word OK."}],
    }
    return upstream.generate(body, how=replace(how, channel="aws"))


def blanked(status: int, own: Headers) -> HttpAnswer:
    return json_answer(status, BLANK, own)


def in_openais_words(text: str) -> str:
    """A refusal as OpenAI would have worded it, about the same field."""
    field = text.partition(":")[0].strip("`")
    return f"Unsupported parameter: '{field.split()[0]}' is not supported with this model."


def masked(text: str) -> str:
    """new-api's masking of whatever looks like a host name: `messages.0.content` becomes `***.***.content`."""
    return HOST_LIKE.sub(lambda m: "***." * m[0].count(".") + m[0].rsplit(".", 1)[-1], text)
