"""Who is audited, against whom, and what was claimed: the target file.

Nothing in it is a secret: a key is the *name* of an environment variable. It may have been written by somebody else,
so it confirms nothing about where a key may go (see `origins.py`).
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from decimal import Decimal
from typing import Any, Literal

import tomli
from pydantic import Field, ValidationError, field_validator, model_validator

from relay_audit.base_address import is_loopback as is_loopback
from relay_audit.base_address import normalise_address as normalise_address
from relay_audit.base_address import origin_of as origin_of
from relay_audit.errors import KeyRefused, TargetError
from relay_audit.video_tier import Video
from relay_audit.video_tier import VideoTier as VideoTier
from relay_audit.words import AuthStyle, Frozen

VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
Profile = Literal["quick", "standard", "thorough"]
Extra = Literal["recitation"]
"""What is sent only where the buyer asks for it by name."""


class Claim(Frozen):
    """What the vendor says. Never evidence."""

    channel: str = Field(default="unknown", pattern=r"^[a-z0-9_]{2,32}$")
    """A channel that the knowledge or a pack names, or `unknown`."""
    group: str = ""
    """The relay's name for this supply ("官转", "default"); a label chosen by the relay."""
    ratio: Decimal | None = Field(default=None, gt=0)
    """Claimed multiple of the official list price."""


class Subject(Frozen):
    name: str = Field(default="relay", min_length=1, max_length=80)
    """The buyer's own name for this line. Internal: it appears in no vendor's or public report."""
    model: str = Field(min_length=1, max_length=200)
    """As the relay calls it."""
    dialect: str = "anthropic"
    claim: Claim = Claim()


class RelaySide(Frozen):
    base_url: str
    key_env: str = "RELAY_KEY"
    auth: Literal["auto"] | AuthStyle = "auto"
    software: str = "auto"
    proxy: str = ""
    ca_file: str = ""
    user_agent: str = ""
    """Sent as is; empty means the plain default of the HTTP library, not our name."""


class OfficialSide(Frozen):
    base_url: str = ""
    """Empty means the vendor's own address, which the dialect names."""
    model: str = ""
    """The vendor's own name of the model; empty means the same as the relay's."""
    key_env: str = "OFFICIAL_KEY"
    proxy: str = ""
    ca_file: str = ""


