"""What real relay programs taught: marks that show late, stored answers, a word of their own that agrees."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from email.utils import format_datetime
from pathlib import Path

import pytest

from relay_audit.catalog import load_knowledge
from relay_audit.exchange import Exchange, Request, Response
from relay_audit.ids import read_id
from relay_audit.lab import SCENARIOS, ids, serve
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from tests.audits import in_process, over_http

KNOWLEDGE = load_knowledge()
NOON = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
HUBRELAY = ("Server", "relayhub/0.2 Python/3.11.7")


def fault_of_an_id(age_s: float, *headers: tuple[str, str]) -> str:
    """What is wrong with a message id that was minted so long before its answer."""
    text = ids.minted("msg", NOON.timestamp() - age_s, random.Random(1))
    answer = Response(status=200, headers=(("Date", format_datetime(NOON, usegmt=True)), *headers))
    exchange = Exchange(id="X0001", step="s", side="relay", sent_at=NOON, elapsed_ms=0, delivery="answered",
                        request=Request(method="POST", path="/v1/messages"), response=answer)  # fmt: skip
    return read_id("message_id", text, exchange, KNOWLEDGE, NOON.date()).fault


def test_a_stored_answer_of_software_that_stores_answers_has_an_old_id() -> None:
    assert fault_of_an_id(250, HUBRELAY) == ""
    assert fault_of_an_id(250) == "outside_window"
    assert fault_of_an_id(250, ("Server", "nginx")) == "outside_window"
    assert fault_of_an_id(400, HUBRELAY) == "outside_window"
    assert fault_of_an_id(-60, HUBRELAY) == "outside_window", "a store does not explain an id from the future"


def test_software_that_marks_only_its_answers_is_named_by_a_page_of_its_own(tmp_path: Path) -> None:
    """Its model list and its refusals of unknown pages carry no mark; where that page is closed, the answers name it
    (`tests/test_detect.py`)."""
    audited = in_process("honest_litellm", 2, tmp_path)
    assert audited.judgement is not None
    site = audited.judgement.evidence.site
    assert (site.software, site.software_signals) == ("litellm", ("litellm:page",))
    plain = in_process("honest_no_software", 2, tmp_path).judgement
    assert plain is not None
    assert plain.evidence.site.software == "unknown"


@pytest.mark.parametrize("lang", ["en", pytest.param("zh-CN", marks=pytest.mark.deep)])
def test_a_header_that_names_the_right_model_is_not_told_as_a_difference(lang: str, tmp_path: Path) -> None:
    phrases = Phrases(Catalogue.load(lang))  # type: ignore[arg-type]
    same = in_process("honest_litellm", 2, tmp_path).finding("model.relay_header_admits")
    other = in_process("litellm_swap", 2, tmp_path).finding("model.relay_header_admits")
    assert (same.outcome, same.severity) == ("match", "info")
    told, accused = phrases.finding(same), phrases.finding(other)
    difference = {"en": "another model", "zh-CN": "另一个模型"}[lang]
    assert difference in accused.means
    assert difference not in told.title + told.claim + told.means
    assert "claude-sonnet-5-5" in told.claim


def test_both_languages_tell_the_same_codes_in_agreement() -> None:
    """Each has all the parts of the code it stands in for, and no parameter that the code lacks."""
    english, chinese = (Catalogue.load(lang) for lang in ("en", "zh-CN"))
    keys = {key for key in english.names() if key.startswith("agreeing.")}
    assert keys == {key for key in chinese.names() if key.startswith("agreeing.")}
    codes = {key.removeprefix("agreeing.").rsplit(".", 1)[0] for key in keys}
    parts = {key.rsplit(".", 1)[1] for key in keys}
    assert len(codes) >= 3
    assert keys == {f"agreeing.{code}.{part}" for code in codes for part in parts}
    for key in keys:
        stands_for = "finding." + key.removeprefix("agreeing.")
        for catalogue in (english, chinese):
            params = catalogue.placeholders(stands_for.rsplit(".", 1)[0] + ".claim")
            assert catalogue.placeholders(key) <= params


@pytest.mark.parametrize(
    ("knob", "severity"), [pytest.param({}, "low", marks=pytest.mark.deep), ({"generation": "claude-4-5"}, "info")]
)
def test_the_region_hint_weighs_nothing_where_another_tokenizer_shows(
    knob: dict, severity: str, tmp_path: Path
) -> None:
    """The hint compares with what the model that was asked for would say; an older one says it by itself."""
    row = SCENARIOS["swapped_tokenizer"]
    knobs = replace(row.knobs, **{"generation": None, "geo": "not_available", **knob})
    with serve(replace(row, knobs=knobs), seed=1, pace=0) as served:
        audited = over_http(served, tmp_path)
    assert audited.finding("channel.subscription_pool_hint").severity == severity
    assert audited.codes == ({"tokens.tokenizer_differs"} if knob else {"channel.subscription_pool_hint"})
