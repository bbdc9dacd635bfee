"""A vendor against itself: nothing is found, what is seen is written down, and the file serves whoever has no key."""

from __future__ import annotations

import datetime as dt
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay_audit import audit
from relay_audit.audit import Library, conflict, with_baselines
from relay_audit.baseline_file import rows_in, text_of
from relay_audit.bounds import share_interval
from relay_audit.catalog import knowledge_from
from relay_audit.cli.main import app
from relay_audit.errors import PackError, RelayAuditError, TargetError
from relay_audit.keys import guard_same
from relay_audit.lab import Served, serve
from relay_audit.lab import refusals as lab_refusals
from relay_audit.lab import tokenizer as lab_tokenizer
from relay_audit.lab.gpt_scenarios import DIALECTS, Dialect
from relay_audit.lab.models import MODELS
from relay_audit.observed import Observer, generalised
from relay_audit.observed_marks import marks_of, shape_of
from relay_audit.replay import replay
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.phrases import Phrases
from relay_audit.report.provenance import versions
from relay_audit.target import target_from
from relay_audit.trip_wire import armed
from tests.audits import LIBRARY, OFFICIAL, Audited, TestClock, against_itself, in_process

MODEL = "claude-sonnet-5-5"
TODAY = dt.date(2026, 11, 30)
SEEDS_HERE, SEEDS_CI = 1, 100


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@contextmanager
def changed_vendor() -> Iterator[None]:
    """The vendor counts seventeen tokens more for everything and halves its output limit."""
    own = lab_tokenizer.GENERATIONS["claude-5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        patch.setitem(MODELS, MODEL, replace(MODELS[MODEL], max_output=64_000))
        patch.setitem(lab_tokenizer.GENERATIONS, "claude-5", replace(own, template=own.template + 17))
        yield


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The vendor as it is, against itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        return against_itself("honest", 0, tmp_path_factory.mktemp("today"))


@pytest.fixture(scope="module")
def tomorrow(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The vendor as it will be: another limit, more tokens for the same text, all its words and marks new."""
    with changed_vendor():
        return against_itself("official_future", 5, tmp_path_factory.mktemp("tomorrow"))


@pytest.fixture
def borrowed(today: Audited, tmp_path: Path) -> Library:
    """What is known to somebody who took the file from a friend."""
    return with_file(written(today, tmp_path / "friend.toml"))


def seen(audited: Audited, command: str = "calibrate") -> Observer:
    assert audited.judgement is not None
    return Observer(audited.judgement.evidence, LIBRARY.knowledge, command)


def written(audited: Audited, file: Path) -> Path:
    file.write_text(text_of(seen(audited).shareable(), "for review"), encoding="utf-8")
    return file


def with_file(file: Path, day: dt.date = TODAY) -> Library:
    return with_baselines(LIBRARY, file, day)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_vendor_against_itself_gives_nothing(dialect: Dialect, tmp_path: Path) -> None:
    for seed in range(1, 1 + SEEDS_HERE):
        audited = against_itself("honest", seed, tmp_path / str(seed), dialect=dialect)
        assert audited.error is None
        assert audited.codes == set(), f"seed {seed}"
        assert audited.judgement is not None
        assert {f.code for f in audited.judgement.findings} >= {"channel.matches", "params.matches"}


@pytest.mark.seeds
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_vendor_against_itself_a_hundred_times(dialect: Dialect, tmp_path: Path) -> None:
    for seed in range(1000, 1000 + SEEDS_CI):
        audited = against_itself("honest", seed, tmp_path / str(seed), dialect=dialect)
        assert audited.error is None
        assert audited.codes == set(), f"seed {seed}"
    print(f"{dialect}: 0 of {SEEDS_CI}, 95 % upper bound {share_interval(0, SEEDS_CI)[1]:.1%}")  # noqa: T201  the bound is the result


def test_every_probe_of_the_dialect_is_sent_to_both_sides(today: Audited) -> None:
    assert today.judgement is not None
    plan = today.judgement.evidence.plan
    assert plan is not None
    offered = [p for p in LIBRARY.packs.probes if "anthropic" in p.applies.dialects and p.applies.also is None]
    wanted = {p.id for p in offered if "thorough" in p.applies.profiles and p.applies.takes != "sampling"}  # refused
    without_key = {p.id for p in LIBRARY.packs.probes if p.applies.counter == "absent"}
    larger = {"anthropic/model_oversize_next"}  # no model of the vendor's has a larger limit than this one
    assert wanted - without_key - larger <= {step.probe for step in plan.steps if step.side == "relay"}
    paired = {p.id for p in LIBRARY.packs.probes if p.paired}
    asked = [s for s in plan.steps if s.side == "relay" and s.case and not s.again]
    cases = {s.id for s in asked if s.probe in paired}
    assert cases
    assert {s.mirrors for s in plan.steps if s.mirrors} >= cases


def test_what_was_seen_is_dated_and_loads(today: Audited) -> None:
    text = text_of(seen(today).shareable())
    knowledge = knowledge_from({"seen.toml": text})
    rows = (*knowledge.baselines, *knowledge.refusals, *knowledge.limits)
    assert {(row.observed, row.term_days, row.level) for row in rows} == {(TODAY, 180, "measured")}
    assert {row.source for row in rows} == {f"calibrate against 127.0.0.1:7002, relay-audit {audit.__version__}"}
    counts = {row.models: (row.text, row.tokens) for row in knowledge.baselines}
    assert counts[MODEL,] == ("Reply with the single word OK.", 18)
    assert counts["claude-opus-5-5",][1] == 18
    refused = {row.case: row for row in knowledge.refusals}
    assert len(refused) == len(knowledge.refusals) > 30
    canary = refused["temperature_range"]
    assert (canary.status, canary.error_type, canary.names) == (400, "invalid_request_error", "temperature")
    assert refused["made_up_key"].status == 401
    assert refused["unknown_model"].status == 404
    assert refused["inference_geo_us"].reads == {"/usage/inference_geo": "us"}
    assert [(row.cap, row.models) for row in knowledge.limits] == [(128_000, (MODEL,))]
    assert rows_in("seen.toml", text) == {k: v for k, v in seen(today).shareable().items() if v}


def test_the_order_of_two_faults_is_stored(today: Audited) -> None:
    """What is reported after the limit may stand behind it as a trip-wire; in the lab those are the model's rules."""
    rows = seen(today).shareable()["refusals"]
    first = {row.case.removeprefix("max_tokens_above_limit_with_"): row.names for row in rows if "_with_" in row.case}
    assert first["temperature_range"] == "temperature"
    assert first["thinking_enabled"] == first["prefill"] == "max_tokens"


def test_a_measured_order_puts_a_trip_wire_behind_the_oversized_limit(
    borrowed: Library, today: Audited, tmp_path: Path
) -> None:
    """A hop that lowers the limit is refused all the same: nothing is generated, and it is a sign. An honest one is not
    touched by it, and without a measured order the body stays as it was."""
    honest = in_process("honest", 8, tmp_path / "a", checks=[3, 4], library=borrowed)
    assert honest.judgement is not None
    evidence = honest.judgement.evidence
    assert evidence.plan is not None
    sides = [step for step in evidence.plan.steps if step.case == "max_tokens_above_limit"]
    assert {step.side for step in sides} == {"relay", "official"}
    [wire] = {step.trip_wire for step in sides}
    assert wire in {"thinking_disabled", "sampling_half", "prefill", "forced_tool", "thinking_enabled"}
    assert {step.body["max_tokens"] for step in sides} == {128_001}
    assert len({json.dumps(step.body, sort_keys=True) for step in sides}) == 1
    assert honest.codes == set()
    assert "error_text" in honest.finding("model.matches").params["roads"]

    hop = in_process("limit_lowered", 8, tmp_path / "b", checks=[3, 4], library=borrowed)
    assert hop.judgement is not None
    oversize = next(step for step in sides if step.side == "relay")
    answer = hop.judgement.evidence.of_step(oversize.id)
    assert answer is not None
    assert answer.status == 400
    clamped = [f for f in hop.judgement.findings if f.code == "params.clamped" and oversize.case in f.params["cases"]]
    assert [f.severity for f in clamped] == ["low"]
    assert "error_text" not in hop.finding("model.matches").params["roads"]

    assert today.judgement is not None
    plain = today.judgement.evidence.plan
    assert plain is not None
    assert armed(plain, evidence.pack, LIBRARY.knowledge, TODAY) is plain, "no order is shipped"
    stale = TODAY + dt.timedelta(days=200)
    assert armed(plain, evidence.pack, borrowed.knowledge, stale) is plain, "an order past its term is none"


def test_marks_are_seen_again_or_new(today: Audited, tomorrow: Audited) -> None:
    marks = marks_of(seen(today))
    again = {row.id: row for row in marks["ids"]}
    assert again["anthropic.message_id.20261130"].observed == TODAY
    assert {row.platform for row in marks["signatures"]} == {"absent"}
    assert "anthropic.ratelimit.20261130" in {row.id for row in marks["headers"]}
    loaded = knowledge_from({"marks.toml": text_of(marks)})
    assert (len(loaded.ids), len(loaded.headers)) == (len(marks["ids"]), len(marks["headers"]))
    new = marks_of(seen(tomorrow))
    patterns = {row.kind: row.pattern for row in new["ids"]}
    assert patterns["message_id"].startswith("msg_[")
    assert "signatures" not in new


def test_a_vendor_that_has_changed_is_no_finding_and_the_new_values_are_written(tomorrow: Audited) -> None:
    """Another limit, more tokens for the same text, re-worded refusals: official against itself stays silent."""
    assert tomorrow.error is None
    assert tomorrow.codes == set()
    rows = seen(tomorrow).shareable()
    assert {row.models[0]: row.tokens for row in rows["baselines"]} == {MODEL: 35, "claude-opus-5-5": 35}
    assert [row.cap for row in rows["limits"]] == [64_000]
    oversize = next(row for row in rows["refusals"] if row.case == "max_tokens_above_limit")
    assert oversize.message.startswith("Your request was not accepted: max_tokens: 128001 > 64000")


@pytest.mark.parametrize("scenario", ["honest", "hidden_508", "honest_no_software"])
def test_the_file_stands_in_for_the_shipped_baseline(scenario: str, borrowed: Library, tmp_path: Path) -> None:
    """A user without a key takes it from a friend: same findings, same verdict."""
    own = in_process(scenario, 6, tmp_path / "a", official=False)
    lent = in_process(scenario, 6, tmp_path / "b", official=False, library=borrowed)
    assert own.judgement is not None
    assert lent.judgement is not None
    assert lent.codes == own.codes
    assert lent.judgement.verdict.verdict == own.judgement.verdict.verdict
    if scenario == "hidden_508":
        assert lent.finding("tokens.constant_surplus").params["surplus"] == 508


def test_the_file_serves_where_the_shipped_baseline_is_out_of_date(tomorrow: Audited, tmp_path: Path) -> None:
    library = with_file(written(tomorrow, tmp_path / "friend.toml"))
    with changed_vendor():
        plain = in_process("honest_template_4", 7, tmp_path / "a", official=False)
        lent = in_process("honest_template_4", 7, tmp_path / "b", official=False, library=library)
        hit = in_process("hidden_508", 7, tmp_path / "c", official=False, library=library)
    assert "tokens.inconclusive_offset" in plain.codes
    assert lent.codes == set()
    assert hit.codes == {"tokens.constant_surplus"}
    assert hit.finding("tokens.constant_surplus").params["official"] == 35


def test_the_file_travels_with_the_run_and_names_its_source(borrowed: Library, tmp_path: Path) -> None:
    lent = in_process("honest", 8, tmp_path, official=False, library=borrowed, checks=(2,), profile="quick")
    assert lent.judgement is not None
    source = f"calibrate against 127.0.0.1:7002, relay-audit {audit.__version__} (2026-11-30)"
    assert lent.judgement.evidence.target.baseline_sources == (source,)
    assert lent.judgement.knowledge_digest == borrowed.digest != LIBRARY.digest
    for lang in ("en", "zh-CN"):
        words = Catalogue.load(lang)
        facts = versions(lent.judgement.evidence, borrowed.knowledge, Phrases(words, "USD"), words.text, "")
        assert any(source in fact.value for fact in facts)


@pytest.mark.parametrize(("days", "accuses", "sent"), [(100, True, True), (200, False, True), (400, False, False)])
def test_a_borrowed_baseline_grows_old(days: int, accuses: bool, sent: bool, today: Audited, tmp_path: Path) -> None:
    """180 days, then one step weaker, then nothing at all. The shipped one is of October and younger where it is."""
    row = seen(today).shareable()["baselines"][0]
    day = dt.datetime(2028, 6, 1, tzinfo=dt.UTC)
    old = row.model_copy(update={"observed": day.date() - dt.timedelta(days=days)})
    (tmp_path / "old.toml").write_text(text_of({"baselines": (old,)}), encoding="utf-8")
    library = with_file(tmp_path / "old.toml", day.date())
    hit = in_process("hidden_508", 9, tmp_path, official=False, library=library, clock=TestClock(day), checks=(2,))
    assert hit.judgement is not None
    assert any(f.accusation and f.code == "tokens.constant_surplus" for f in hit.judgement.findings) is accuses
    plan = hit.judgement.evidence.plan
    assert plan is not None
    assert any(step.request == "published" for step in plan.steps) is sent


def test_the_later_observation_wins(today: Audited) -> None:
    """A vendor that now takes what it refused: the case is no longer held against anybody."""
    rows = seen(today).shareable()["refusals"]
    row = next(r for r in rows if r.case == "service_tier_bogus")
    taken = row.model_copy(update={"status": 200, "error_type": "", "message": ""})
    knowledge = LIBRARY.knowledge
    asked = ("anthropic", "service_tier_bogus", MODEL, TODAY)
    assert knowledge.refusal_of(*asked, refused=True) is not None
    newer = knowledge.model_copy(update={"refusals": (*knowledge.refusals, taken)})
    assert newer.refusal_of(*asked, refused=True) is None
    assert newer.refusal_of(*asked, refused=False) == taken
    older = taken.model_copy(update={"observed": dt.date(2025, 1, 1)})
    still = knowledge.model_copy(update={"refusals": (*knowledge.refusals, older)})
    assert still.refusal_of(*asked, refused=True) == knowledge.refusal_of(*asked, refused=True)


def test_a_borrowed_limit_is_the_one_that_is_exceeded(tomorrow: Audited) -> None:
    rows = seen(tomorrow).shareable()
    known = LIBRARY.knowledge.model_copy(update={"limits": (*LIBRARY.knowledge.limits, *rows["limits"])})
    assert LIBRARY.knowledge.max_output_of(MODEL, TODAY) == 128_000
    assert known.max_output_of(MODEL, TODAY) == 64_000
    assert known.max_output_of(MODEL, dt.date(2028, 1, 1)) == 128_000
    assert known.max_output_of("claude-opus-5-5", TODAY) == 128_000


ROW = """
id = "friend.row"
meaning = { en = "m", "zh-CN" = "m" }
observed = 2026-11-29
source = "a friend"
term_days = 180
level = "measured"
"""
COUNT = f'[[baselines]]{ROW}models = ["claude-sonnet-5-5"]\ntext = "Reply with the single word OK."\ntokens = 18\n'
LIMIT = f"[[limits]]{ROW}vendor = \"anthropic\"\npattern = 'PATTERN'\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            f'[[vendors]]{ROW}name = "anthropic"\nkey_shapes = ["^sk-ant-"]\nhosts = ["relay.example"]\n',
            "vendors does not",
        ),
        (
            f"[[ids]]{ROW}kind = 'message_id'\npattern = 'x'\nchannels = ['anthropic']\nstrength = 'strong'\n",
            "ids does not",
        ),
        (f'[[software]]{ROW}name = "x"\n', "software does not"),
        ("[[rules]]\nid = 'r'\n", "rules does not"),
        ("baselines = 3\n", "does not"),
        ("nothing = [", "not valid TOML"),
        ("", "holds no baselines"),
        (COUNT.replace("Reply with the single word OK.", "Say something else."), "not among the published ones"),
        (COUNT.replace("2026-11-29", "2027-01-01"), "observed in the future"),
        (COUNT.replace("180", "9999"), "more than 180 days"),
        (COUNT.replace("tokens = 18", "tokens = 18\ncolour = 1"), "unknown key"),
        (LIMIT.replace("PATTERN", "(a+)+$"), "more than plain text"),
        (LIMIT.replace("PATTERN", r"limit \d+\d+ (?P<cap>\d+)"), "more than plain text"),
    ],
)
def test_a_file_that_brings_anything_else_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "friend.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PackError, match=complaint) as caught:
        with_file(tmp_path / "friend.toml")
    assert caught.value.exit_code == 2


