"""What a run may do, fixed at its start; and what the buyer adds while it lives, checked as a target file is."""

from __future__ import annotations

from typing import Any

from relay_audit.evidence import TargetFacts
from relay_audit.history import History
from relay_audit.signals import AddContext
from relay_audit.target import Target, at_vendor, origin_of, target_from
from relay_audit.words import money


def with_context(history: History, asked: AddContext) -> Target:
    """The target with what was added, checked as a target file is. Raises `TargetError` and `KeyRefused`."""
    table = history.target.model_dump(mode="json", by_alias=True)
    if asked.official_key_env or asked.official_base_url:
        before = table.get("official") or {}
        given = {"key_env": asked.official_key_env, "base_url": asked.official_base_url}
        table["official"] = {**before, **{name: value for name, value in given.items() if value}}
    inner = {"line_names": list(dict.fromkeys([*history.target.internal.line_names, *asked.line_names]))}
    table["internal"] = {**table["internal"], **inner} | ({"lines_file": asked.lines_file} if asked.lines_file else {})
    return at_vendor(target_from(table), history.pack.official_roots)


def official_facts(history: History, target: Target) -> dict[str, Any]:
    if target.official is None or target.official == history.target.official:
        return {}
    origin = origin_of(target.official.base_url)
    return {
        "official_origin": origin,
        "official_model": target.official_model,
        "official_is_vendor": origin in {f"https://{host}" for host in history.pack.official_hosts},
        "no_counter_reason": "" if history.pack.counter is not None else "no_counting_endpoint",
    }


def scope_of(target: Target, facts: TargetFacts) -> dict[str, Any]:
    """What a run may do and spend, fixed at its start; a later plan stays inside it."""
    budget = target.budget
    return {
        "relay": facts.relay_origin,
        "official": facts.official_origin,
        "model": facts.model,
        "group": facts.claim.group,
        "dialect": facts.dialect,
        "checks": list(target.audit.checks),
        "profile": target.audit.profile,
        "max_usd": money(budget.max_usd) if budget.max_usd is not None else "",
        "max_usd_per_30_days": money(budget.max_usd_per_30_days) if budget.max_usd_per_30_days is not None else "",
    }
