"""A rule table of the buyer's own in place of ours: `report --policy FILE`. The card prints its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from relay_audit.catalog import knowledge_from
from relay_audit.errors import PackError
from relay_audit.fingerprint import VerdictRule
from relay_audit.refusal import parse
from relay_audit.words import Frozen


class Policy(Frozen):
    rules: tuple[VerdictRule, ...]
    digest: str
    """SHA-256 of the file's bytes."""


def read_policy(file: Path) -> Policy:
    """A file of `[[rules]]`, as `known_fingerprints/verdict_rules.toml`. Raises `PackError`."""
    try:
        raw = file.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise PackError(f"the policy cannot be read: {error.strerror}", next_step="correct its path") from None
    except UnicodeDecodeError:
        raise PackError("the policy is not UTF-8 text", next_step="save it as UTF-8") from None
    others = sorted(set(parse(file.name, text)) - {"rules"})
    if others:
        raise PackError(
            f"a policy holds [[rules]] and nothing else; this one has {others[0][:40]}",
            next_step="begin with a copy of known_fingerprints/verdict_rules.toml",
        )
    rules = knowledge_from({file.name: text}).rules
    if not rules:
        raise PackError(
            "this policy has no rules", next_step="begin with a copy of known_fingerprints/verdict_rules.toml"
        )
    if rules[-1].any_code or rules[-1].min_severity or rules[-1].incomplete is not None or rules[-1].unmet_need:
        raise PackError(
            "the last rule of a policy has to fit always, so that every run gets a verdict",
            next_step="end it with a rule that has only id, verdict and why",
        )
    return Policy(rules=rules, digest=hashlib.sha256(raw).hexdigest())
