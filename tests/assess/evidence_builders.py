"""Small runs made by hand for the assessors: exchanges in, findings out. All ids are minted here."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any

from relay_audit.catalog import load_knowledge, load_packs
from relay_audit.evidence import Evidence, TargetFacts
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.finding import Finding
from relay_audit.plan import Plan, Step
from relay_audit.probe import Bound
from relay_audit.target import Claim

PACK = load_packs().pack("anthropic")
KNOWLEDGE = load_knowledge()
MODEL = "claude-sonnet-5-5"
START = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
SIZES = (20, 45, 90)
BOUND = Bound(input_tokens=10_000, output_tokens=16, expected_output_tokens=8)
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def at(seconds: float, start: dt.datetime = START) -> dt.datetime:
    return start + dt.timedelta(seconds=seconds)


def http_date(moment: dt.datetime) -> str:
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


def base58(number: int) -> str:
    digits = ""
    for _ in range(22):
        number, rest = divmod(number, 58)
        digits = BASE58[rest] + digits
    return digits


def minted(moment: dt.datetime, salt: int = 1, version: int = 7) -> str:
    """22 base58 characters of a UUID with the millisecond of `moment`."""
    milliseconds = round(moment.timestamp() * 1000)
    return base58((milliseconds << 80) | (version << 76) | (0b10 << 62) | (salt * 7919))


def answered(
    number: int,
    step: str,
    body: Any,
    *,
    moment: dt.datetime,
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (),
    side: str = "relay",
    elapsed_ms: int = 800,
    sent: dict[str, Any] | None = None,
    **more: Any,
) -> Exchange:
    text = body if isinstance(body, str) else json.dumps(body)
    return Exchange(
        id=f"X{number:04}",
        step=step,
        side=side,
        sent_at=moment,
        elapsed_ms=elapsed_ms,
        delivery="answered",
        request=Request(method="POST", path="/v1/messages", body=sent),
        response=Response(status=status, headers=headers, body=text, cut=bool(more.pop("cut", False))),
        **more,
    )


def lost(
    number: int, step: str, *, delivery: str = "unconfirmed", failure: str = "timeout_read", **more: Any
) -> Exchange:
    return Exchange(
        id=f"X{number:04}",
        step=step,
        side="relay",
        sent_at=at(number),
        elapsed_ms=1000,
        delivery=delivery,
        request=Request(method="POST", path="/v1/messages"),
        failure=failure,
        **more,
    )


def step_named(
    name: str, *, request: str = "bare", script: str = "ascii", system: bool = False, stage: str = "probe"
) -> Step:
    body: dict[str, Any] = {"model": MODEL, "max_tokens": 16, "messages": [{"role": "user", "content": name}]}
    if system:
        body["system"] = "be brief"
    return Step(
        id=name,
        probe="anthropic/token_parity",
        request=request,
        side="relay",
        stage=stage,
        cost="may_charge",
        path="/v1/messages",
        body=body,
        bound=BOUND,
        factors={"script": script},
    )


def count_of(step: Step, when: str) -> Step:
    return Step(
        id=f"count.{when}.{step.id}",
        probe=step.probe,
        request=step.request,
        side="official",
        stage=step.stage,
        cost="free",
        path="/v1/messages/count_tokens",
        body={},
        counts=step.id,
        when=when,
    )


def plan_of(steps: list[Step], *, counter: bool = False, checks: tuple[int, ...] = (1, 2, 6), **more: Any) -> Plan:
    return Plan(
        dialect="anthropic",
        model=MODEL,
        official_model=MODEL,
        profile="standard",
        checks=checks,
        seed=1,
        counter=counter,
        steps=tuple(steps),
        **more,
    )


def run_of(
    exchanges: list[Exchange],
    steps: list[Step],
    *,
    claim: str = "anthropic",
    counter: bool = False,
    start: dt.datetime = START,
    model: str = MODEL,
    is_vendor: bool = True,
    plan: Plan | None = None,
    **more: Any,
) -> Evidence:
    facts = TargetFacts(
        name="line",
        model=model,
        official_model=model,
        dialect="anthropic",
        claim=Claim(channel=claim),
        relay_origin="https://relay.example",
        official_is_vendor=is_vendor,
        user_agent="python-httpx/0.28.1",
    )
    return Evidence(
        run_id="run",
        tool_version="0",
        started_at=start,
        status="completed",
        target=facts,
        pack=PACK,
        plan=plan or plan_of(steps, counter=counter),
        exchanges=tuple(exchanges),
        **more,
    )


@dataclass(frozen=True)
class Text:
    """One text of a parity run."""

    official: int
    surplus: int = 0
    script: str = "ascii"
    system: bool = False
    usage: dict[str, Any] = field(default_factory=dict)
    """Fields that replace those of a plain usage."""
    before: int | None = None
    """What the counter said before the sending, where it differs; -1 stands for a refusal."""
    after: int | None = None
    lag_s: int = 5
    """Seconds between the sending and either count."""
    counted_twice: bool = True
    status: int = 200
    cut: bool = False


def twelve(surplus: int = 0, **more: Any) -> list[Text]:
    """Two scripts, with and without a system prompt, three sizes each."""
    return [
        Text(size, surplus, script=script, system=system, **more)
        for system in (False, True)
        for script in ("ascii", "cjk")
        for size in SIZES
    ]


def parity_run(texts: list[Text], *, start: dt.datetime = START, **more: Any) -> Evidence:
    """A run with the vendor's counter before and after every sending."""
    steps: list[Step] = []
    exchanges: list[Exchange] = []
    for place, text in enumerate(texts):
        step = step_named(f"s{place}", script=text.script, system=text.system)
        steps += [step, count_of(step, "before"), count_of(step, "after")]
        sent = at(2 * text.lag_s + 30 * place, start)
        exchanges.append(_counted(len(exchanges) + 1, step, "before", text, at(-text.lag_s, sent)))
        usage = {"input_tokens": text.official + text.surplus, "output_tokens": 4, **text.usage}
        body = {"id": f"msg_{place}", "model": MODEL, "usage": usage}
        exchanges.append(
            answered(len(exchanges) + 1, step.id, body, moment=sent, status=text.status, cut=text.cut, sent=step.body)
        )
        if text.counted_twice:
            exchanges.append(_counted(len(exchanges) + 1, step, "after", text, at(text.lag_s, sent)))
    return run_of(exchanges, steps, counter=True, start=start, **more)


