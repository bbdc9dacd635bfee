"""A vendor nobody has heard of, brought by two folders and no Python: its own ids, usage names, refusals, prices,
limits and counter. The audit gives checks 1, 2 and the bill."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_audit import audit
from relay_audit.audit import Judgement
from relay_audit.connect import Permissions, connect
from relay_audit.errors import TargetError
from relay_audit.target import target_from
from relay_audit.workspace import Workspace
from tests.audits import OFFICIAL, RELAY, TestClock

PACK = """
dialect = "lumen"
vendor = "Lumen"
title = { en = "Lumen Talk", "zh-CN" = "Lumen 对话接口" }
official_hosts = ["api.lumen.example"]
auth_styles = ["x-goog-api-key", "bearer"]
headers = { lumen-version = "7" }
models_path = "/v7/models"
models_rows = "/stock"
models_name = "/label"
output_limit = "/limits/out"
error_kind = "/fault/kind"

[counter]
path = "/v7/measure/$model"
keep = ["model", "talk"]
inside = "ask"
model_as = "models/$model"
read = "/units"
source = "the vendor's own description"
observed = "2026-11-01"

[usage]
input = ["/spent/in"]
input_includes_cache = true
automatic_cache = true
cache_read = "/spent/kept"
output = "/spent/out"
output_also = ["/spent/mused"]

[answer]
id = "/ticket"
model = "/label"
content = "/said"

[input_estimate_per_unit]
ascii_char = 0.3
cjk_char = 1.0
frame = 10
"""
BODY = """
[requests.body]
limits = { out = 20 }
talk = [{ by = "you", text = %s }]
"""
BILINGUAL = """
[question]
en = "q"
"zh-CN" = "问"
[motivation]
en = "m"
"zh-CN" = "因"
[caveat]
en = "c"
"zh-CN" = "限"
"""
PARITY = f"""
id = "lumen/parity"
checks = [2, 1]
assess = ["token_parity", "channel", "billing"]
stage = "probe"
paired = true
{BILINGUAL}
[applies]
dialects = ["lumen"]
counter = "present"

[[requests]]
id = "bare"
path = "/v7/talk/$model"
counted = true
matrix = {{ script = ["ascii", "cjk", "code"], units = [8, 28, 64] }}
bound = {{ input_tokens = 10000, output_tokens = 20, expected_output_tokens = 8, surplus_each = 4400 }}
{BODY % '{ generate = "text", script = "$script", units = "$units", closing = "one_word" }'}
"""
INTERCEPT = f"""
id = "lumen/intercept"
checks = [2, 1]
assess = ["token_intercept", "channel", "billing"]
stage = "probe"
paired = false
{BILINGUAL}
[applies]
dialects = ["lumen"]
counter = "absent"

