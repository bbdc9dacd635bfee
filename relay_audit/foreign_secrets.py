"""Shapes of other people's secrets, and where they stand in a message."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from relay_audit.disguise import Span, View

# As in `disguise`: possessive, and the literal before its look-behind.
SHAPES: dict[str, re.Pattern[bytes]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "private_key": rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----END))*+"
        rb"(?:-----END [A-Z0-9 ]{0,30}-----)?",
        "jwt": rb"eyJ(?<![\w-]eyJ)[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,}+",
        "anthropic_key": rb"sk-ant-(?<![A-Za-z0-9]sk-ant-)[\w-]{16,}+",
        "openai_key": rb"sk-(?<![A-Za-z0-9]sk-)(?:proj|svcacct|admin|None)-[\w-]{16,}+",
        "openrouter_key": rb"sk-or-v1-(?<![A-Za-z0-9]sk-or-v1-)[\w-]{16,}+",
        "google_key": rb"AIza(?<![\w-]AIza)[\w-]{30,}+",
        "google_token": rb"ya29\.(?<![\w-]ya29\.)[\w-]{20,}+",
        "aws_key": rb"A(?:KI|SI)A(?<![\w-]A.{3})[A-Z0-9]{16}(?![A-Za-z0-9])",
        "relay_service_key": rb"cr_(?<![\w-]cr_)[A-Za-z0-9]{24,}+",
        "github_token": rb"gh[pousr]_(?<![\w-]gh.{2})[A-Za-z0-9]{30,}+",
        "github_pat": rb"github_pat_(?<![\w-]github_pat_)\w{30,}+",
        "groq_key": rb"gsk_(?<![\w-]gsk_)[A-Za-z0-9]{40,}+",
        "xai_key": rb"xai-(?<![\w-]xai-)[A-Za-z0-9]{40,}+",
        # A word such as sk-learn-… has neither capitals nor figures.
        "sk_key": rb"sk-(?<![\w-]sk-)(?=[a-z_-]*+[A-Z0-9])[\w-]{20,}+",
        "bearer": rb"(?i:bearer)(?<![\w-].{6})[ \t]{1,4}(?=[A-Za-z._~+/=-]*+[0-9])(?P<token>[\w.~+/=-]{16,}+)",
    }.items()
}
"""Shapes of other people's secrets, the most particular first: a place is given to the first that claims it."""

_NEEDS: dict[str, bytes] = {
    "private_key": b"-----begin",
    "jwt": b"eyj",
    "anthropic_key": b"sk-ant-",
    "openai_key": b"sk-",
    "openrouter_key": b"sk-or-v1-",
    "google_key": b"aiza",
    "google_token": b"ya29.",
    "aws_key": b"ia",
    "relay_service_key": b"cr_",
    "github_token": b"gh",
    "github_pat": b"github_pat_",
    "groq_key": b"gsk_",
    "xai_key": b"xai-",
    "sk_key": b"sk-",
    "bearer": b"bearer",
}
"""What each of them cannot do without, in small letters."""


def possible(text: bytes) -> list[str]:
    """Kinds that can stand in a text at all, which is in small letters and may have lost its white space: looking for a
    few words costs a twentieth of looking for the shapes."""
    return [kind for kind, need in _NEEDS.items() if need in text]


def found_in(view: View, taken: bytearray, kinds: Iterable[str]) -> list[tuple[list[Span], str]]:
    """Secret shapes in one view, except where an earlier view or a more particular shape has claimed the place."""
    found = []
    for kind in kinds:
        pattern = SHAPES[kind]
        for match in pattern.finditer(view.data):
            group = "token" if "token" in pattern.groupindex else 0
            spans = view.origin(*match.span(group))
            if any(taken.find(1, low, high) >= 0 for low, high in spans):
                continue
            for low, high in spans:
                taken[low:high] = b"\1" * (high - low)
            found.append((spans, f"{kind}:{hashlib.sha256(match[group]).hexdigest()[:8]}"))
    return found
