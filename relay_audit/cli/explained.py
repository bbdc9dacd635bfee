"""`explain`: what lies under one finding, from the plan over its price and approval to the answer, and what rests on it."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import Annotated, Any

import typer

from relay_audit.cli import options
from relay_audit.cli.console import emit, language, readable, say
from relay_audit.cli.opening import opened
from relay_audit.explanation import Explanation, Link, explain
from relay_audit.judgement import Judgement, judge
from relay_audit.library import archived_library
from relay_audit.replay import replay
from relay_audit.report.as_json import finding_json
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.side_by_side import stamp
from relay_audit.report.untrusted import show
from relay_audit.words import LANGS, Lang

ROOM = 7_600
"""Bytes of JSON without being asked for all."""
SHOWN = 6
"""Exchanges shown on a screen, likewise."""
SHORT = (
    "id",
    "code",
    "check",
    "outcome",
    "severity",
    "impact",
    "confidence",
    "evidence_level",
    "basis",
    "params",
    "texts",
)
ROW = (
    "exchange",
    "step",
    "side",
    "sent_at",
    "probe",
    "status",
    "delivery",
    "billed",
    "counted",
    "counted_by",
    "charge",
)


def explain_finding(
    run: options.RunId,
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="Its id: F003.")],
    every: Annotated[bool, typer.Option("--all", help="Every exchange, whole.")] = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """The chain of evidence under one finding, from the plan to the answer."""
    with opened(run) as store:
        library = archived_library(replay(store))
        judgement = judge(store)
        found = explain(store, judgement, library, finding)
    chosen = language(lang, os.environ)
    if json:
        whole = _explained(found, judgement, chosen)
        emit(whole if every else _fitted(whole, found))
    else:
        say("\n".join(_told(found, judgement, readable(chosen), every=every)), sys.stdout)


def _fitted(whole: dict[str, Any], found: Explanation) -> dict[str, Any]:
    """The same within what one command may put on stdout unasked: the finding in short, and of what it rests on as much
    as fits, the relay's own answers first. The probe's question is said once."""
    rows = whole["rests_on"]
    asked = {row["probe"]: row["question"] for row in rows if row["probe"]}
    told = {name: whole["finding"][name] for name in SHORT if name in whole["finding"]}
    short = {
        **whole, "finding": told, "questions": asked, "rests_on": [], "rests_on_total": len(rows),
        "all_cmd": f"relay-audit explain {whole['run_id']} {found.finding.id} --all --json",
    }  # fmt: skip
    room = ROOM - len(dumps(short, ensure_ascii=True))
    for row in sorted(rows, key=lambda row: (row["side"] != "relay", row["billed"] is None)):
        line = {name: row[name] for name in ROW if row[name] not in (None, "", [])}
        room -= len(dumps(line, ensure_ascii=True)) + 2
        if room < 0:
            break
        short["rests_on"].append(line)
    return short


def _explained(found: Explanation, judgement: Judgement, lang: Lang) -> dict[str, Any]:
    currency = judgement.evidence.quote.currency if judgement.evidence.quote else "USD"
    return {
        "run_id": judgement.evidence.run_id,
        "finding": finding_json(found.finding, currency, Catalogue.load(lang)),
        "rests_on": [_link_row(link) for link in found.links],
        "approval": dict(found.approval.payload) if found.approval else None,
        "verdict_rule": found.rule,
        "knowledge": [
            {
                "table": table,
                "id": row.id,
                "observed": row.observed.isoformat(),
                "source": row.source,
                "level": row.level,
            }
            for table, row in found.knowledge
        ],
        "evidence_head": found.head,
    }


def _link_row(link: Link) -> dict[str, Any]:
    exchange = link.exchange
    return {
        "exchange": exchange.id, "step": exchange.step, "side": exchange.side, "sent_at": stamp(exchange.sent_at),
        "probe": link.probe.id if link.probe else "",
        "question": {lang: link.probe.question.in_(lang) for lang in LANGS} if link.probe else {},
        "quoted_at_most": str(link.price.at_most) if link.price else "",
        "intent": link.intent.seq if link.intent else None,
        "outcome": {"seq": link.outcome.seq, "hash": link.outcome.hash, "blob": link.outcome.payload_ref} if link.outcome else None,
        "request_sha256": exchange.request.body_sha256, "status": exchange.status, "delivery": exchange.delivery,
        "billed": link.billed, "counted": link.counted, "counted_by": list(link.counted_by),
        "charge": link.charge, "charge_basis": link.charge_basis,
        "connection": exchange.connection.model_dump(mode="json"),
    }  # fmt: skip


def _told(found: Explanation, judgement: Judgement, lang: Lang, *, every: bool) -> list[str]:
    words = Catalogue.load(lang)
    evidence, item = judgement.evidence, found.finding
    phrases = Phrases(words, evidence.quote.currency if evidence.quote else "USD")
    texts = phrases.finding(item)
    lines = [
        f"{item.id} {words.text(f'severity.{item.severity}')}  {texts.title}",
        texts.claim,
        texts.means,
        texts.other,
        "",
    ]
    lines += [words.text("explain.rests_on", n=str(len(found.links)))]
    first = sorted(found.links, key=lambda link: (link.exchange.side != "relay", link.billed is None))
    shown = found.links if every else tuple(first[:SHOWN])
    for link in shown:
        lines += _link_lines(link, found, phrases, words)
    if len(shown) < len(found.links):
        command = f"relay-audit explain {evidence.run_id} {item.id} --all"
        lines.append(words.text("explain.more", n=str(len(found.links) - len(shown)), command=command))
    lines += ["", words.text("explain.rule", rule=found.rule) if found.rule else words.text("explain.no_rule")]
    lines += [
        words.text("explain.known", id=row.id, table=table, date=row.observed.isoformat(), source=row.source)
        for table, row in found.knowledge
    ]
    for reply in (r for r in evidence.replies if r.finding == item.id):
        stance = words.text(f"reply.{reply.stance}")
        lines.append(words.text("explain.reply", stance=stance, text=show(reply.untrusted_text)))
    lines += [words.text("explain.withdrawn", run=w.run) for w in evidence.withdrawn if w.finding == item.id]
    return [*lines, words.text("explain.head", head=found.head or "-")]


def _link_lines(link: Link, found: Explanation, phrases: Phrases, words: Catalogue) -> list[str]:
    exchange = link.exchange
    state = exchange.status if exchange.status is not None else phrases.word(exchange.failure or exchange.delivery)
    lines = [
        f"{exchange.id}  {stamp(exchange.sent_at)} UTC  {words.text('report.' + exchange.side)}  {exchange.step}  {state}"
    ]
    if link.probe:
        lines.append(words.text("explain.asked_by", probe=link.probe.id, question=link.probe.question.in_(words.lang)))
    if link.price and found.approval:
        given = found.approval.payload.get("approval") or {}
        lines.append(words.text("explain.quoted", at_most=phrases.amount(link.price.at_most),
                                channel=phrases.word(str(given.get("channel", ""))),
                                time=stamp(found.approval.ts), seq=str(found.approval.seq)))  # fmt: skip
    elif link.intent is None:
        lines.append(words.text("explain.free"))
    if link.intent:
        lines.append(words.text("explain.sent", seq=str(link.intent.seq)))
    if link.outcome:
        key = "explain.withheld" if exchange.failure == "withheld" else "explain.recorded"
        params = {"seq": str(link.outcome.seq), "hash": link.outcome.hash[:16], "sha": link.outcome.payload_ref[:16]}
        lines.append(words.text(key, **{n: v for n, v in params.items() if n in words.placeholders(key)}))
    if link.billed is not None and link.counted is not None:
        lines.append(words.text("explain.counted", billed=f"{link.billed:,}", counted=f"{link.counted:,}",
                                by=", ".join(link.counted_by), difference=f"{link.billed - link.counted:+,}"))  # fmt: skip
    elif link.billed is not None:
        lines.append(words.text("explain.billed", billed=f"{link.billed:,}"))
    wire = exchange.connection
    if wire.leaf_sha256:
        lines.append(
            words.text("explain.connection", address=wire.address, tls=wire.tls_version, leaf=wire.leaf_sha256)
        )
    return [lines[0], *(f"    {line}" for line in lines[1:])]