def test_what_a_file_may_bring_is_accepted(tmp_path: Path) -> None:
    texts = COUNT + LIMIT.replace("friend.row", "friend.limit").replace(
        "PATTERN", r"too large: \d+ > (?P<cap>\d+), at most"
    )
    (tmp_path / "friend.toml").write_text(texts, encoding="utf-8")
    library = with_file(tmp_path / "friend.toml")
    assert library.knowledge.baseline_for(MODEL, TODAY).source == "a friend"
    assert len(library.knowledge.limits) == len(LIBRARY.knowledge.limits) + 1
    with pytest.raises(PackError, match="cannot be read"):
        with_file(tmp_path / "none.toml")


def test_a_refused_limit_becomes_a_pattern() -> None:
    text = "limit 64001 is above the maximum of 64000 for model acme-1."
    pattern = generalised(text, 64001, "acme-1")
    row = rows_in("x", LIMIT.replace("PATTERN", pattern))["limits"][0]
    assert row.read("limit 9 is above the maximum of 8192 for model acme-2.") == (8192, "acme-2")
    assert generalised("limit 64001 is too large", 64001, "acme-1") == ""
    assert generalised("64001 > 64000 or 32000", 64001, "acme-1") == ""
    assert generalised("max 64,000 tokens, 70000 asked", 70000, "acme-1").count("cap") == 1