class Audit(Frozen):
    profile: Profile = "standard"
    checks: tuple[int, ...] = ()
    """Empty means all that this version has."""
    also: tuple[Extra, ...] = ()
    """What no profile sends by itself."""

    @field_validator("checks")
    @classmethod
    def _known(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(number not in range(1, 7) for number in value):
            raise ValueError("checks are numbered 1 to 6")
        return value


class Budget(Frozen):
    max_usd: Decimal | None = Field(default=None, gt=0)
    max_usd_per_30_days: Decimal | None = Field(default=None, gt=0)


class Rate(Frozen):
    """An exchange rate the buyer vouches for."""

    value: Decimal = Field(gt=0)
    date: dt.date
    source: str = Field(min_length=1)


class Prices(Frozen):
    file: str = ""
    cny_per_usd: Rate | None = None


class Paid(Frozen):
    amount: Decimal = Field(gt=0)
    currency: str = Field(min_length=3, max_length=3)
    credited: Decimal = Field(gt=0)
    """Site dollars the relay credited for it."""


class Internal(Frozen):
    """Only for the decision card; the leak guard refuses a report in which any of it appears."""

    line_names: tuple[str, ...] = ()
    lines_file: str = ""
    paid: Paid | None = None
    typical_input_tokens: int | None = Field(default=None, gt=0)


class Target(Frozen):
    """One line of supply: this relay, this group, this model."""

    subject: Subject = Field(alias="target")
    relay: RelaySide
    official: OfficialSide | None = None
    audit: Audit = Audit()
    needs: dict[str, str | int | bool] = Field(default_factory=dict)
    budget: Budget = Budget()
    video: Video = Video()
    prices: Prices = Prices()
    internal: Internal = Internal()

    @model_validator(mode="after")
    def _sides_differ(self) -> Target:
        if self.official is not None and self.official.key_env == self.relay.key_env and not self.against_itself:
            raise ValueError("relay.key_env and official.key_env name the same variable; the two sides need two keys")
        return self

    @property
    def against_itself(self) -> bool:
        """The same address stands on both sides: a calibration. Only there one key may serve both."""
        addresses = [self.relay.base_url, self.official.base_url if self.official else ""]
        return all(addresses) and len({normalise_address(address) for address in addresses}) == 1

    @property
    def key_names(self) -> tuple[str, ...]:
        """The variables that hold this run's keys."""
        return (self.relay.key_env, *([self.official.key_env] if self.official else []))

    @property
    def official_model(self) -> str:
        return (self.official.model if self.official else "") or self.subject.model


class Place(Frozen):
    """Where a target file says what is under test: reports for code scanning have to point at a line."""

    path: str
    """Relative to where the audit was started, with forward slashes."""
    line: int = Field(default=1, ge=1)


def read_target(text: str) -> list[Target]:
    """Target files as TOML. `models = [...]` is shorthand for one target each.

    Raises `TargetError` (unknown keys name the nearest known one) and `KeyRefused` (a literal key in the file).
    """
    try:
        table = tomli.loads(text, parse_float=Decimal)
    except tomli.TOMLDecodeError as error:
        raise TargetError(
            f"not valid TOML: {_without_quotes(str(error))}",
            next_step="compare with the example in README, section “Target file”",
        ) from None
    refuse_literal_keys(table)
    subject = table.get("target")
    models = subject.pop("models", None) if isinstance(subject, dict) else None
    if models is None:
        return [target_from(table)]
    if not isinstance(models, list) or not models or "model" in (subject or {}):
        raise TargetError("target.models is a non-empty list and replaces target.model", next_step="keep one of both")
    return [target_from({**table, "target": {**(subject or {}), "model": model}}) for model in models]


def target_from(table: dict[str, Any]) -> Target:
    """A target from plain data, with both addresses normalised. Raises `TargetError`."""
    refuse_literal_keys(table)
    try:
        parsed = Target.model_validate(table)
    except ValidationError as error:
        raise TargetError(_explain(error), next_step="correct the line and run again; nothing was sent") from None
    relay = parsed.relay.model_copy(update={"base_url": normalise_address(parsed.relay.base_url)})
    official = parsed.official
    if official is not None:
        address = normalise_address(official.base_url) if official.base_url else ""
        official = official.model_copy(update={"base_url": address})
    return parsed.model_copy(update={"relay": relay, "official": official})


def at_vendor(target: Target, roots: tuple[str, ...]) -> Target:
    """The target with its official address, by the dialect's own API roots where the file names none, or only the host of
    one of them. Raises `TargetError`."""
    official = target.official
    if official is None:
        return target
    root = official.base_url or next(iter(roots), "")
    if not root:
        raise TargetError("this dialect names no official host", next_step="give official.base_url")
    if root == origin_of(root):
        root = next((own for own in roots if origin_of(own) == root), root)
    return target.model_copy(update={"official": official.model_copy(update={"base_url": root})})


def against_itself(target: Target, channel: str) -> Target:
    """The official side of a target (its address filled in) as both sides, claimed to be what it is."""
    official = target.official
    if official is None or not official.base_url:
        raise TargetError("this target has no official side", next_step="add [official] with key_env")
    relay = RelaySide(
        base_url=official.base_url, key_env=official.key_env, proxy=official.proxy, ca_file=official.ca_file
    )
    subject = Subject(model=target.official_model, dialect=target.subject.dialect, claim=Claim(channel=channel))
    return Target(
        subject=subject, relay=relay, official=official, audit=Audit(profile="thorough"), prices=target.prices
    )


def refuse_literal_keys(table: Any, at: str = "") -> None:  # noqa: ANN401  any TOML value
    """A key pasted where a variable's name belongs is refused before anything else, by position, never by text."""
    if isinstance(table, dict):
        for name, value in table.items():
            if _KEY_LIKE.search(name):
                raise KeyRefused(
                    f"a name in {f'[{at}]' if at else 'the file'} looks like a key itself",
                    next_step="take it out of the file; if it was shared, revoke the key",
                )
            place = f"{at}.{name}" if at else name
            if name == "key_env" and isinstance(value, str) and not _is_variable(value):
                raise KeyRefused(
                    f"{place} holds something that is not the name of an environment variable",
                    next_step="put the key into a variable (export RELAY_KEY=…) and its name here; "
                    "if this file was shared, revoke the key",
                )
            refuse_literal_keys(value, place)
    elif isinstance(table, list):
        for index, value in enumerate(table):
            refuse_literal_keys(value, f"{at}[{index}]")
    elif isinstance(table, str) and _KEY_LIKE.search(table):
        raise KeyRefused(
            f"{at} looks like a key itself", next_step="take it out of the file; if it was shared, revoke the key"
        )


_KEY_LIKE = re.compile(r"(?:^|[^A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|cr_[A-Za-z0-9]{24,}|AIza[A-Za-z0-9_-]{30,})")


def _is_variable(text: str) -> bool:
    return bool(VARIABLE.match(text)) and not _KEY_LIKE.search(text) and not (len(text) > 40 and "_" not in text)


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors(include_input=False, include_url=False):
        place = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            lines.append(f"unknown key {place}{_nearest(item['loc'])}")
        else:
            lines.append(f"{place}: {item['msg']}")
    return "; ".join(lines)


def _nearest(where: tuple[int | str, ...]) -> str:
    model: Any = Target
    for part in where[:-1]:
        fields = getattr(model, "model_fields", {})
        found = next((f for n, f in fields.items() if part in (n, f.alias)), None)
        annotation = found.annotation if found else None
        model = next(
            (a for a in (annotation, *getattr(annotation, "__args__", ())) if hasattr(a, "model_fields")), None
        )
        if model is None:
            return ""
    known = [field.alias or name for name, field in model.model_fields.items()]
    close = difflib.get_close_matches(str(where[-1]), known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else f" (known: {', '.join(known)})"


def _without_quotes(text: str) -> str:
    return re.sub(r"'[^']*'", "…", text)