[[requests]]
id = "repeated"
path = "/v7/talk/$model"
matrix = {{ script = ["ascii"], times = [1, 2, 4, 8] }}
bound = {{ input_tokens = 10000, output_tokens = 20, expected_output_tokens = 8, surplus_each = 4400 }}
{BODY % '{ generate = "repeated_line", script = "$script", times = "$times", closing = "one_word" }'}
"""
DATED = """
meaning.en = "m"
meaning."zh-CN" = "义"
observed = 2026-11-01
source = "a test"
term_days = 90
level = "measured"
"""
KNOWLEDGE = f"""
[[ids]]
id = "lumen.ticket"
kind = "message_id"
pattern = 'tk-\\d{{10}}-[0-9a-z]{{20}}'
dialects = ["lumen"]
channels = ["lumen"]
decode = "unix_seconds"
fresh_before_s = 30
fresh_after_s = 5
clock = "/at"
strength = "strong"
{DATED}
[[headers]]
id = "lumen.lamp"
channels = ["lumen"]
all_of = ["x-lumen-lamp"]
strength = "strong"
{DATED}
[[bodies]]
id = "otherhost.stamp"
dialects = ["lumen"]
channels = ["otherhost"]
all_of = ["/other_host"]
strength = "strong"
{DATED}
[[models]]
id = "lumen-9"
name = "lumen-9"
family = "lumen"
{DATED}
[[frames]]
id = "frame.lumen"
models = ["lumen-*"]
at_most = 6
{DATED}
[[prices]]
id = "lumen.9"
models = ["lumen-9"]
input = "3"
output = "9"
{DATED}
"""


@dataclass
class LumenWorld:
    """The vendor and a new-api style relay in front of it, in a few lines."""

    clock: TestClock
    hidden: int = 0
    fresh: bool = True
    ticket: str = "tk"
    headers: dict[str, str] = field(default_factory=lambda: {"x-lumen-lamp": "on"})
    extra: dict[str, Any] = field(default_factory=dict)
    publishes: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    relay_key: str = "lumen-relay-key-0123456789abcdef"
    official_key: str = "lumen-official-key-fedcba98765"

    def count(self, body: dict[str, Any]) -> int:
        text = body["talk"][0]["text"]
        return 4 + len(re.findall(r"[A-Za-z]+|[\u4e00-\u9fff]|[^\sA-Za-z\u4e00-\u9fff]", text)) + text.count("\n")

    def answer(self, side: str, request: httpx.Request) -> httpx.Response:
        self.clock.pass_(0.05)
        path, key = request.url.path, request.headers.get("x-goog-api-key", "")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.asked.append((side, path, request.headers.get("lumen-version", "")))
        body = json.loads(request.content) if request.content else {}
        if side == "official":
            assert key == self.official_key
            assert body["ask"]["model"] == "models/lumen-9"
            assert path == "/v7/measure/lumen-9"
            return httpx.Response(200, json={"units": self.count(body["ask"])})
        if path in ("/api/status", "/api/pricing", "/api/usage/token/", "/api/log/token"):
            return self.panel(path, bearer)
        if key != self.relay_key:
            return httpx.Response(401, json={"fault": {"kind": "key"}})
        if path == "/v7/models":
            return httpx.Response(200, json={"stock": [{"label": "models/lumen-9"}]})
        assert path == "/v7/talk/lumen-9"
        return self.talk(body)

    def panel(self, path: str, bearer: str) -> httpx.Response:
        version = {"x-new-api-version": "v1"}
        ratios = {
            "model_ratio": 1.5,
            "completion_ratio": 3,
            "model_name": "lumen-9",
            "quota_type": 0,
            "enable_groups": ["default"],
        }
        pages: dict[str, Any] = {
            "/api/status": {"success": True, "data": {"quota_per_unit": 500000, "price": 1}},
            "/api/pricing": {
                "success": self.publishes,
                "group_ratio": {"default": 1},
                "data": [ratios] if self.publishes else [],
            },
            "/api/usage/token/": {
                "code": True,
                "data": {"total_used": 0, "total_available": 10**7, "unlimited_quota": False},
            },
            "/api/log/token": {"success": bearer == self.relay_key, "data": list(reversed(self.rows))},
        }
        return httpx.Response(200, json=pages[path], headers=version)

    def talk(self, body: dict[str, Any]) -> httpx.Response:
        now = int(self.clock.unix()) - (0 if self.fresh else 9000)
        billed, number = self.count(body) + self.hidden, len(self.rows)
        request_id = f"2026{number:010d}{number:09d}8268d9d6abcdefgh"
        quota = round((billed + 5 * 3) * 1.5)
        other = {"model_ratio": 1.5, "group_ratio": 1, "completion_ratio": 3, "model_price": -1}
        self.rows.append({
            "created_at": int(self.clock.unix()), "type": 2, "model_name": "lumen-9", "quota": quota,
            "prompt_tokens": billed, "completion_tokens": 5, "request_id": request_id, "other": json.dumps(other),
        })  # fmt: skip
        answer = {
            "ticket": f"{self.ticket}-{now:010d}-{number:020d}", "at": now, "label": "lumen-9", "said": "OK",
            "spent": {"in": billed, "out": 3, "mused": 2}, **self.extra,
        }  # fmt: skip
        return httpx.Response(
            200, json=answer, headers={"x-oneapi-request-id": request_id, "x-new-api-version": "v1", **self.headers}
        )


class Way(httpx.AsyncBaseTransport):
    def __init__(self, world: LumenWorld, side: str) -> None:
        self._world, self._side = world, side

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        answer = self._world.answer(self._side, request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content, request=request)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    packs, known = tmp_path / "packs", tmp_path / "known"
    (packs / "lumen").mkdir(parents=True)
    known.mkdir()
    for name, text in (("pack", PACK), ("parity", PARITY), ("intercept", INTERCEPT)):
        (packs / "lumen" / f"{name}.toml").write_text(text, encoding="utf-8")
    (known / "lumen.toml").write_text(KNOWLEDGE, encoding="utf-8")
    return packs, known


def judged(
    folders: tuple[Path, Path], home: Path, world: LumenWorld, *, official: bool, claim: str = "lumen"
) -> Judgement:
    library = audit.load_library(*folders)
    table: dict[str, Any] = {
        "target": {"name": "line", "model": "lumen-9", "dialect": "lumen", "claim": {"channel": claim}},
        "relay": {"base_url": RELAY, "key_env": "A"},
    }
    if official:
        table["official"] = {"base_url": OFFICIAL, "key_env": "B"}
    target = target_from(table)
    environ = {"A": world.relay_key, "B": world.official_key}
    space = Workspace(home / "audits", home / "state", home / "config")
    ways = connect(target, library.packs.pack("lumen"), library.key_shapes, space, world.clock, environ, Permissions(),
                   lambda *_: None, inner=lambda endpoint: Way(world, endpoint.side))  # fmt: skip
    recorder = audit.begin(target, library, ways, space, world.clock, environ)

    async def whole() -> None:
        quote = await audit.plan_and_quote(recorder, ways, library, None, offline=False, free_only=False)
        audit.approve(recorder, quote.digest, quote.at_most, "test", "flag")
        await audit.execute(recorder, ways, library, space)

    with recorder.store:
        asyncio.run(whole())
        return audit.judge(recorder.store)


def world(**changes: Any) -> LumenWorld:
    return LumenWorld(TestClock(dt.datetime(2026, 11, 30, 3, tzinfo=dt.UTC)), **changes)


@pytest.mark.parametrize("official", [True, False])
def test_an_honest_relay_of_it_passes_checks_1_2_and_the_bill(folders, tmp_path, official):
    lumen = world()
    said = judged(folders, tmp_path, lumen, official=official)
    codes = {f.code for f in said.findings}
    assert {"channel.matches", "tokens.match", "billing.matches"} <= codes
    assert not [f for f in said.findings if f.above_info]
    assert {c.check for c in said.coverage if c.state == "run"} >= {1, 2, 6}
    assert said.evidence.site.model_listed is True
    assert said.evidence.target.auth_style == "x-goog-api-key"
    assert {version for side, path, version in lumen.asked if path.startswith("/v7")} == {"7"}
    line = next(line for line in said.evidence.quote.lines if line.side == "relay")
    assert (line.unit_price.input, line.unit_price.output) == (Decimal(3), Decimal(9))
    assert said.evidence.ledger.total("settled", "relay") == sum(row["quota"] for row in lumen.rows) / Decimal(500_000)


@pytest.mark.parametrize("official", [True, False])
def test_a_hidden_prompt_shows_in_its_own_fields(folders, tmp_path, official):
    said = judged(folders, tmp_path, world(hidden=508), official=official)
    hit = next(f for f in said.findings if f.code == "tokens.constant_surplus")
    assert hit.severity == "high"
    assert (hit.params["surplus"] == 508) if official else (490 <= hit.params["surplus"] <= 508)
    assert {f.code for f in said.findings if f.above_info} == {"tokens.constant_surplus"}


def test_its_ids_are_decoded_by_its_own_rule(folders, tmp_path):
    assert "channel.id_reminted" in {
        f.code for f in judged(folders, tmp_path, world(fresh=False), official=True).findings
    }


def test_another_channel_in_its_answers_is_named(folders, tmp_path):
    lumen = world(ticket="qq", headers={}, extra={"other_host": 1})
    said = judged(folders, tmp_path, lumen, official=True)
    hit = next(f for f in said.findings if f.code == "channel.mismatch")
    assert (hit.params["channel"], hit.severity) == ("otherhost", "low")


def test_without_a_published_price_its_list_price_stands_in(folders, tmp_path):
    said = judged(folders, tmp_path, world(publishes=False), official=True)
    price = next(line.unit_price for line in said.evidence.quote.lines if line.side == "relay")
    assert (price.input, price.assumed) == (Decimal(3), True)


def test_a_claim_nobody_knows_is_refused_before_anything_is_sent(folders, tmp_path):
    lumen = world()
    with pytest.raises(TargetError, match="did you mean lumen"):
        judged(folders, tmp_path, lumen, official=True, claim="lumenn")
    assert lumen.asked == []
