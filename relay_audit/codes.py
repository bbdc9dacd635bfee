"""The finding codes of this version: stable, never reused. `docs/finding_codes.md` is generated from this table.

A code's texts (claim, other explanations, what would refute it) live in the message catalogues under the same name.
"""

from __future__ import annotations

from typing import Any

from relay_audit.bounds import percent, unseen_share
from relay_audit.code import Code, code
from relay_audit.finding import Basis, Confidence, EvidenceLevel, Finding, Outcome, Severity
from relay_audit.money_codes import MONEY_CODES

CODES: dict[str, Code] = {
    "channel.matches": code(
        1, "backend", "match", "info", "none",
        "independent signals agree with the claim; states the smallest share that would have been seen (95 %)",
        "claimed", "channel", "n", "share_bound", "signals",
    ),
    "channel.mismatch": code(
        1, "backend", "mismatch", "high", "users",
        "at least two independent signals name another channel; one alone: low",
        "claimed", "channel", "n", "of", "signals",
    ),
    "channel.mixed": code(
        1, "backend", "mismatch", "medium", "users",
        "samples of one run name different channels; shares with interval", "claimed", "shares", "n", "signals",
    ),
    "channel.unknown": code(
        1, "backend", "inconclusive", "info", "none", "signals unknown to the knowledge of the day", "n", "shapes",
    ),
    "channel.signals_contradict": code(
        1, "backend", "mismatch", "medium", "users",
        "signals of one answer name different channels (forged or rebuilt)", "n", "of", "pairs",
    ),
    "channel.id_reminted": code(
        1, "backend", "mismatch", "low", "none",
        "at least 3 ids of the run outside the vendor's scheme or time window; fewer: inconclusive", "n", "of", "reason",
    ),
    "channel.id_replayed": code(
        1, "backend", "mismatch", "medium", "users", "the same id on different requests", "n", "of",
    ),
    "integrity.response_replayed": code(
        1, "backend", "match", "info", "users",
        "same id and text for a deliberate repeat of one body; charged: mismatch, medium", "n", "of", "charged",
    ),
    "channel.chained_relay": code(
        1, "backend", "match", "info", "none", "a second relay behind the first", "via",
    ),
    "channel.format_converted": code(
        1, "backend", "mismatch", "low", "users",
        "the relay's own log says that requests went on in another vendor's format; the same vendor's other format: info",
        "n", "of", "formats",
    ),
    "channel.subscription_pool_hint": code(
        1, "backend", "inconclusive", "info", "users",
        "`inference_geo: not_available` on a model that officially says `global` (with a contrary claim: low), or several "
        "accounts at the vendor", "n", "of", "signs",
    ),
    "tokens.match": code(
        2, "cost", "match", "info", "none", "billed input equals the official count on every text", "n", "offset", "share_bound",
    ),
    "tokens.template_noise": code(
        2, "cost", "match", "info", "none", "constant offset of 1 to 8 tokens, slope 1", "n", "offset", "low", "high",
        "share_bound",
    ),
    "tokens.inconclusive_offset": code(
        2, "cost", "inconclusive", "low", "none", "constant offset of 9 to 49 tokens: never an accusation", "n", "offset",
    ),
    "tokens.constant_surplus": code(
        2, "cost", "mismatch", "medium", "users",
        "constant offset of at least 50 tokens, spread at most 2 over at least 3 sizes (or three sends of the published "
        "sentence); at least 200: high",
        "n", "surplus", "low", "high", "official", "billed", "per_1000_calls", "condition",
    ),
    "tokens.proportional_surplus": code(
        2, "cost", "mismatch", "high", "users", "slope above 1, alike in at least two scripts", "n", "slope", "offset", "percent",
    ),
    "tokens.tokenizer_differs": code(
        2, "cost", "mismatch", "medium", "users", "slopes differ between scripts: another tokenizer", "n", "slopes",
    ),
    "tokens.intermittent_surplus": code(
        2, "cost", "mismatch", "medium", "users", "some samples at zero and others at one constant",
        "n", "of", "surplus", "share_low", "share_high",
    ),
    "tokens.variable_surplus": code(
        2, "cost", "mismatch", "medium", "users", "surplus non-zero and differing", "n", "low", "high", "depends_on",
    ),
    "tokens.cache_breakpoint_injected": code(
        2, "cost", "mismatch", "medium", "users", "cache fields on a prompt without breakpoints", "n", "of", "cached",
    ),
    "tokens.output_inflated": code(
        2, "cost", "mismatch", "high", "users",
        "verbatim copies billed above what the vendor bills for as many characters, on all texts",
        "n", "billed", "official", "slope",
    ),
    "tokens.hidden_text_recited": code(
        2, "cost", "inconclusive", "info", "none",
        "asked for (`--also recitation`): two askings gave the same text, for which a surplus leaves room; supports, carries nothing",
        "n", "of", "words", "about_tokens", "untrusted_excerpt",
    ),
    "tokens.nothing_recited": code(
        2, "cost", "inconclusive", "info", "none",
        "asked for (`--also recitation`): no text that would count; refutes nothing", "of", "reason",
    ),
    "tokens.deficit": code(2, "cost", "match", "info", "none", "billed less than the official count", "n", "offset", "share_bound"),
    "tokens.inconclusive": code(
        2, "cost", "inconclusive", "info", "none", "too few comparable samples, or a control that does not control",
        "n", "reason",
    ),
    "model.relay_header_admits": code(
        3, "model", "mismatch", "critical", "users",
        "a header of the relay names the model it really asked for; info when it is an alias of the same model",
        "requested", "untrusted_upstream", "n", "header",
    ),
    "model.relay_log_admits_mapping": code(
        3, "model", "mismatch", "critical", "users",
        "the relay's own log names another model upstream; info when it is an alias of the same model",
        "requested", "untrusted_upstream", "n",
    ),
    "model.matches": code(
        3, "model", "match", "info", "none",
        "a road that tells the claimed model from its siblings was open and agrees; states the smallest share of another "
        "model that would have been seen (95 %)", "requested", "roads", "siblings", "n", "share_bound", "longest",
    ),
    "model.not_verifiable": code(
        3, "model", "inconclusive", "info", "none", "no road that tells it from its siblings was open",
        "requested", "roads", "siblings", "reason", "longest",
    ),
    "model.substituted": code(
        3, "model", "mismatch", "critical", "users",
        "a second, independent source (error text, log, signature, header, limit and tokenizer) names another model",
        "requested", "untrusted_leaked", "road", "n",
    ),
    "model.limit_mismatch": code(
        3, "model", "mismatch", "medium", "users", "the limit in the error belongs to another model; without a second sign: low",
        "requested", "cap", "expected_cap", "fits",
    ),
    "model.tool_prompt_differs": code(
        3, "model", "mismatch", "medium", "users",
        "what the vendor adds where a tool is offered, and where it is forced, is another generation's on the bill; without the "
        "vendor's own count, or where forcing one costs both the same: low; nobody's: inconclusive",
        "requested", "billed", "low", "high", "fits",
    ),
    "model.name_mismatch": code(
        3, "model", "mismatch", "low", "none", "the returned name differs after normalising dates and prefixes",
        "requested", "untrusted_returned", "n", "of",
    ),
    "params.matches": code(
        4, "interface", "match", "info", "none",
        "every case that could be compared was refused or honoured as the vendor does; each was sent once", "n", "of", "share_bound",
    ),
    "params.relay_default": code(
        4, "interface", "match", "info", "users",
        "what an honest hop of that software does by default; a need of the buyer makes the verdict `fix_first`",
        "cases", "fields", "software",
    ),
    "params.illegal_accepted": code(
        4, "interface", "mismatch", "medium", "users",
        "the vendor refuses it, the relay answers 200; software unknown and an honest hop of some does it: low", "cases", "n", "of",
    ),
    "params.key_unchecked": code(
        4, "interface", "mismatch", "low", "integration",
        "a made-up key is answered like the buyer's own: nobody's model or money is in it", "n", "of",
    ),
    "params.clamped": code(
        4, "interface", "mismatch", "medium", "users", "a value was changed on the way", "cases", "n", "of",
    ),
    "params.legal_dropped": code(
        4, "interface", "mismatch", "medium", "users", "a legal field is gone: the answer shows the default instead",
        "cases", "n", "of",
    ),
    "params.not_honoured": code(
        4, "interface", "mismatch", "medium", "users", "accepted without effect; refused though legal: low", "cases", "n", "of",
    ),
    "params.rerouted_on_error": code(
        4, "interface", "mismatch", "medium", "users", "an illegal request was answered by another channel or model",
        "cases", "n", "of", "signs",
    ),
    "params.error_rewritten": code(
        4, "interface", "match", "info", "integration", "refused with another status or in other words; the meaning is kept",
        "cases", "n", "of",
    ),
    "params.error_unusable": code(
        4, "interface", "mismatch", "low", "integration",
        "at least three refusals lost status or meaning, and none kept it", "cases", "n", "of",
    ),
    "media.original": code(
        5, "backend", "match", "info", "none",
        "all four steps hold, inside a run: hashes, signer, encoder and marks, and link, task and usage (①–④)", "profile", "signed",
    ),
    "media.signer_matches": code(
        5, "backend", "match", "info", "none",
        "the hashes hold and the signing certificate, or its key, is one of a known original (steps 1 and 2)",
        "profile", "how", "known_by", "encoder",
    ),
    "media.no_credentials": code(
        5, "backend", "inconclusive", "info", "none", "no C2PA in the file; says what the profile expects and whether the rest agrees",
        "profile", "expected", "encoder",
    ),
    "media.repackaged": code(
        5, "backend", "mismatch", "low", "users",
        "differs from the pinned original: a new container around the same stream, or another encoding", "profile", "kind", "differs",
    ),
    "media.unreadable": code(
        5, "backend", "inconclusive", "info", "none",
        "truncated, malformed, a lone fragment, credentials elsewhere, two stores or chains, codes unknown to this version", "reason",
    ),
    "media.not_checked": code(
        5, "backend", "not_run", "info", "none",
        "the C2PA library is not there: the hash over the content was not checked; the signer was", "reason", "signer", "command",
    ),
    "media.modified_after_signing": code(
        5, "backend", "mismatch", "medium", "users", "a hash or the claim's signature does not hold", "parts",
    ),
    "media.signer_spoofed": code(
        5, "backend", "mismatch", "high", "users",
        "a vendor's name on another certificate, while a pinned one of that vendor was valid and the chain ends in no public root; "
        "or a test certificate whose key is public",
        "profile", "why", "untrusted_name",
    ),
    "media.signer_unknown": code(
        5, "backend", "inconclusive", "info", "none", "an unknown certificate; says whether name or issuing key are known",
        "profile", "relation", "untrusted_name", "next",
    ),
    "media.self_hosted_pipeline": code(
        5, "backend", "mismatch", "high", "users",
        "a ComfyUI workflow that loads model weights; without weights, or under a known signature: inconclusive",
        "carrier", "nodes", "untrusted_models",
    ),
    "media.label_mismatch": code(
        5, "backend", "mismatch", "low", "users", "the label of generated content is not as on an original", "profile", "expected", "found",
    ),
    "media.task_inconsistent": code(
        5, "backend", "mismatch", "low", "users",
        "the task's number, usage, length or picture size contradict the order or each other", "profile", "what",
    ),
    "media.restored_by_relay": code(
        5, "backend", "mismatch", "low", "users",
        "delivered from an address that is not the vendor's; only wrapped in the relay's own numbers: info",
        "profile", "wrapped", "untrusted_host",
    ),
    **MONEY_CODES,
    "run.unconfirmed_send": code(
        0, "run", "inconclusive", "info", "none", "a request that may have been delivered and has no outcome: never sent again",
        "n", "settled", "at_most",
    ),
    "run.gated_client": code(
        0, "run", "inconclusive", "info", "none", "the relay admits only certain clients; their identity is not borrowed", "status",
    ),
    "run.unreachable": code(0, "run", "inconclusive", "info", "none", "the relay did not answer", "failure"),
    "run.unstable": code(
        0, "run", "inconclusive", "info", "none", "three chargeable requests in a row failed, or most of them", "n", "of",
    ),
    "run.budget_limited": code(
        0, "run", "inconclusive", "info", "none", "a stage ended early because of money", "reason", "sent", "planned",
    ),
    "run.clock_skew": code(
        0, "run", "inconclusive", "info", "none", "our clock and the relay's Date differ by more than two minutes", "seconds",
    ),
    "run.foreign_secret_seen": code(
        0, "run", "inconclusive", "info", "none", "a secret that is not ours stood in an answer; kept as kind and hash", "kinds",
    ),
    "run.hostile_response": code(
        0, "run", "mismatch", "low", "integration", "an answer hit a limit of size, time, depth or form; contained", "n", "kinds",
    ),
    "run.key_echoed": code(0, "run", "mismatch", "medium", "users", "the relay returned our key in an answer", "n"),
    "run.probe_error": code(
        0, "run", "error", "info", "none", "an assessor failed; the others still ran", "assessor",
    ),
}  # fmt: skip


