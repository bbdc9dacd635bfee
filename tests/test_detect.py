"""Which software a relay runs, from signals that cost nothing."""

from __future__ import annotations

import pytest

from relay_audit.books import SiteFacts
from relay_audit.fingerprint import Knowledge
from relay_audit.relays.detect import PAGE_STEP, detect, facts, recognised
from tests.assess.evidence_builders import KNOWLEDGE, START, answered, lost, run_of, step_named

STATUS = {"data": {"quota_per_unit": 500_000, "price": 7.3}}


def saw(step: str = "discovery.models.bearer", body: object = None, *headers: tuple[str, str], status: int = 200):
    return answered(1, step, body or {}, moment=START, headers=headers, status=status)


@pytest.mark.parametrize(
    ("exchange", "name", "signals"),
    [
        (saw("s", {}, ("X-New-Api-Version", "v0.9")), "new-api", ("new-api:header",)),
        (saw("discovery.status", STATUS), "new-api", ("new-api:status",)),
        (saw("s", {}, ("X-Oneapi-Request-Id", "r")), "one-api", ("one-api:header",)),
        (saw("s", {}, ("x-litellm-call-id", "c")), "litellm", ("litellm:header",)),
        (saw("s", {}, ("server", "RelayHub/0.9.0")), "hubrelay", ("hubrelay:header",)),
        (saw("s", {}, ("server", "nginx")), "unknown", ()),
        (saw("s", STATUS), "unknown", ()),
        (saw("discovery.status", {"data": {"quota_per_unit": 5}}), "unknown", ()),
        (saw("discovery.status", {"data": []}), "unknown", ()),
        (saw("discovery.status", "<html>"), "unknown", ()),
        (lost(1, "discovery.status"), "unknown", ()),
    ],
)
def test_a_signal_names_a_software(exchange, name, signals):
    assert detect((exchange,), KNOWLEDGE) == (name, signals)


def test_more_signals_outweigh_fewer_and_one_kind_counts_once():
    header = saw("a", {}, ("X-Oneapi-Request-Id", "r"))
    new = saw("b", {}, ("X-New-Api-Version", "v"))
    assert detect((header, header, new, saw("discovery.status", STATUS)), KNOWLEDGE) == (
        "new-api",
        ("new-api:header", "new-api:status"),
    )
    assert detect((header, header, new), KNOWLEDGE)[0] == "new-api"


ONE_API = {"data": {"quota_per_unit": 500_000, "display_in_currency": True}}
ONE_HUB = {"data": ONE_API["data"] | {"PaymentUSDRate": 7.3, "PaymentMinAmount": 1}}
ITS_ID = ("X-Oneapi-Request-Id", "r")


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        ((saw("discovery.status", ONE_API, ITS_ID),), "one-api"),
        ((saw("discovery.status", ONE_HUB, ITS_ID),), "done-hub"),
        ((saw("s", {"error": {"type": "one_hub_error"}}, ITS_ID, status=401),), "done-hub"),
        ((saw("s", {"error": {"type": "one_api_error"}}, ITS_ID, status=401),), "one-api"),
        ((saw("discovery.status", STATUS, ITS_ID),), "new-api"),
    ],
)
def test_kin_that_inherited_a_header_are_told_apart(seen, name):
    assert detect(seen, KNOWLEDGE)[0] == name


def test_a_page_of_its_own_names_a_software_and_the_same_words_in_an_answer_do_not():
    page = answered(1, PAGE_STEP, {"message": "CLI Proxy API Server", "endpoints": []}, moment=START)
    own = page.model_copy(update={"request": page.request.model_copy(update={"path": "/"})})
    assert detect((own,), KNOWLEDGE)[0] == "cli-proxy-api"
    assert detect((page,), KNOWLEDGE)[0] == "unknown"


def test_a_name_in_the_target_file_wins():
    assert detect((saw("s", {}, ("X-New-Api-Version", "v")),), KNOWLEDGE, "sub2api") == ("sub2api", ("target_file",))
    assert detect((), KNOWLEDGE) == ("unknown", ())


def test_a_refusal_names_a_software_however_its_json_is_escaped():
    row = facts("litellm", KNOWLEDGE).model_copy(update={"refusal": "额度不足"})
    knowledge = Knowledge(software=(row,))
    told = {"error": "额度不足"}  # the builder writes it as \\uXXXX
    assert detect((saw("s", told, status=403),), knowledge) == ("litellm", ("litellm:refusal",))
    assert detect((saw("s", told, status=200),), knowledge) == ("unknown", ())


def test_a_run_is_recognised_by_its_answers_where_the_planning_saw_nothing():
    marked = answered(1, "s0", {}, moment=START, headers=(("x-litellm-call-id", "c"),))
    run = run_of([marked], [step_named("s0")])
    assert recognised(run, KNOWLEDGE).site.software == "litellm"
    assert recognised(run, KNOWLEDGE).site.software_signals == ("litellm:header",)
    named = run.model_copy(update={"site": SiteFacts(software="new-api")})
    assert recognised(named, KNOWLEDGE) == named
    official = run.model_copy(update={"exchanges": (marked.model_copy(update={"side": "official"}),)})
    assert recognised(official, KNOWLEDGE).site.software == "unknown"


def test_facts_by_name():
    assert facts("new-api", KNOWLEDGE).log_adapter == "new_api"
    assert facts("unknown", KNOWLEDGE) is None