def test_a_shape_of_ids() -> None:
    assert shape_of(["msg_01aB", "msg_01cD", "msg_02eF"]) == "msg_[0-9A-Za-z]{4}"
    assert shape_of(["00f", "01a2", "b3c"]) == "[0-9a-f]{3,4}"
    assert shape_of(["a", "b"]) == ""
    assert shape_of(["x y", "x z", "x ?"]) == ""


def test_one_key_may_serve_both_sides_only_where_both_are_one_address() -> None:
    side = {"base_url": OFFICIAL, "key_env": "OFFICIAL_KEY"}
    table = {"target": {"model": MODEL}, "relay": side, "official": side}
    target = target_from(table)
    assert target.against_itself
    with pytest.raises(TargetError, match="same variable"):
        target_from({**table, "relay": {**side, "base_url": "https://relay.example"}})
    with pytest.raises(TargetError, match="same variable"):
        target_from({**table, "official": {"key_env": "OFFICIAL_KEY"}})
    assert not target_from({**table, "relay": {"base_url": "https://relay.example"}}).against_itself
    home, relay = "https://api.example", "https://relay.example"
    guard_same("k" * 20, "k" * 20, home, None, home)
    with pytest.raises(RelayAuditError):
        guard_same("k" * 20, "k" * 20, relay, None, home)
    agent = {"ANTHROPIC_BASE_URL": OFFICIAL}
    assert conflict(target, agent) == ""
    assert (
        conflict(target_from({**table, "official": {"base_url": home, "key_env": "ANOTHER"}}), agent)
        == "agent_served_by_target"
    )


