"""The main job on relays that nobody here wrote: hubrelay and LiteLLM in front of the lab's official side, audited as a
buyer would. Clean channels are accused of nothing; a mapped channel is seen as far as the relay lets it be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest
from stations import Bought, Station, buy, ferrogw, hubrelay, litellm

from relay_audit.lab import Served, serve

pytestmark = pytest.mark.relays

SOLD = "claude-sonnet-5-5"
ALIAS, DATED = "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"
CHANNELS = {
    SOLD: SOLD,
    ALIAS: DATED,
    "claude-opus-5-5": "claude-haiku-5-5",
    "claude-haiku-5-5": "claude-3-haiku-20240307",
}
"""What LiteLLM sells, and what it asks for: clean, an alias, a sibling with the same tokenizer, an older model."""
OPEN = Callable[..., Station]
WITH_AND_WITHOUT = pytest.mark.parametrize("official", [True, False], ids=["official_key", "no_official_key"])


@pytest.fixture(scope="module")
def lab() -> Iterator[Served]:
    with serve("honest", seed=3, pace=0) as served:
        yield served


@pytest.fixture(scope="module")
def lite(lab: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    with litellm(lab, tmp_path_factory.mktemp("litellm"), CHANNELS) as station:
        yield station


@pytest.fixture
def hub(lab: Served, tmp_path: Path) -> Iterator[OPEN]:
    """Starts a hubrelay that sells Sonnet 5.5, as it is or mapped."""
    with ExitStack() as stack:
        yield lambda served="": stack.enter_context(hubrelay(lab, tmp_path / "hub", SOLD, served))


@pytest.fixture(params=["hubrelay", "litellm"])
def clean(request: pytest.FixtureRequest) -> Station:
    if request.param == "litellm":
        return request.getfixturevalue("lite")
    return request.getfixturevalue("hub")()


def says_what_is_missing(bought: Bought, *, bill: bool) -> None:
    """Checks 3 and 4 did not run, 5 does not apply, and the headline names them; 6 where the relay names no cost."""
    assert bought.coverage[3][0] == bought.coverage[4][0] == "not_run"
    assert bought.coverage[5][0] == "not_applicable"
    missing = bought.headline.partition("Without a result: ")[2]
    for name in ("model identity", "parameters"):
        assert name in missing
    assert bought.coverage[6] == (("run", "") if bill else ("no_information", "log_unavailable"))
    assert ("billing (the relay shows no per-call log)" in missing) is not bill
    assert "media" not in bought.headline
    assert bought.headline.replace("&", "&amp;") in bought.page("vendor")
    assert bought.short["status"] == "completed"
    assert bought.short["incomplete"] is True


@WITH_AND_WITHOUT
def test_a_clean_channel_is_accused_of_nothing(clean: Station, lab: Served, tmp_path: Path, official: bool) -> None:
    before = len(lab.arrivals)
    bought = buy(clean, lab, tmp_path / "buyer", SOLD, official=official)
    assert bought.against == set()
    assert bought.exit_code == 0
    assert bought.short["verdict"] == "usable"
    assert bought.findings["channel.matches"]["outcome"] == "match"
    assert {"tokens.template_noise", "tokens.match"} & set(bought.findings)
    assert bought.coverage[1][0] == bought.coverage[2][0] == "run"
    says_what_is_missing(bought, bill=clean.software == "litellm")
    assert f"Relay software {clean.software} " in bought.page("vendor")
    assert "another model" not in bought.page("vendor")
    generated = [a for a in lab.arrivals[before:] if a.path.split("?")[0] == "/v1/messages"]
    assert 0 < len(generated) <= (30 if official else 20)
    money = {name: Decimal(bought.short["money"][name]) for name in ("charged_relay", "quoted_at_most")}
    assert Decimal(0) < money["charged_relay"] <= Decimal("0.02")
    assert money["charged_relay"] <= money["quoted_at_most"]


@pytest.mark.parametrize("served", ["claude-3-haiku-20240307", DATED])
@WITH_AND_WITHOUT
def test_hubrelay_mapped_to_a_model_with_another_tokenizer(
    hub: OPEN, lab: Served, tmp_path: Path, served: str, official: bool
) -> None:
    bought = buy(hub(served), lab, tmp_path / "buyer", SOLD, official=official)
    says_what_is_missing(bought, bill=False)
    if not official:  # one sentence counts less than published: that accuses nobody
        assert bought.against == set()
        assert bought.exit_code == 0
        return
    assert bought.against == {"tokens.tokenizer_differs"}
    assert bought.exit_code == 1
    slopes = {
        script: float(slope)
        for script, slope in bought.findings["tokens.tokenizer_differs"]["params"]["slopes"].items()
    }
    assert slopes["ascii"] < 1 < slopes["cjk"]
    assert bought.short["findings_total"] > len(bought.against)


@WITH_AND_WITHOUT
def test_hubrelay_mapped_to_a_model_with_the_same_tokenizer(
    hub: OPEN, lab: Served, tmp_path: Path, official: bool
) -> None:
    """Without check 3 only the signatures of thinking answers show it, and no relay can rewrite those."""
    bought = buy(hub("claude-haiku-5-5"), lab, tmp_path / "buyer", SOLD, official=official)
    assert bought.against == {"model.substituted"}
    assert bought.findings["model.substituted"]["params"]["road"] == "signature"
    assert bought.exit_code == 1
    assert bought.short["verdict"] == "do_not_use"


@WITH_AND_WITHOUT
@pytest.mark.parametrize(
    ("sold", "with_key"),
    [
        ("claude-opus-5-5", {"model.relay_header_admits"}),
        ("claude-haiku-5-5", {"model.relay_header_admits", "tokens.tokenizer_differs"}),
    ],
)
def test_litellm_names_the_mapped_model_itself(
    lite: Station, lab: Served, tmp_path: Path, sold: str, with_key: set[str], official: bool
) -> None:
    bought = buy(lite, lab, tmp_path / "buyer", sold, official=official)
    assert bought.against - {"model.substituted"} == (with_key if official else {"model.relay_header_admits"})
    admitted = bought.findings["model.relay_header_admits"]
    assert (admitted["severity"], admitted["basis"]) == ("critical", "relay_word")
    assert admitted["params"]["header"] == "x-litellm-model-name"
    assert bought.exit_code == 1
    assert bought.short["verdict"] == "do_not_use"
    assert f"names another model than {sold}" in bought.headline
    says_what_is_missing(bought, bill=sold == "claude-opus-5-5")


@pytest.mark.parametrize("sold", [SOLD, ALIAS])
def test_the_bill_is_read_from_litellms_cost_header(lite: Station, lab: Served, tmp_path: Path, sold: str) -> None:
    """A proxy without a database has no spend logs; each answer that is no stream names its cost."""
    bought = buy(lite, lab, tmp_path / "buyer", sold, official=True, vendor_name=CHANNELS[sold])
    matches = bought.findings["billing.matches"]
    assert (matches["outcome"], matches["basis"]) == ("match", "relay_word")
    assert matches["params"]["n"] >= 16  # its streams carry no cost
    assert matches["params"]["charged_ratio"] == "1", "its price map holds the vendor's list price"
    assert 0 < Decimal(matches["params"]["charged"]) <= Decimal(bought.short["money"]["charged_relay"])
    assert "billing.log_unavailable" not in bought.findings
    assert "billing.settlement_pending" not in bought.findings


def test_hubrelay_shows_its_customer_no_bill(hub: OPEN, lab: Served, tmp_path: Path) -> None:
    bought = buy(hub(), lab, tmp_path / "buyer", SOLD, official=True)
    assert bought.coverage[6] == ("no_information", "log_unavailable")
    assert not {code for code in bought.findings if code.startswith("billing.")} & bought.against


@WITH_AND_WITHOUT
def test_litellm_with_an_alias_of_the_same_model(lite: Station, lab: Served, tmp_path: Path, official: bool) -> None:
    bought = buy(lite, lab, tmp_path / "buyer", ALIAS, official=official, vendor_name=DATED)
    assert bought.against == set()
    named = bought.findings["model.relay_header_admits"]
    assert (named["outcome"], named["severity"]) == ("match", "info")
    page = bought.page("vendor")
    assert "another way to write claude-sonnet-4-5" in page
    assert "another model" not in page
    if not official:
        assert bought.coverage[2][0] == "run", "the intercept needs no baseline of the model"
    says_what_is_missing(bought, bill=True)


def test_an_answer_out_of_hubrelays_store_accuses_nobody(hub: OPEN, lab: Served, tmp_path: Path) -> None:
    """Without an official key one sentence is always the same: the second audit gets it without the vendor."""
    station = hub()
    start = len(lab.arrivals)
    buy(station, lab, tmp_path / "first", SOLD, official=False)
    before = len(lab.arrivals)
    again = buy(station, lab, tmp_path / "second", SOLD, official=False)
    assert len(lab.arrivals) - before < before - start, "the store did not answer"
    assert again.against == set()
    assert again.exit_code == 0


def test_a_wrong_key_is_said_and_nothing_is_generated(clean: Station, lab: Served, tmp_path: Path) -> None:
    """LiteLLM without a database refuses a key with 400, as it does anything else it cannot look up."""
    before = len(lab.arrivals)
    bought = buy(clean, lab, tmp_path / "buyer", SOLD, official=True, key="sk-of-somebody-else-0123456789")
    assert not [a for a in lab.arrivals[before:] if a.path.split("?")[0] == "/v1/messages"]
    if clean.software == "hubrelay":
        assert (bought.exit_code, bought.short["error"]) == (2, "key_refused")
    else:
        assert (bought.exit_code, bought.against) == (4, set())
        assert bought.headline.startswith("Nothing could be measured.")


@WITH_AND_WITHOUT
def test_all_checks_accuse_a_clean_channel_of_nothing(
    clean: Station, lab: Served, tmp_path: Path, official: bool
) -> None:
    bought = buy(clean, lab, tmp_path / "buyer", SOLD, official=official, checks="")
    assert bought.against == set()
    assert bought.findings["model.matches"]["outcome"] == "match"
    assert bought.coverage[3] == ("run", "")
    assert bought.coverage[4][0] == "run"
    assert Decimal(bought.short["money"]["charged_relay"]) <= Decimal("0.05")
    stored = bought.findings.get("integrity.response_replayed")
    assert (stored is not None) is (clean.software == "hubrelay"), "the one deliberate repeat meets its store of 300 s"
    if stored:
        assert (stored["severity"], stored["outcome"]) == ("info", "match"), "given again free of charge"


@WITH_AND_WITHOUT
def test_a_refused_limit_names_the_sibling_that_nothing_else_shows(
    hub: OPEN, lab: Served, tmp_path: Path, official: bool
) -> None:
    """hubrelay keeps ids and writes the requested name into every answer; the refusal comes as 502 in a Chinese wrapper."""
    bought = buy(hub("claude-haiku-5-5"), lab, tmp_path / "buyer", SOLD, official=official, checks="")
    assert "model.substituted" in bought.against
    assert bought.exit_code == 1
    assert bought.short["verdict"] == "do_not_use"


@WITH_AND_WITHOUT
def test_litellm_that_clamps_is_named_for_what_its_operator_switched_on(
    lab: Served, tmp_path: Path, official: bool
) -> None:
    """`modify_params` lowers a limit to the one in its price map: what the vendor refuses is answered, and charged."""
    with litellm(lab, tmp_path / "litellm", {ALIAS: DATED}, modify_params=True) as station:
        bought = buy(station, lab, tmp_path / "buyer", ALIAS, official=official, vendor_name=DATED, checks="")
    clamped = bought.findings["params.clamped"]
    assert clamped["params"]["cases"] == ["max_tokens_above_limit"]
    assert (clamped["outcome"], clamped["severity"]) == ("mismatch", "low"), (
        "an honest operator may have switched it on"
    )
    assert bought.against <= {"params.clamped"}
    named = bought.findings["model.matches"]["params"]["roads"] if "model.matches" in bought.findings else []
    assert "error_text" not in named, "a limit that was lowered names nobody"
    assert bought.exit_code == 0


@pytest.fixture(scope="module")
def openai_lab() -> Iterator[Served]:
    with serve("honest", seed=3, pace=0, dialect="openai_chat") as served:
        yield served


@WITH_AND_WITHOUT
def test_ferrogw_before_the_vendor_is_accused_of_nothing(openai_lab: Served, tmp_path: Path, official: bool) -> None:
    """It rebuilds every answer, drops fields it does not know, checks ranges itself and shows its customer no books."""
    with ferrogw(openai_lab, tmp_path / "ferrogw") as station:
        bought = buy(
            station, openai_lab, tmp_path / "buyer", "gpt-4o", official=official, checks="", dialect="openai_chat"
        )
    assert bought.short["status"] == "completed"
    assert {code for code in bought.against if bought.findings[code]["severity"] != "low"} == set()
    assert bought.exit_code == 0
    assert "Relay software ferrogw " in bought.page("vendor")
    assert bought.coverage[1][0] == "run"
    assert bought.coverage[6][0] == "no_information"