def _counted(number: int, step: Step, when: str, text: Text, moment: dt.datetime) -> Exchange:
    told = text.before if when == "before" else text.after
    told = text.official if told is None else told
    status, body = (529, {"type": "error"}) if told < 0 else (200, {"input_tokens": told})
    return answered(number, f"count.{when}.{step.id}", body, moment=moment, status=status, side="official")


@dataclass(frozen=True)
class Said:
    """One answer as the channel assessor sees it."""

    id: str = ""
    request_id: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    status: int = 200
    body: dict[str, Any] | str | None = None
    elapsed_ms: int = 800
    usage: dict[str, Any] = field(default_factory=dict)


def channel_run(said: list[Said], *, start: dt.datetime = START, claim: str = "anthropic", **more: Any) -> Evidence:
    steps = [step_named(f"s{place}") for place in range(len(said))]
    exchanges = []
    for place, answer in enumerate(said):
        sent = at(10 * place, start)
        dated = ("date", http_date(at(answer.elapsed_ms / 1000, sent)))
        own = (dated, *answer.headers, *((("request-id", answer.request_id),) if answer.request_id else ()))
        body = answer.body if answer.body is not None else _message(answer)
        exchanges.append(
            answered(
                place + 1,
                f"s{place}",
                body,
                moment=sent,
                status=answer.status,
                headers=own,
                elapsed_ms=answer.elapsed_ms,
            )
        )
    return run_of(exchanges, steps, claim=claim, start=start, **more)


def _message(answer: Said) -> dict[str, Any]:
    return {
        "id": answer.id,
        "type": "message",
        "model": MODEL,
        "content": [{"type": "text", "text": "OK"}],
        "usage": {"input_tokens": 18, "output_tokens": 4, **answer.usage},
    }


def vendor_says(place: int, *, start: dt.datetime = START, **more: Any) -> Said:
    """An answer as the vendor's own servers give it at this place of a run."""
    moment = at(10 * place + 0.3, start)
    return Said(f"msg_01{minted(moment, place + 1)}", f"req_01{minted(moment, place + 101)}", **more)


def codes(found: list[Finding] | tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in found]


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, codes(found)
    return found[0]


def said(one: Finding) -> dict[str, Any]:
    """All that an assessor says in a finding; what its code says of itself is left out."""
    return one.model_dump(exclude={"id", "impact", "other_explanations", "refuted_by"}, exclude_defaults=True)