# The command line, over loopback.


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Served]:
    with serve("hidden_508", seed=1, pace=0) as served:
        monkeypatch.setenv("OFFICIAL_KEY", served.official_key)
        monkeypatch.setenv("RELAY_KEY", served.relay_key)
        monkeypatch.setenv("RELAY_AUDIT_RUNS", str(tmp_path / "audits"))
        monkeypatch.chdir(tmp_path)
        yield served


def call(*arguments: str) -> tuple[int, dict]:
    """Exit code and the object; an error that the program's own way out would print is an object here too."""
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=True)
    if isinstance(result.exception, RelayAuditError):
        return result.exception.exit_code, {"error": result.exception.code, "message": result.exception.message}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout.strip().splitlines()[-1])


def test_calibrate_waits_for_approval_and_then_writes_the_file(vendor: Served, tmp_path: Path) -> None:
    start = ("calibrate", "--vendor", "Anthropic", "--base-url", vendor.official_url, "-o", "rows.toml")
    code, waiting = call(*start)
    assert (code, waiting["error"], waiting["ok"]) == (3, "approval_needed", False)
    assert not (tmp_path / "rows.toml").exists()
    assert not [a for a in vendor.arrivals if a.path == "/v1/messages"]
    run = waiting["run_id"]
    assert waiting["then"] == f"relay-audit calibrate --vendor Anthropic --run {run}"
    at_most = waiting["money"]["quoted_at_most"]
    assert call("calibrate", "--vendor", "anthropic", "--run", run)[0] == 3
    assert call("approve", run, "--quote", waiting["quote_digest"], "--max-usd", at_most)[0] == 0
    code, done = call("calibrate", "--vendor", "anthropic", "--run", run, "-o", "rows.toml")
    assert (code, done["ok"], done["runs"][0]["failing"]) == (0, True, [])
    assert done["rows"]["baselines"] == 2
    assert done["files"] == ["rows.toml", "rows.marks.toml"]
    assert set(tomllib.loads((tmp_path / "rows.toml").read_text(encoding="utf-8"))) == {
        "baselines",
        "refusals",
        "limits",
    }
    for file in done["files"]:
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert vendor.official_key not in text
        assert vendor.official_key[12:40] not in text
    assert not [a for a in vendor.arrivals if a.side == "relay"]
    sent = len(vendor.arrivals)
    assert call("calibrate", "--vendor", "anthropic", "--run", run)[0] == 0  # a finished run is only read again
    assert len(vendor.arrivals) == sent

    relay = ("--base-url", vendor.relay_url, "--model", MODEL, "--claim", "anthropic", "--baselines", "rows.toml")
    code, quoted = call("quote", *relay)
    assert (code, "approve_cmd" in quoted) == (0, True)
    code, found = call("run", *relay, "--checks", "2", "--profile", "quick", "--max-usd", "3")
    assert code == 1
    assert [f["code"] for f in found["findings"] if f["severity"] == "high"] == ["tokens.constant_surplus"]
    assert call("run", *relay[:-1], "rows.marks.toml")[0] == 2


