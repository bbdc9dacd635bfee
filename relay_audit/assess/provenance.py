"""Check 5 as a tree: integrity, signer, encoder and marks, link and task. It stops where the evidence stops.

A valid signature is not the vendor's signature: names can be written by anybody, so only the hash of a certificate or
of its key says who signed. And "signed by this certificate" is not "made by this model".
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal

from relay_audit.assess.film_link import Link
from relay_audit.assess.media_marks import Compared, judge_marks
from relay_audit.assess.media_signer import Tier, judge_signer
from relay_audit.codes import finding
from relay_audit.finding import Basis, Confidence, Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.media_facts import MediaFacts, Pin

StepState = Literal["holds", "fails", "absent", "unclear", "not_checked", "skipped"]
STEPS = ("integrity", "signer", "encoder", "link")

SOFT = frozenset({"signingCredential.untrusted", "signingCredential.expired"})
"""Failures that speak of lists and clocks, not of the content. No vendor of AI video in China is on the list."""
BINDING = frozenset({"assertion.bmffHash.match", "assertion.dataHash.match", "assertion.boxesHash.match"})
BROKEN = {
    "assertion.bmffHash.mismatch": "content_hash",
    "assertion.dataHash.mismatch": "content_hash",
    "assertion.boxesHash.mismatch": "content_hash",
    "assertion.hashedURI.mismatch": "assertion_hash",
    "claimSignature.mismatch": "claim_signature",
}
"""Failures that mean: changed after signing. Any other is a code that this version does not judge by."""
CONTENT = frozenset(code for code, part in BROKEN.items() if part == "content_hash")
INSTALL = "pip install 'relay-audit-toolkit[media]'"
REASONS = (
    ("more than one manifest store", "two_stores"),
    ("prerelease", "prerelease"),
    ("beyond asset bounds", "file_truncated"),
)
"""Beginnings of what the C2PA library says → what it is called here."""


@dataclass(frozen=True)
class Step:
    """One step of the tree and what it came to; `why` is a word of the message catalogues."""

    name: str
    state: StepState
    why: str = ""


@dataclass(frozen=True)
class Provenance:
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]

    @property
    def settled(self) -> bool:
        """Whether anything was found that agrees or differs; otherwise the file says nothing either way."""
        return any(f.outcome in ("match", "mismatch") for f in self.findings)


def judge(
    facts: MediaFacts,
    knowledge: Knowledge,
    pins: tuple[Pin, ...],
    profile: str,
    today: dt.date,
    link: Link | None = None,
) -> Provenance:
    """The tree for one file. `profile` is empty where nobody said what it should be; `link` is there inside a run only."""
    tier = judge_signer(facts, knowledge, pins, profile, today)
    first = _integrity(facts, tier)
    compared = judge_marks(facts, knowledge, pins, profile, today)
    credentials = _credentials(facts, first, tier, compared, profile, knowledge, today)
    marks = _marks(facts, first, tier, compared)
    steps = _steps(first, tier, compared, link, _never_signed(profile, knowledge, today))
    ended = _ended(steps, link, compared, tier, profile)
    if any(one.code == "media.original" for one in ended):
        credentials = []
    found = tuple(_with_libraries(f, facts) for f in (*credentials, *marks, *ended))
    return Provenance(steps, found)


def _never_signed(profile: str, knowledge: Knowledge, today: dt.date) -> bool:
    """Originals of this profile carry no credentials: the tree begins with step 3."""
    row = next((r for r in knowledge.media_profiles if r.name == profile and r.valid_on(today)), None)
    return row is not None and row.credentials == "never"


def _ended(steps: tuple[Step, ...], link: Link | None, compared: Compared, tier: Tier, profile: str) -> list[Finding]:
    """Step 4, where the steps before it did not end the walk: original and passed on as it is, or original and restored."""
    first, second, third, fourth = steps
    if link is None or fourth.state == "skipped":
        return []
    found: list[Finding] = []
    shown = {"profile": tier.profile or compared.profile or profile or "no_profile"}
    hosts = {"untrusted_hosts": list(link.hosts)}
    if what := [word for word in link.odd if word not in link.told_elsewhere]:
        found.append(finding("media.task_inconsistent", {**shown, "what": what}, observed=hosts))
    if link.restored or link.wrapped:
        params = {**shown, "wrapped": list(link.wrapped), "untrusted_host": link.hosts[-1] if link.hosts else ""}
        one = finding("media.restored_by_relay", params, basis="known_list", observed=hosts)
        found.append(one if link.restored else one.model_copy(update={"severity": "info"}))
    signed = (first.state, second.state) == ("holds", "holds")
    unsigned = first.state == "absent" and second.why == "never_signed"
    if fourth.state == "holds" and third.state == "holds" and (signed or unsigned):
        confidence: Confidence = tier.confidence if signed else "supporting"
        params = {**shown, "signed": "by_the_vendor" if signed else "never_signed"}
        found.append(finding("media.original", params, confidence=confidence, basis="dated_baseline", observed=hosts))
    return found


def _integrity(facts: MediaFacts, tier: Tier) -> Step:
    """Step 1, from the codes. `validation_state` is the library's policy and is not read."""
    integrity = facts.integrity
    if facts.refused:
        return Step("integrity", "unclear", facts.refused)
    if integrity.state in ("absent", "unsupported"):
        return Step("integrity", "absent")
    if integrity.state == "remote":
        return Step("integrity", "unclear", "remote_manifest")
    if integrity.state == "not_checked" and facts.signer_state == "absent":
        elsewhere = facts.signer_detail == "remote_manifest"
        return Step("integrity", "unclear", facts.signer_detail) if elsewhere else Step("integrity", "absent")
    if integrity.state == "not_checked":
        return Step("integrity", "not_checked", "c2pa_missing")
    if integrity.state == "unreadable":
        why = next((word for text, word in REASONS if text in integrity.detail), integrity.detail)
        return Step("integrity", "unclear", why if why in KNOWN_REASONS else "parser_refused")
    return _codes(facts, tier)


