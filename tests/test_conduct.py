"""What is never sent, proved from the plans of every shipped pack and from a whole audit as a relay sees it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from relay_audit.audit import load_library
from relay_audit.plan import Plan, Step, make_plan
from relay_audit.question import Question
from relay_audit.relays.dashboard import SUBSCRIPTION, USAGE
from relay_audit.relays.new_api import BALANCE
from relay_audit.relays.panel import PRICING, STATUS
from relay_audit.target import Extra
from relay_audit.video_plan import make_video_plan, routes_for, tiers_wanted
from relay_audit.wording import Wording
from tests.staged import Seen, staged

pytestmark = pytest.mark.xdist_group("conduct")  # five hundred plans: made once, by one worker
LIBRARY = load_library()
SEEDS = (1, 2, 3)
SOFTWARE = ("unknown", *sorted({row.name for row in LIBRARY.knowledge.software}))
GENERATION_ROUTES = re.compile(
    r"(?:/kling)?/v1(?:beta)?/[A-Za-z0-9._~/:-]+|/api/v\d/[A-Za-z0-9._~/:-]+|/[a-z0-9_/-]*/(?:chat/completions|messages|responses)"
)
ADMINISTRATION = re.compile(
    r"/api/(?:user|channel|token(?!$)|option|redemption|group|setup|verification|admin)|/admin|/manage|/dashboard|/tasks?/",
    re.IGNORECASE,
)
HOUSEKEEPING = re.compile(
    r"\bwarm-?up\b|SUGGESTION MODE|isNewTopic|conversation title|write a 5-10 word title|Files modified by user",
    re.IGNORECASE,
)
CLIENTS = re.compile(
    r"claude-cli|claude[ -]code|codex|cursor|cline|roo-?code|opencode|x-app|anthropic-client", re.IGNORECASE
)
HARM = re.compile(
    r"\b(?:bomb|weapon|explosive|suicide|kill|malware|ransomware|phishing|poison|narcotic|hack(?:er|ing)?|porn|terroris[mt]|jailbreak)\b"
    r"|炸弹|武器|自杀|杀人|毒品|木马|病毒|钓鱼|色情|恐怖|越狱|法轮|赌博",
    re.IGNORECASE,
)
KEYS = re.compile(r"sk-|cr_[A-Za-z0-9]{8}|AIza|AKIA|bearer|api[_-]?key|authorization", re.IGNORECASE)
FREE_PAGES = {
    "/api/status", "/api/pricing", "/api/usage/token/", "/api/log/token", "/v1/dashboard/billing/usage",
    "/v1/dashboard/billing/subscription",
}  # fmt: skip
MOST_PAID, MOST_FREE = 100, 20


@cache
def plans() -> list[Plan]:
    made: list[Plan] = []
    for dialect, pack in LIBRARY.packs.dialects.items():
        known = LIBRARY.knowledge.models
        wanted = [m for m in known if m.name.startswith("claude") or (dialect in m.dialects and m.refuses)]
        wanted = [m for m in wanted if pack.claude_like or dialect in m.dialects]
        for model in [*{(row.family, str(row.refuses)): row for row in wanted}.values(), None]:
            for profile in ("quick", "standard", "thorough"):
                for counter in (True, False) if pack.counter else (False,):
                    made += [
                        plan(dialect, model, profile, counter, software, seed)
                        for software in ("unknown", "new-api")
                        for seed in SEEDS
                    ]
    return made


def plan(dialect: str, model: Any, profile: str, counter: bool, software: str, seed: int) -> Plan:
    name = model.name if model else "some-model"
    question = Question(
        model=name,
        official_model=name,
        dialect=dialect,
        profile=profile,
        checks=(),
        software=software,
        also=get_args(Extra),
        counter=counter,
        has_baseline=not counter,
        family=model.family if model else "",
        official=True,
        max_output=model.max_output if model else 8192,
        next_output=2 * model.max_output if model and model.max_output else 16_384,
        refuses=model.refuses if model else {},
    )
    wording = Wording(LIBRARY.packs.wordlists, seed, "Reply with the single word OK.")
    pack = LIBRARY.packs.pack(dialect)
    if pack.video is not None:
        ways, tiers = routes_for(pack, LIBRARY.packs.probes), tiers_wanted((), pack.video)
        return make_video_plan(question, pack, ways[seed % len(ways)], tiers, wording, seed)
    return make_plan(question, LIBRARY.packs.pack(dialect), LIBRARY.packs.probes, wording, seed)


@cache
def steps() -> list[Step]:
    return [step for plan in plans() for step in plan.steps]


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *[text for item in value.values() for text in texts(item)]]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return []


@cache
def all_texts() -> list[str]:
    return sorted({text for step in steps() for text in texts(step.body)})


def test_every_shipped_pack_is_looked_at():
    assert {plan.dialect for plan in plans()} == set(LIBRARY.packs.dialects)
    assert {step.probe for step in steps()} == {probe.id for probe in LIBRARY.packs.probes}
    assert len(all_texts()) > 100


def test_no_request_asks_for_one_token():
    """Relays answer `max_tokens: 1` themselves, as the warm-up of a client."""
    for step in steps():
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"):
            assert step.body.get(name) != 1, step.id


def test_nothing_sounds_like_a_clients_housekeeping():
    assert [text for text in all_texts() if HOUSEKEEPING.search(text)] == []


def test_nobody_elses_identity_is_borrowed():
    assert [text for text in all_texts() if CLIENTS.search(text)] == []
    headers = {(name.lower(), value) for step in steps() for name, value in step.headers.items()}
    headers |= {
        (name.lower(), value) for pack in LIBRARY.packs.dialects.values() for name, value in pack.headers.items()
    }
    assert not {name for name, _ in headers} & {"user-agent", "x-app", "x-stainless-lang"}
    assert [value for _, value in headers if CLIENTS.search(value)] == []


def test_no_route_but_those_of_generation_and_counting():
    for step in steps():
        assert not ADMINISTRATION.search(step.path), step.path
        assert GENERATION_ROUTES.fullmatch(step.path.split("?")[0]), step.path
        assert step.side == "official" or step.cost == "may_charge", step.id


def test_no_key_and_no_form_of_one_is_in_a_path_or_body():
    for text in all_texts():
        assert not KEYS.search(text), text
    for path in {step.path for step in steps()}:
        assert not KEYS.search(path)
        assert "?" not in path


def test_a_key_that_is_sent_to_be_refused_is_made_up_and_goes_where_it_costs_nothing():
    for step in steps():
        if step.key != "own":
            assert step.refusal, step.id


def test_texts_are_harmless():
    assert [text for text in all_texts() if HARM.search(text)] == []
    words = LIBRARY.packs.wordlists
    lists = json.dumps(words.model_dump(mode="json"), ensure_ascii=False)
    assert HARM.search(lists) is None
    assert CLIENTS.search(lists) is None
    assert HOUSEKEEPING.search(lists) is None


def test_everything_that_may_charge_is_bounded():
    for step in steps():
        if step.cost == "may_charge":
            assert step.bound is not None, step.id
            assert step.bound.output_tokens >= step.bound.expected_output_tokens
    for made in plans():
        assert len(made.chargeable()) <= MOST_PAID, (made.dialect, made.profile)
        assert len({step.id for step in made.steps}) == len(made.steps)


@pytest.mark.parametrize("name", ["claude-cli/2.1 (external, cli)", "SUGGESTION MODE: on", "Warmup"])
def test_the_lists_would_catch_it(name):
    assert CLIENTS.search(name) or HOUSEKEEPING.search(name)


# As the relay sees it


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Seen], str, str]:
    stage = staged("honest", Path(tmp_path_factory.mktemp("watched")), audit={"profile": "quick"})
    stage.whole()
    stage.recorder.store.close()
    return stage.seen, stage.world.relay_key, stage.world.official_key


def test_one_paid_request_at_a_time_and_nothing_beside_it(watched):
    seen, _, _ = watched
    relay = [s for s in seen if s.side == "relay"]
    assert any(s.method == "POST" for s in relay)
    assert max(s.beside for s in relay if s.method == "POST") == 0
    together = {s.path for s in relay if s.beside}
    assert together <= {STATUS, PRICING, BALANCE, USAGE, SUBSCRIPTION}
    assert max(s.beside for s in relay) < 3


def test_each_key_goes_to_its_own_side_in_its_own_header_and_unchanged(watched):
    seen, relay_key, official_key = watched
    for s in seen:
        own = relay_key if s.side == "relay" else official_key
        other = official_key if s.side == "relay" else relay_key
        rest = {n: v for n, v in s.headers.items() if n not in ("x-api-key", "authorization", "x-goog-api-key")}
        everything = json.dumps([s.path, s.body, rest])
        assert other not in json.dumps([s.path, s.body, s.headers])
        assert own not in everything
        assert own[-12:] not in everything
        sent = [s.headers[n] for n in ("x-api-key", "authorization") if n in s.headers]
        assert sent in ([own], [f"Bearer {own}"], [])
        if not sent:
            assert s.method == "GET"


def test_only_public_pages_the_model_list_and_generation_are_asked_for(watched):
    seen, _, _ = watched
    asked = {s.path for s in seen if s.side == "relay" and s.method == "GET"}
    assert asked <= FREE_PAGES | {"/v1/models"}
    assert {s.path for s in seen if s.side == "relay" and s.method == "POST"} == {"/v1/messages"}
    assert {s.path for s in seen if s.side == "official"} <= {"/v1/messages/count_tokens", "/v1/messages"}


def test_requests_of_an_audit_are_few(watched):
    seen, _, _ = watched
    paid = [s for s in seen if s.side == "relay" and s.method == "POST"]
    free = [s for s in seen if s.side == "relay" and s.method == "GET"]
    assert 0 < len(paid) <= MOST_PAID
    assert 0 < len(free) <= MOST_FREE
    assert sum(s.path in ("/api/log/token", "/api/usage/token/") for s in free) <= 8


def test_the_user_agent_is_plain(watched):
    seen, _, _ = watched
    agents = {s.headers["user-agent"] for s in seen}
    assert len(agents) == 1
    assert re.fullmatch(r"python-httpx/[\d.]+", agents.pop())