def test_calibrate_names_what_fails_and_the_probe(vendor: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is not the vendor's: it adds 508 tokens, and has no counter of its own."""
    monkeypatch.setenv("OFFICIAL_KEY", vendor.relay_key)
    code, said = call("calibrate", "--vendor", "anthropic", "--base-url", vendor.relay_url, "--max-usd", "5")
    assert (code, said["ok"]) == (1, False)
    failing = {row["code"]: row for row in said["runs"][0]["failing"]}
    assert "anthropic/published_sentence" in failing["tokens.constant_surplus"]["probes"]
    assert failing["tokens.constant_surplus"]["exchanges"]


def test_exit_codes_of_calibrate(vendor: Served) -> None:
    assert call("calibrate", "--vendor", "nobody")[0] == 2
    assert call("calibrate", "--vendor", "Alibaba Cloud")[0] == 2  # the pack names no usual model
    assert call("calibrate", "--vendor", "anthropic", "--key-env", "NOT_SET", "--base-url", vendor.official_url)[0] == 2
    code, said = call("calibrate", "--vendor", "anthropic", "--base-url", "http://127.0.0.1:9", "--max-usd", "5")
    assert (code, said["error"]) == (4, "unfinished")
    assert call("calibrate", "--vendor", "anthropic", "--base-url", vendor.official_url, "--max-usd", "0.01")[0] == 3
    assert not [a for a in vendor.arrivals if a.path == "/v1/messages"]


TARGET = """
[target]
name = "vendor-a"
model = "claude-sonnet-5-5"
[relay]
base_url = "RELAY"
[official]
base_url = "OFFICIAL"
"""


def test_baseline_record_asks_the_vendor_for_nothing(
    vendor: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGET.replace("OFFICIAL", vendor.official_url, 1).replace("RELAY", vendor.relay_url)
    (tmp_path / "t.toml").write_text(target, encoding="utf-8")
    code, done = call("baseline", "record", "t.toml", "-o", "free.toml")
    assert (code, done["runs"][0]["status"]) == (0, "completed")
    assert {a.side for a in vendor.arrivals} == {"official"}
    run = next(path for path in (tmp_path / "audits").iterdir() if path.name == done["runs"][0]["run_id"])
    with audit.Store.open(run) as store:
        history = replay(store)
    answered = {e.status for e in history.exchanges.values() if e.request.path == "/v1/messages"}
    assert 200 not in answered
    assert answered >= {400, 401, 404}
    assert history.ledger.entries == ()
    rows = rows_in("free.toml", (tmp_path / "free.toml").read_text(encoding="utf-8"))
    assert {row.tokens for row in rows["baselines"]} == {18}
    assert {row.source.split(" against")[0] for row in rows["refusals"]} == {"baseline record"}
    assert len(rows["refusals"]) > 25
    assert (
        with_file(tmp_path / "free.toml", dt.datetime.now(dt.UTC).date()).knowledge.max_output_of(MODEL, TODAY)
        == 128_000
    )


def test_baseline_record_does_not_repeat_what_was_taken(
    vendor: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lab_refusals.FIELDS, "service_tier", lambda _: "")
    target = TARGET.replace("OFFICIAL", vendor.official_url, 1).replace("RELAY", vendor.relay_url)
    (tmp_path / "t.toml").write_text(target, encoding="utf-8")
    result = CliRunner().invoke(app, ["baseline", "record", "t.toml", "--lang", "en"])
    assert result.exit_code == 0
    assert "service_tier_bogus" in result.stderr
    bodies = [json.loads(a.body) for a in vendor.arrivals if a.path == "/v1/messages" and a.body]
    assert sum(b.get("service_tier") == "bogus" and b["max_tokens"] == 16 for b in bodies) == 1


@pytest.mark.parametrize(("key", "code"), [("sk-ant-api03-nobodys-key-at-all-0000", 2), ("", 2)])
def test_baseline_record_without_a_key_that_works(
    vendor: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, code: int
) -> None:
    monkeypatch.setenv("OFFICIAL_KEY", key)
    target = TARGET.replace("OFFICIAL", vendor.official_url, 1).replace("RELAY", vendor.relay_url)
    (tmp_path / "t.toml").write_text(target, encoding="utf-8")
    assert call("baseline", "record", "t.toml")[0] == code
    no_side = target.split("[official]")[0]
    (tmp_path / "t.toml").write_text(no_side, encoding="utf-8")
    assert call("baseline", "record", "t.toml")[0] == 2
