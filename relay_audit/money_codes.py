"""The finding codes of check 6, what was really charged. All of them are in `codes.CODES`."""

from __future__ import annotations

from relay_audit.code import Code, code

MONEY_CODES: dict[str, Code] = {
    "billing.matches": code(
        6, "cost", "match", "info", "none",
        "every joined row recomputes to its charge from the usage we saw and the row's own ratios; names what explains it",
        "n", "charged", "facts", "not_judged", "share_bound",
    ),
    "billing.overcharged": code(
        6, "cost", "mismatch", "high", "users",
        "charged more than the usage we saw and the row's own ratios give; or the balance fell by more than all rows say",
        "n", "charged", "recomputed", "difference", "cause",
    ),
    "billing.undercharged": code(
        6, "cost", "match", "info", "none", "charged less than the usage and the row's own ratios give", "n", "difference",
    ),
    "billing.price_differs_from_published": code(
        6, "cost", "mismatch", "high", "users",
        "the row's ratios are above those of the public price list, with the hours in which that was seen; info where the "
        "list changed meanwhile",
        "n", "of", "published_rate", "charged_rate", "factor", "difference", "hours", "claimed", "published", "charged_ratio",
    ),
    "billing.ratio_differs_from_claim": code(
        6, "cost", "mismatch", "medium", "users",
        "the multiple of the official list price is above the claimed one; info where the public list shows it (lower is a fact)",
        "n", "claimed", "published", "charged_ratio", "hours",
    ),
    "billing.group_differs_from_claim": code(
        6, "cost", "mismatch", "medium", "users",
        "rows name another group than the one that was sold; low where the claimed one is no group of the price list",
        "n", "of", "claimed", "untrusted_groups",
    ),
    "billing.duplicate_charge": code(
        6, "cost", "mismatch", "high", "users", "more than one row charges for one send", "n", "rows", "charged", "difference",
    ),
    "billing.error_charged": code(
        6, "cost", "mismatch", "high", "users", "a refused request was charged", "n", "charged", "statuses",
    ),
    "billing.empty_reply_charged": code(
        6, "cost", "mismatch", "high", "users", "a complete answer with nothing in it was charged", "n", "of", "charged",
    ),
    "billing.incomplete_charged": code(
        6, "cost", "mismatch", "high", "users",
        "a stream that ended without its last event, cut not by us, was charged", "n", "of", "charged",
    ),
    "billing.hold_not_released": code(
        6, "cost", "mismatch", "medium", "users",
        "after the bounded wait the balance lacks, to the unit, what was reserved", "n", "held", "waited_s", "since", "until",
    ),
    "billing.refund_missing": code(
        6, "cost", "mismatch", "medium", "users",
        "what was taken in advance for a request that brought nothing did not come back in full",
        "n", "charged", "refunded", "difference", "waited_s",
    ),
    "billing.refund_late": code(
        6, "cost", "mismatch", "medium", "users", "a refund later than 10 s (low up to 60 s)", "n", "refunded", "delay_s",
    ),
    "billing.tiers_measured": code(
        6, "cost", "match", "info", "none",
        "per ordered tier: charge, refund, net, multiple of the official price of that very tier", "n", "table",
    ),
    "billing.tier_refused": code(
        6, "cost", "mismatch", "medium", "users", "a tier that the price list names was ordered and refused",
        "tier", "charged", "refunded", "difference",
    ),
    "billing.cache_misbilled": code(
        6, "cost", "mismatch", "medium", "users",
        "cached input billed as new, 5 m and 1 h confused (sign shown; low where it favours the buyer)",
        "n", "kind", "charged", "recomputed", "difference",
    ),
    "billing.cache_not_honoured": code(
        6, "cost", "mismatch", "medium", "users",
        "marks for the prompt cache are never written and sometimes read (another vendor's semantics); neither: low",
        "n", "written", "read", "kind",
    ),
    "billing.usage_endpoint_unreliable": code(
        6, "cost", "mismatch", "low", "users",
        "usage page or balance against the log, either direction, after unit conversion", "endpoint", "told", "log", "factor",
    ),
    "billing.log_unavailable": code(
        6, "cost", "inconclusive", "info", "none", "no per-call log with this key, or an empty one: no information", "reason",
    ),
    "billing.log_unsafe_to_read": code(
        6, "cost", "inconclusive", "info", "none", "the log answers only to a key in the URL, which is refused", "software",
    ),
    "billing.foreign_rows": code(
        6, "cost", "match", "info", "none", "other traffic on the same key; a count, a sum and a time span", "count",
    ),
    "billing.log_truncated": code(
        6, "cost", "match", "info", "none", "the log shows only its newest 1,000 rows", "rows",
    ),
    "billing.settlement_pending": code(
        6, "cost", "match", "info", "none", "rows were still missing after the bounded wait", "n", "of", "waited_s",
    ),
    "billing.refund_open": code(
        6, "cost", "inconclusive", "info", "none", "what a film that was not made has cost was not seen to come back, and may have",
        "charged", "refunded", "difference", "waited_s", "reason",
    ),
    "billing.unmatched_rows": code(
        6, "cost", "match", "info", "none", "rows that could be ours and fit no exchange, or more than one", "n",
    ),
    "billing.gated_at_till": code(
        6, "cost", "inconclusive", "info", "none", "a reserve was refused before any upstream call; says which ratio it leaked",
        "needed", "per_mtok", "ratio",
    ),
}  # fmt: skip