KNOWN_REASONS = frozenset({word for _, word in REASONS} | {"out_of_time", "parser_died"})


def _codes(facts: MediaFacts, tier: Tier) -> Step:
    success, hard = set(facts.integrity.success), set(facts.integrity.failure) - SOFT
    if hard & set(BROKEN):
        if facts.fragment and hard == {"assertion.bmffHash.mismatch"}:
            return Step("integrity", "unclear", "lone_fragment")
        if facts.truncated and hard <= CONTENT:
            return Step("integrity", "unclear", "file_truncated")
        return Step("integrity", "fails", "modified")
    if hard:
        return Step("integrity", "unclear", "unknown_codes")
    if "claimSignature.validated" not in success or not success & BINDING:
        return Step("integrity", "unclear", "nothing_bound")
    if tier.name in ("unreadable", "absent"):
        return Step("integrity", "unclear", facts.signer_detail or "parsers_disagree")
    return Step("integrity", "holds")


def _credentials(
    facts: MediaFacts, first: Step, tier: Tier, compared: Compared, profile: str, knowledge: Knowledge, today: dt.date
) -> list[Finding]:
    """What steps 1 and 2 come to."""
    if first.state == "unclear":
        return [finding("media.unreadable", {"reason": first.why})]
    if first.state == "fails":
        parts = sorted({BROKEN[code] for code in facts.integrity.failure if code in BROKEN})
        return [
            finding("media.modified_after_signing", {"parts": parts}, confidence="decisive",
                    observed={"codes": list(facts.integrity.failure)})
        ]  # fmt: skip
    if first.state == "absent":
        return _without(compared, profile, knowledge, today)
    if first.state == "not_checked":
        return [finding("media.not_checked", {"reason": first.why, "signer": tier.name, "command": INSTALL})]
    return [_signer(tier, compared, profile)]


def _without(compared: Compared, profile: str, knowledge: Knowledge, today: dt.date) -> list[Finding]:
    """No credentials: nothing to confirm, unless the rest was compared with an original."""
    if compared.kind:
        return []
    row = next((r for r in knowledge.media_profiles if r.name == profile and r.valid_on(today)), None)
    expected = row.credentials if row else "unknown"
    confidence: Confidence = "supporting" if compared.state == "same_as_original" else "weak"
    params = {"profile": profile or "no_profile", "expected": expected, "encoder": compared.state}
    basis: Basis = "known_list" if row else "none"
    return [finding("media.no_credentials", params, confidence=confidence, basis=basis)]