def finding(
    code: str,
    params: dict[str, Any],
    *,
    exchanges: tuple[str, ...] = (),
    outcome: Outcome | None = None,
    severity: Severity | None = None,
    confidence: Confidence = "supporting",
    evidence_level: EvidenceLevel = "measured",
    basis: Basis = "none",
    expected: dict[str, Any] | None = None,
    observed: dict[str, Any] | None = None,
    check: int | None = None,
) -> Finding:
    """A finding with the defaults of its code; of `n` clean samples it says the smallest share that they would have shown.
    Raises KeyError for an unknown code, ValueError for a missing parameter."""
    spec = CODES[code]
    if "share_bound" in spec.params and isinstance(n := params.get("n"), int):
        params = {"share_bound": percent(unseen_share(n)), **params}
    if missing := [name for name in spec.params if name not in params]:
        raise ValueError(f"{code} needs {', '.join(missing)}")
    return Finding(
        code=code,
        check=spec.check if check is None else check,
        outcome=outcome or spec.outcome,
        severity=severity or spec.severity,
        impact=spec.impact,
        confidence=confidence,
        evidence_level=evidence_level,
        basis=basis,
        expected=expected or {},
        observed=observed or {},
        params=params,
        exchanges=tuple(x for x in exchanges if x),
        other_explanations=(f"{code}.other",),
        refuted_by=f"{code}.refuted",
    )
