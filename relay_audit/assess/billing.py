"""Check 6: what was really charged. Tokens, arithmetic and price apart; delivery, balance and cache beside them.

Everything here is the relay's own word held against what the client saw, what the site publishes, and the vendor's
list. What the books do not say is no information, never a pass; a charge in the buyer's favour is a fact.
"""

from __future__ import annotations

from relay_audit.assess.admissions import admitted
from relay_audit.assess.billing_amounts import told_multiplier
from relay_audit.assess.billing_arithmetic import Judged, arithmetic, judge
from relay_audit.assess.billing_balance import Verdict, against_balance, usage_pages
from relay_audit.assess.billing_cache import caching
from relay_audit.assess.billing_calls import Bill, bill_of, calls_of
from relay_audit.assess.billing_circumstances import (
    books_of,
    facts,
    few_rows,
    matches,
    mostly_elsewhere,
    no_information,
)
from relay_audit.assess.billing_counter import counter_alone
from relay_audit.assess.billing_delivery import delivery
from relay_audit.assess.billing_plan import plans, windows
from relay_audit.assess.billing_price import prices, told
from relay_audit.assess.billing_totals import dollar_rows, running_totals
from relay_audit.assess.billing_unlogged import fell_without_rows
from relay_audit.evidence import Evidence
from relay_audit.finding import Finding
from relay_audit.fingerprint import Knowledge
from relay_audit.reconcile import reconcile


def assess_billing(evidence: Evidence, knowledge: Knowledge) -> list[Finding]:
    bill, cache = bill_of(evidence), caching(evidence, calls_of(evidence))
    if totals := running_totals(evidence, knowledge):
        return [*totals, *windows(evidence), *cache]
    if bill is None or not any(call.exchange.status == 200 or call.rows for call in bill.calls):
        return [*fell_without_rows(evidence), *counter_alone(evidence, knowledge), *cache]
    if not bill.joined:
        return [
            *fell_without_rows(evidence),
            *counter_alone(evidence, knowledge),
            *no_information(evidence, bill),
            *cache,
            *books_of(bill),
        ]
    done = judge(bill, includes_cache=evidence.pack.usage.input_includes_cache)
    balance = reconcile(evidence.balance, evidence.log, bill.per_unit)
    against = against_balance(evidence, bill, balance, done)
    found = [
        *arithmetic(done, bill),
        *prices(evidence, knowledge, bill, done),
        *told_multiplier(evidence, knowledge, bill),
        *delivery(bill, balance),
        *plans(bill),
        *against.findings,
        *usage_pages(evidence, bill, balance),
        *cache,
    ]
    agreed = _agreement(evidence, knowledge, bill, done, against, found)
    return [*agreed, *found, *books_of(bill, against.state), *admitted(evidence)]


def _agreement(
    evidence: Evidence,
    knowledge: Knowledge,
    bill: Bill,
    done: tuple[Judged, ...],
    against: Verdict,
    found: list[Finding],
) -> list[Finding]:
    """Said only where every judged row comes out and nothing of weight speaks against the bill. What marks for the cache
    do is no matter of the rows: they may follow to the unit from a usage without any cache."""
    said = [f for f in found if f.code != "billing.cache_not_honoured"]
    if any((f.outcome == "mismatch" and f.above_info) or f.code == "billing.undercharged" for f in said):
        return []
    if any(f.outcome == "inconclusive" for f in against.findings):
        return []  # what the balance lost besides is a question: no agreement
    if mostly_elsewhere(bill):
        return [few_rows(bill)]
    if not done:
        return dollar_rows(evidence, knowledge, bill)
    named = facts(evidence, knowledge, bill, done, against.state)
    return [matches(bill, done, named, told(evidence, knowledge, bill, done).params())]