def _signer(tier: Tier, compared: Compared, profile: str) -> Finding:
    shown = {"profile": tier.profile or profile or "no_profile"}
    certificate = {"leaf_sha256": tier.leaf, "key_sha256": tier.key}
    if tier.name in ("pinned", "same_key"):
        how = "same_certificate" if tier.name == "pinned" else "same_key"
        params = {**shown, "how": how, "known_by": tier.known_by, "encoder": compared.state}
        basis: Basis = "dated_baseline" if tier.known_by == "own_pin" else "known_list"
        return finding("media.signer_matches", params, confidence=tier.confidence, basis=basis, observed=certificate)
    if tier.name in ("test_certificate", "another_key"):
        params = {**shown, "why": tier.name, "untrusted_name": tier.subject}
        known: Basis = "known_list" if tier.name == "test_certificate" else "dated_baseline"
        return finding("media.signer_spoofed", params, confidence=tier.confidence, basis=known, observed=certificate)
    params = {**shown, "relation": tier.name, "untrusted_name": tier.subject, "next": _next(tier, profile)}
    confidence: Confidence = "supporting" if tier.name == "same_authority" else "weak"
    return finding("media.signer_unknown", params, confidence=confidence, observed=certificate)


def _next(tier: Tier, profile: str) -> str:
    rotate = " --rotate" if tier.name == "same_authority" else ""
    return f"relay-audit pin FILE --profile {tier.profile or profile or 'NAME'}{rotate}"


def _marks(facts: MediaFacts, first: Step, tier: Tier, compared: Compared) -> list[Finding]:
    """Step 3. Unsigned marks weigh nothing against a vendor's own signature, and nothing in a file that was changed."""
    trusted = first.state == "holds" and tier.name in ("pinned", "same_key")
    found: list[Finding] = []
    goes_on = first.state in ("absent", "holds") and tier.state != "fails"
    if compared.kind and goes_on:
        params: dict[str, Any] = {"profile": compared.profile, "kind": compared.kind, "differs": list(compared.differs)}
        found.append(finding("media.repackaged", params, basis="dated_baseline"))
    if compared.label is not None and goes_on:
        found.append(finding("media.label_mismatch", compared.label, basis=compared.label_basis))
    if trusted or compared.stale:
        found = [_quiet(one) for one in found]
    for workflow in facts.workflows[:1] if first.state != "fails" else ():
        params = {"carrier": workflow.carrier, "nodes": workflow.nodes, "untrusted_models": list(workflow.models)}
        one = finding("media.self_hosted_pipeline", params, confidence="strong")
        found.append(one if workflow.models and not trusted else _quiet(one))
    return found


def _quiet(one: Finding) -> Finding:
    """Worth reading, held against nobody."""
    return one.model_copy(update={"outcome": "inconclusive", "severity": "info", "confidence": "weak"})


def _steps(first: Step, tier: Tier, compared: Compared, link: Link | None, never_signed: bool) -> tuple[Step, ...]:
    second = Step("signer", "skipped", "never_signed" if never_signed and first.state == "absent" else first.state)
    if first.state in ("holds", "not_checked"):
        second = Step("signer", tier.state, tier.name)
    third = Step("encoder", "skipped", first.state)
    if first.state in ("holds", "absent", "not_checked") and second.state != "fails":
        states: dict[str, StepState] = {
            "same_as_original": "holds",
            "differs_from_original": "fails",
            "not_compared": "not_checked",
        }
        third = Step("encoder", states[compared.state], compared.kind or compared.state)
    if link is None:
        return first, second, third, Step("link", "not_checked", "only_in_a_run")
    reached = third.state in ("holds", "not_checked") and second.state in ("holds", "skipped", "unclear", "absent")
    walked = reached and first.state in ("holds", "absent", "not_checked")
    return first, second, third, Step("link", link.state if walked else "skipped", link.why)


def _with_libraries(one: Finding, facts: MediaFacts) -> Finding:
    """Codes change from version to version: a finding says which one it rests on."""
    return one.model_copy(
        update={"observed": {**one.observed, "libraries": facts.libraries, "file_sha256": facts.sha256}}
    )
