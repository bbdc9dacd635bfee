"""How a run begins: planned and quoted, with what was typed; and the approval, which writes one event."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from relay_audit.cli import detached, look, options, permit, retesting
from relay_audit.cli.arguments import amount, key_from, permissions, place_of, severity, targets_from
from relay_audit.cli.console import emit, interactive, language, say
from relay_audit.cli.course import run_targets
from relay_audit.cli.flow import Invocation, approval_needed, begun
from relay_audit.cli.nightly import Night, accepted_from
from relay_audit.cli.opening import opened


def run(
    target: options.TargetFile = None,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    claim: options.ClaimOption = "unknown",
    key_env: options.KeyEnv = "RELAY_KEY",
    official_key_env: options.OfficialKeyEnv = None,
    official_base_url: options.OfficialBaseUrl = None,
    official_proxy: options.OfficialProxy = None,
    dialect: options.Dialect = "anthropic",
    max_usd: options.MaxUsd = None,
    profile: options.ProfileOption = None,
    checks: options.Checks = None,
    also: options.Also = None,
    free_only: options.FreeOnly = False,
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    prices: options.PricesFile = None,
    baselines: options.BaselinesFile = None,
    fail_on: options.FailOnOption = "medium",
    allow_inconclusive: options.AllowInconclusive = False,
    baseline: options.Accepting = None,
    watch: options.WatchFile = None,
    expect_plan: options.ExpectPlan = "",
    since: options.SinceRun = "",
    detach: options.Detach = False,
    no_input: options.NoInput = False,
    allow_origin: options.AllowOrigin = None,
    allow_official_key_to: options.AllowOfficialKeyTo = "",
    allow_private: options.AllowPrivate = False,
    key_prompt: options.KeyPrompt = False,
    key_file: options.KeyFile = None,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Plan, quote, wait for approval, send, record, assess, report."""
    quick = dict(base_url=base_url, model=model, claim=claim, key_env=key_env, official_key_env=official_key_env,
                 official_base_url=official_base_url, official_proxy=official_proxy, dialect=dialect, profile=profile,
                 checks=checks, also=also)  # fmt: skip
    earlier, again = retesting.repeated(since) if since else (None, None)
    targets = [again] if again and target is None and base_url is None else targets_from(target, quick)
    key = key_from(prompt=key_prompt, file=key_file, as_json=json, no_input=no_input)
    call = Invocation(
        lang=language(lang, os.environ), as_json=json, no_input=no_input, packs=packs, knowledge=knowledge, prices=prices,
        baselines=baselines, max_usd=amount(max_usd, "--max-usd"), expect_plan=expect_plan, free_only=free_only, fail_on=severity(fail_on),
        allow_inconclusive=allow_inconclusive, hand_over=detached.hand_over if detach else None,
        place=place_of(target), earlier=earlier,
    )  # fmt: skip
    call.night = Night(accepted_from(baseline, call.space, call.clock) if baseline else None, watch)
    call.permissions = permissions(
        allow_origin, allow_official_key_to, private=allow_private, key=key, may_ask=call.may_ask
    )
    raise typer.Exit(run_targets(targets, call))


def quote(
    target: options.TargetFile = None,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    claim: options.ClaimOption = "unknown",
    key_env: options.KeyEnv = "RELAY_KEY",
    official_key_env: options.OfficialKeyEnv = None,
    official_base_url: options.OfficialBaseUrl = None,
    dialect: options.Dialect = "anthropic",
    profile: options.ProfileOption = None,
    checks: options.Checks = None,
    also: options.Also = None,
    packs: options.PacksDir = None,
    knowledge: options.KnowledgeDir = None,
    prices: options.PricesFile = None,
    baselines: options.BaselinesFile = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask nobody: our own estimates and lists only.")] = False,
    show_requests: Annotated[bool, typer.Option("--show-requests", help="Print every body as it will leave.")] = False,
    allow_origin: options.AllowOrigin = None,
    allow_private: options.AllowPrivate = False,
    lang: options.LangOption = None,
    json: options.Json = False,
) -> None:
    """Plan and quote only; free requests at most. Nothing is approved or charged."""
    quick = dict(base_url=base_url, model=model, claim=claim, key_env=key_env, official_key_env=official_key_env,
                 official_base_url=official_base_url, dialect=dialect, profile=profile, checks=checks,
                 also=also)  # fmt: skip
    call = Invocation(lang=language(lang, os.environ), as_json=json, packs=packs, knowledge=knowledge, prices=prices,
                      baselines=baselines, offline=offline)  # fmt: skip
    call.permissions = permissions(allow_origin, "", private=allow_private, key="", may_ask=call.may_ask)
    for one in targets_from(target, quick):
        with begun(one, call) as (recorder, _, _, found):
            look.show_quote(recorder, call, approval_needed(recorder, found).details, show_requests=show_requests)


def approve(
    run: options.RunId,
    quote: Annotated[str, typer.Option("--quote", metavar="DIGEST", help="The quote that is approved.")],
    max_usd: Annotated[str, typer.Option("--max-usd", metavar="X", help="The ceiling.")],
    json: options.Json = False,
) -> None:
    """Permit exactly this quote up to this ceiling. Sends nothing."""
    asked = interactive(as_json=json, no_input=False, environ=os.environ)
    with opened(run) as store:
        result = permit.give_approval(store, quote, amount(max_usd, "--max-usd"), terminal=asked)
    emit(result) if json else say(
        f"approved: {result['max_usd']} for {result['quote_digest'][:12]}…\n  -> {result['then']}", sys.stdout
    )
