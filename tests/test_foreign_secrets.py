"""Which shapes of secrets are looked for in a message at all: none may be left out that could stand there."""

from __future__ import annotations

import pytest

from relay_audit.disguise import View, bare
from relay_audit.foreign_secrets import SHAPES, found_in, possible

ONE_OF_EACH = {
    "private_key": b"-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----",
    "jwt": b"eyJhbGciOiJI.eyJzdWIiOiIx.abcdefghijk",
    "anthropic_key": b"sk-ant-api03-abcdefghijklmnop",
    "openai_key": b"sk-proj-abcdefghijklmnop",
    "openrouter_key": b"sk-or-v1-abcdefghijklmnop",
    "google_key": b"AIza" + b"b" * 35,
    "google_token": b"ya29." + b"c" * 24,
    "aws_key": b"ASIAABCDEFGHIJKLMNOP",
    "relay_service_key": b"cr_" + b"d" * 24,
    "github_token": b"ghr_" + b"e" * 30,
    "github_pat": b"github_pat_" + b"f" * 30,
    "groq_key": b"gsk_" + b"g" * 40,
    "xai_key": b"xai-" + b"h" * 40,
    "sk_key": b"sk-Abcdefghijklmnopqrst",
    "bearer": b"BeaRer abcdefghijklmno1",
}


def test_the_shapes_are_asked_for_in_their_order_the_most_particular_first():
    everything = bare(b" ".join(ONE_OF_EACH.values()))
    assert possible(everything) == list(SHAPES) == list(ONE_OF_EACH)


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_what_is_found_is_also_looked_for(kind):
    raw = ONE_OF_EACH[kind]
    kinds = possible(bare(raw))
    [(spans, found)] = found_in(View(raw), bytearray(len(raw)), kinds)
    assert found.partition(":")[0] == kind in kinds
    assert spans


def test_a_text_without_what_they_need_is_looked_through_for_none():
    assert possible(bare(b'{"id":"msg_01","content":[{"type":"text","text":"OK"}]}')) == []
