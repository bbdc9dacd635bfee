"""What a reader leans on: the switch to turn, the words explained, when to test again, and that no sentence claims a
comparison which was not made."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
from typing import get_args

import pytest

from relay_audit.catalog import load_knowledge
from relay_audit.codes import CODES
from relay_audit.evidence import Evidence, VendorAnswer, Withdrawal
from relay_audit.finding import Coverage, Finding
from relay_audit.report.as_text import chat_text
from relay_audit.report.catalogue import Catalogue
from relay_audit.report.edition import Inside
from relay_audit.report.pages import Page
from relay_audit.report.render import AUDIENCES, Audience, Format, render
from relay_audit.report.screens import SENTENCE_AT_MOST, screens
from relay_audit.words import LANGS, Lang
from tests.report import samples

TERMS = ("group", "ratio", "baseline", "counter", "c2pa")
KNOWN = load_knowledge()
SOFTWARE = sorted({row.software for row in KNOWN.settings})


def made(
    run: Evidence,
    findings: tuple[Finding, ...],
    audience: Audience,
    form: Format,
    lang: Lang,
    knowledge=samples.KNOWLEDGE,
) -> str:
    verdict = samples.judged(run, findings)
    text = render(run, findings, samples.COVERAGE, verdict, knowledge, audience, form, lang).decode()
    plain = html.unescape(re.sub(r"<[^>]+>", "", text.split("</style>")[-1]))
    return re.sub(r"\\(?=[^A-Za-z0-9\s])", "", plain)


def of(code: str, **more) -> Finding:
    params = {name: samples.SAMPLE_VALUES[name] for name in CODES[code].params}
    return samples.finding(code, params, **({"outcome": "mismatch", "severity": "medium"} | more))


@pytest.mark.parametrize("software", SOFTWARE)
def test_each_finding_names_the_switches_of_the_software_that_was_recognised_and_of_no_other(software: str) -> None:
    run = samples.evidence()
    run = run.model_copy(update={"site": run.site.model_copy(update={"software": software})})
    codes = {code for row in KNOWN.settings if row.software == software for code in row.codes}
    findings = samples.number(tuple(of(code) for code in sorted(codes & set(CODES))))
    for lang in LANGS:
        for form in ("html", "md"):
            text = made(run, findings, "vendor", form, lang, KNOWN)
            text = text.replace("`", "") if form == "md" else text  # on a page code is set as code, without marks
            for row in KNOWN.settings:
                named = row.setting.in_(lang).replace("`", "")
                assert (named in text) == (row.software == software), (row.id, form)
                assert row.software != software or row.observed.isoformat() in text
    public = made(run, findings, "public", "md", "en", KNOWN).replace("`", "")
    assert not any(row.setting.in_("en").replace("`", "") in public for row in KNOWN.settings), (
        "nobody there can turn it"
    )


def test_of_software_that_nobody_recognised_no_switch_is_guessed() -> None:
    run = samples.evidence()
    run = run.model_copy(update={"site": run.site.model_copy(update={"software": "unknown"})})
    findings = samples.surplus_findings(run)
    for lang in LANGS:
        text = made(run, findings, "vendor", "html", lang, KNOWN)
        assert Catalogue.load(lang).text("remedy.unknown_setting") in text
        assert not any(row.setting.in_(lang) in text for row in KNOWN.settings)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(("audience", "form"), [(a, f) for a in ("vendor", "public") for f in ("html", "md")])
def test_the_five_terms_are_explained_wherever_a_stranger_reads(audience, form, lang: Lang) -> None:
    run = samples.evidence()
    words = Catalogue.load(lang)
    text = made(run, samples.surplus_findings(run), audience, form, lang)
    told = text[text.index(words.text("report.glossary")) :]
    places = [told.index(words.text(f"glossary.{key}.text")) for key in TERMS]
    assert places == sorted(places)
    assert all(words.text(f"glossary.{key}.term") in told for key in TERMS)
    assert {key.split(".")[1] for key in words.names() if key.startswith("glossary.")} == set(TERMS)


@pytest.mark.parametrize("lang", LANGS)
def test_the_card_says_when_to_test_again_and_says_it_once(lang: Lang) -> None:
    run, words = samples.evidence(), Catalogue.load(lang)
    for make in (samples.surplus_findings, samples.honest_findings, samples.of_every_code):
        findings = make(run)
        verdict = samples.judged(run, findings)
        for form in ("html", "md"):
            text = made(run, findings, "internal", form, lang)
            assert words.text("internal.retest") in text
            assert text.count(words.text(f"verdict.retest.{verdict.verdict}")) == 1
            next_step = words.text(f"answer.next.{verdict.next_code}")
            assert (next_step in text) == (verdict.next_code != "test_again_later"), "or the same twice"


@pytest.mark.parametrize("lang", LANGS)
def test_what_stands_beside_the_relays_side_is_called_official_only_where_the_vendor_said_it(lang: Lang) -> None:
    run, words = samples.evidence(), Catalogue.load(lang)
    sides = {"expected": {"quota": 25_850}, "observed": {"quota": 51_700}}
    for basis, vendors in (
        ("live_official", True),
        ("declared_official", True),
        ("relay_word", False),
        ("known_list", False),
    ):
        one = samples.number((of("billing.overcharged", severity="high", basis=basis, **sides),))
        table = made(run, one, "vendor", "md", lang)
        (head,) = [line for line in table.splitlines() if line.startswith(f"| {words.text('finding_part.measure')} |")]
        assert (words.text("report.official") in head) is vendors
        assert (words.text("finding_part.expected") in head) is not vendors


@pytest.mark.parametrize("lang", LANGS)
def test_where_the_vendor_was_not_asked_the_method_does_not_say_so(lang: Lang) -> None:
    run, words = samples.evidence(), Catalogue.load(lang)
    alone = run.model_copy(update={"exchanges": tuple(e for e in run.exchanges if e.side == "relay")})
    for audience in ("vendor", "public"):
        for form in ("html", "md"):
            both, one = (made(r, samples.surplus_findings(run), audience, form, lang) for r in (run, alone))
            assert words.text("method.intro") in both
            assert words.text("method.counted") in both
            assert words.text("method.intro_alone") in one
            assert words.text("method.intro") not in one
            assert words.text("method.counted") not in one


@pytest.mark.parametrize("lang", LANGS)
def test_a_real_price_that_leaves_an_overcharge_out_says_so(lang: Lang) -> None:
    run = samples.evidence()
    over = samples.finding("billing.overcharged", {"n": 6, "charged": "0.1034", "recomputed": "0.0517", "difference": "0.0517",
                                                   "cause": "arithmetic"}, outcome="mismatch", severity="high")  # fmt: skip
    findings = samples.number((*samples.surplus_findings(run), over))
    (found,) = [f for f in findings if f.code == "billing.overcharged"]
    said = {"en": f"{found.id} is not in it: the log charges 2.00 times what is due.",
            "zh-CN": f"{found.id} 没有算进去：日志实扣是应扣的 2.00 倍。"}[lang]  # fmt: skip
    for form in ("html", "md"):
        assert said in made(run, findings, "internal", form, lang)
        assert said[6:] not in made(run, samples.surplus_findings(run), "internal", form, lang)


@pytest.mark.parametrize("lang", LANGS)
def test_the_list_of_what_to_mend_calls_a_case_by_its_name(lang: Lang) -> None:
    run = samples.evidence()
    one = of(
        "params.illegal_accepted",
        expected={"case=temperature_range": "400"},
        observed={"case=temperature_range": "200"},
    )
    text = made(run, samples.number((one,)), "vendor", "md", lang)
    listed = text[text.index(Catalogue.load(lang).text("remedy.title")) :]
    assert {"en": "temperature 9: 400 | temperature 9: 200", "zh-CN": "temperature 9：400 | temperature 9：200"}[
        lang
    ] in listed


@pytest.mark.parametrize("lang", LANGS)
def test_what_reads_the_same_stands_there_once(lang: Lang) -> None:
    """Three films that agree are one line with three numbers, one sentence on the card, one point on a picture."""
    run = samples.evidence()
    films = samples.number(tuple(of("media.original", outcome="match", severity="info") for _ in range(3)))
    title = Catalogue.load(lang).text("finding.media.original.title", profile=samples.SAMPLE_VALUES["profile"])
    text = made(run, films, "vendor", "md", lang)
    assert len(re.findall(r"(?m)^- \*\*F001[,、] ?F002[,、] ?F003 ", text)) == 1
    ran = tuple(Coverage(check=c, state="run" if c == 5 else "not_run") for c in range(1, 7))
    page = Page(run, films, ran, samples.judged(run, films, ran), samples.KNOWLEDGE, Catalogue.load(lang))
    (screen,) = [s for s in screens(page, "public") if s.points]
    assert len(screen.points) == 1
    chat = chat_text(page, "public", Inside())
    assert chat.lower().count(title.lower()) == 1


@pytest.mark.parametrize("lang", LANGS)
def test_a_point_on_a_picture_is_whole_sentences_where_one_fits(lang: Lang) -> None:
    run = samples.evidence()
    for make in (samples.surplus_findings, samples.hostile_findings, samples.of_every_code):
        findings = make(run)
        page = Page(
            run, findings, samples.COVERAGE, samples.judged(run, findings), samples.KNOWLEDGE, Catalogue.load(lang)
        )
        room = SENTENCE_AT_MOST if lang == "zh-CN" else 2 * SENTENCE_AT_MOST
        for screen in screens(page, "public"):
            for text in (screen.text, *(part for point in screen.points for part in point)):
                assert len(text) <= room
                assert text.endswith((".", "。", "…", "?", "？", "”")), text


@pytest.mark.parametrize("lang", LANGS)
def test_the_cost_of_films_is_told_as_a_share_of_the_vendors_price_where_there_is_one(lang: Lang) -> None:
    words = Catalogue.load(lang)
    run = samples.evidence()
    tier = {"state": "delivered", "net": "0.3", "official": "0.33"}
    for ratios, said in (
        (("0.909", "0.986"), ("0.909", "0.986")),
        (("0.909", "0.909"), ("0.909",)),
        ((None, None), ()),
    ):
        seen = {f"{n}p_5s": {**tier, "ratio": ratio} for n, ratio in enumerate(ratios)}
        one = samples.number((of("billing.tiers_measured", outcome="match", severity="info", observed=seen),))
        text = made(run, one, "vendor", "md", lang)
        (line,) = [row for row in text.splitlines() if row.startswith("- **F001 ")]
        title = line.split("**")[1]
        assert all(figure in title for figure in said)
        assert (words.text("road.no_official_price.billing.tiers_measured.title").lower() in title.lower()) is (
            not said
        )


@pytest.mark.parametrize("lang", LANGS)
def test_what_is_to_be_mended_stands_by_whom_it_touches_gravest_first(lang: Lang) -> None:
    run, words = samples.evidence(), Catalogue.load(lang)
    touched = {
        "none": "model.name_mismatch",
        "integration": "params.error_unusable",
        "users": "tokens.constant_surplus",
    }
    findings = samples.number(tuple(of(code).model_copy(update={"impact": i}) for i, code in touched.items()))
    for form in ("html", "md"):
        text = made(run, findings, "vendor", form, lang)
        listed = text[text.index(words.text("remedy.title")) : text.index(words.text("report.coverage"))]
        places = [listed.index(words.text(f"tier.{impact}")) for impact in ("users", "integration", "none")]
        assert places == sorted(places)


@pytest.mark.parametrize("lang", LANGS)
def test_a_reply_stands_at_its_finding_and_only_the_last_one(lang: Lang) -> None:
    day = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    words = Catalogue.load(lang)
    for stance in get_args(VendorAnswer.model_fields["stance"].annotation):
        older, reply = (
            VendorAnswer(finding="F001", code="tokens.constant_surplus", stance=stance, untrusted_text=text, at=day)
            for text in ("an older word", "the channel was emptied")
        )
        run = samples.evidence(replies=(older, reply))
        findings = samples.surplus_findings(run)
        for form in ("html", "md"):
            text = made(run, findings, "vendor", form, lang)
            found = text[text.index(words.text("report.findings")) : text.index(words.text("remedy.title"))]
            assert words.text(f"reply.{stance}") in found
            assert "the channel was emptied" in found
            assert "an older word" not in text, "the last word counts"
            public = made(run, findings, "public", form, lang)
            assert "the channel was emptied" not in public, "whose words they are would show"


@pytest.mark.parametrize("lang", LANGS)
def test_a_finding_that_fell_decides_nothing_and_stands_only_among_the_withdrawn(lang: Lang) -> None:
    """Nobody is accused on page 1 of what a later test did not show again; that it was said before stays visible."""
    words = Catalogue.load(lang)
    day = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    findings = samples.surplus_findings(samples.evidence())
    (surplus,) = [f for f in findings if f.code == "tokens.constant_surplus"]
    fell = Withdrawal(finding=surplus.id, code=surplus.code, at=day)
    gone = samples.evidence(withdrawn=(fell,))
    title = words.text("finding.tokens.constant_surplus.title", surplus=str(surplus.params["surplus"])).lower()
    note = words.text("edition.fallen", findings=f"{surplus.id} {title}").lower()
    for audience in AUDIENCES:
        for form in ("html", "md", "text", "png"):
            text = made(gone, findings, audience, form, lang).lower()
            said = note[:100] if form == "png" else note  # a picture has room for so much
            assert said in text, (audience, form)
            rest = text.replace(said, "")
            whole = audience == "vendor" and form in ("html", "md")
            assert rest.count(title) == (1 if whole else 0), (audience, form)
            if whole:
                end = rest.index(words.text("edition.withdrawn_findings").lower())
                assert title not in rest[:end], "neither as a finding nor as something to mend"
                assert words.text("edition.withdrawn_note").lower() in rest[end:]
        told = json.loads(made(gone, findings, audience, "json", lang))
        assert told["withdrawn"] == [{"id": surplus.id, "code": surplus.code}]
        assert surplus.id not in [f["id"] for f in told["findings"]]
        assert "508" not in told["headline"]["text"]
        assert "<failure" not in made(gone, findings, audience, "junit", lang)
    other = samples.evidence(withdrawn=(fell.model_copy(update={"code": "channel.mixed"}),))
    assert title in made(other, findings, "vendor", "md", lang).lower(), "another finding's fall is not this one's"
