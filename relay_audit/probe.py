"""What a probe file may say: what is sent, what it may cost, how it is judged, why, and what it does not prove.

A probe holds no conditions, loops or expressions. Three closed dicts carry the rest: assessors, generators, values.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from relay_audit.pack import relative_path
from relay_audit.target import Extra
from relay_audit.video import TaskSpec
from relay_audit.words import Bilingual, Frozen

Stage = Literal["probe", "canary", "batch"]
AssessorName = Literal[
    "channel", "token_parity", "token_intercept", "model_identity", "parameter_parity", "billing", "media", "tiers",
    "output_echo", "recitation", "repeated", "film_parameters",
]  # fmt: skip
ProfileName = Literal["quick", "standard", "thorough"]

REFERENCE = re.compile(r"^\$[a-z_]+$")

VALUES: dict[str, str] = {
    "$model": "the model under audit, as the side being asked calls it",
    "$nonce": "a fresh word of this run",
    "$max_output_plus_1": "the claimed model's published output limit plus one; only where the dialect allows it",
    "$next_output_plus_1": "the next larger output limit that is published for a model of the dialect, plus one; only where the "
    "dialect allows it and there is one",
    "$unknown_model": "a model name that nobody has",
    "$prefix_words": "so many words that a prefix of them is above the smallest that the vendor caches for the model",
    "$seconds": "how long the ordered film is to be",
    "$seconds_text": "the same as a text",
    "$resolution": "the ordered resolution, as this vendor writes it",
    "$size": "width and height of the ordered film, as this vendor writes them",
    "$mode": "the vendor's word for the ordered quality",
}
"""Things a body may refer to, besides the factors of the request's own matrix."""

GENERATORS: dict[str, str] = {
    "text": "a fresh text: {generate = 'text', script = 'ascii'|'cjk'|'emoji'|'code', units = N, closing = 'one_word'|''}; "
    "N words (ascii), N characters (cjk), N/2 symbols (emoji) or N/5 lines (code), all of it from the run's seed",
    "repeated_line": "one fresh line, ended by a newline, N times over: {generate = 'repeated_line', script, times = N, "
    "closing}; the same line in every request of the run that names the same script",
    "published_sentence": "the sentence of a token baseline, byte for byte: {generate = 'published_sentence'}",
    "copy_list": "a request to copy fresh words one per line: {generate = 'copy_list', words = N, marker = '$nonce'}; the "
    "marker stands in the middle of the N words",
    "shared_prefix": "a long fresh text with the run's own word at its head: {generate = 'shared_prefix', words = N, key = K}; "
    "byte-identical in every request of the run that names the same key, and another in the next run",
    "pick_one": "one of N fresh words is asked for at random: {generate = 'pick_one', words = N, key = K}; byte-identical in every "
    "request of the run that names the same key, and another question in another wording in the next run",
    "nonce_line": "a short line that holds a fresh word: {generate = 'nonce_line', script = 'ascii'|'cjk'}",
    "scene": "what a film is to show, a still life of fresh words: {generate = 'scene'}",
}
GENERATOR_PARAMETERS: dict[str, tuple[str, ...]] = {
    "text": ("script", "units", "closing"),
    "repeated_line": ("script", "times", "closing"),
    "published_sentence": (),
    "copy_list": ("words", "marker"),
    "shared_prefix": ("words", "key"),
    "pick_one": ("words", "key"),
    "nonce_line": ("script",),
    "scene": (),
}
SCRIPTS = ("ascii", "cjk", "emoji", "code")
USER_AGENTS: dict[str, str] = {
    "library": "",
    "curl": "curl/8.14.1",
}
"""User-Agents a request may be sent with, besides the buyer's own (which goes before both). Empty is the plain default
of the HTTP library. Never a client's identity."""


class Bound(Frozen):
    """The most one sending of this request can honestly cost."""

    input_tokens: int = Field(gt=0)
    """Above the official count (or our estimate): room for what a relay may add. It is priced at the dearest input rate, a
    cache write of an hour at twice the plain one: 5,000 here are 10,000 tokens at the plain rate."""
    output_tokens: int = Field(gt=0)
    """The body's own legal limit, or the largest fill or clamp known where it has none."""
    expected_output_tokens: int = Field(gt=0)
    """What the answer really takes, for the expected cost."""
    surplus_each: int = Field(default=0, ge=0)
    """Input tokens a known hidden prompt adds to *every* request; the stage's at-most makes room for it."""


class Case(Frozen):
    """One deviation from a request's base body: a legal or an illegal one, sent once."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    set: dict[str, JsonValue] = Field(default_factory=dict)
    """Top-level keys added or replaced."""
    drop: tuple[str, ...] = ()
    """Top-level keys taken out."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Fixed headers replaced; an empty value takes the header out."""
    key: Literal["own", "made_up"] = "own"
    """A made-up key is never a changed form of the real one."""
    legal: bool
    """Whether the vendor's API takes it (for the models of `families`)."""
    tier: Literal["users", "integration", "none"]
    """Whom a difference here touches."""
    families: tuple[str, ...] = ()
    """Model families it is sent for; empty means all."""
    trait: str = ""
    """A rule that separates models (`ModelFacts.refuses`): sent only where the claimed model's answer is known, and then
    that answer says whether it is legal."""
    after: str = ""
    """A case of the same run: sent only once that one was answered (200) instead of refused, in a line of its own."""
    again: int = Field(default=0, ge=0, le=12)
    """How many times more it is asked in the profiles of `again_in`: a pool serves another model, or loses a field, now and then.
    Of the relay alone, and not where it was answered or charged once."""
    again_in: tuple[ProfileName, ...] = ("standard", "thorough")
    unbounded: bool = False
    """The body has no legal output limit of its own: at most is the largest fill or clamp known for the software."""

    @model_validator(mode="after")
    def _asked_more_only_for_nothing(self) -> Case:
        if self.legal and (self.again or self.after):
            raise ValueError("again and after are for what the vendor refuses: a legal request is paid for each time")
        return self


class RequestSpec(Frozen):
    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    method: Literal["POST"] = "POST"
    path: str
    """Relative to the side's base address."""
    bound: Bound
    matrix: dict[str, tuple[JsonValue, ...]] = Field(default_factory=dict)
    """Factor → levels; one sending per combination, factors in the order written."""
    factors: tuple[str, ...] = ()
    """The factors of `design`, in its order."""
    design: tuple[tuple[JsonValue, ...], ...] = ()
    """Chosen combinations instead of all of them: one row of levels per sending, in the order in which they are sent."""
    user_agent: str = "library"
    """A name of `USER_AGENTS`, or a factor whose levels are such names."""
    repeat: int = Field(default=1, ge=1, le=12)
    counted: bool = False
    """The official count endpoint is asked for this very body (system, tools and thinking included)."""
    mirrored: bool = False
    """The official side is asked the very same body (with its own name of the model)."""
    cases: tuple[Case, ...] = ()
    """Deviations from the body; one sending per case, in the order written."""
    body: dict[str, JsonValue]

    @field_validator("path")
    @classmethod
    def _relative(cls, value: str) -> str:
        return relative_path(value)

    @model_validator(mode="after")
    def _names_are_known(self) -> RequestSpec:
        known = {*VALUES, *(f"${factor}" for factor in (*self.matrix, *self.factors))}
        self._design_is_even()
        if self.cases and (self.matrix or self.design):
            raise ValueError("cases stand alone: no matrix and no design beside them")
        if len({case.id for case in self.cases}) != len(self.cases):
            raise ValueError("two cases of one request share an id")
        for text in _references([self.body, *(case.set for case in self.cases)]):
            if text not in known:
                raise ValueError(
                    f"{text} is neither a value nor a factor of this request (known: {', '.join(sorted(known))})"
                )
        for call in _generator_calls([self.body, *(case.set for case in self.cases)]):
            name = str(call["generate"])
            if name not in GENERATORS:
                raise ValueError(f"generator {name!r} is not registered (known: {', '.join(GENERATORS)})")
            if strange := set(call) - {"generate", *GENERATOR_PARAMETERS[name]}:
                takes = ", ".join(GENERATOR_PARAMETERS[name]) or "nothing"
                raise ValueError(f"generator {name!r} has no {', '.join(sorted(strange))} (it takes: {takes})")
        return self

    def _design_is_even(self) -> None:
        if bool(self.factors) != bool(self.design) or (self.design and self.matrix):
            raise ValueError("factors and design stand together, and not beside a matrix")
        if any(len(row) != len(self.factors) for row in self.design):
            raise ValueError(f"every row of design has {len(self.factors)} levels: {', '.join(self.factors)}")
        levels = [
            row[self.factors.index(self.user_agent[1:])] for row in self.design if self.user_agent[1:] in self.factors
        ]
        names = levels if self.user_agent.startswith("$") else [self.user_agent]
        if strange := [str(name) for name in names if name not in USER_AGENTS]:
            raise ValueError(f"user_agent {strange[0]!r} is not one of {', '.join(USER_AGENTS)}")
        if self.user_agent.startswith("$") and not names:
            raise ValueError(f"user_agent {self.user_agent} is no factor of this request's design")


class Applies(Frozen):
    dialects: tuple[str, ...] = Field(min_length=1)
    software: tuple[str, ...] = ()
    """Empty means any relay software."""
    families: tuple[str, ...] = ()
    """Empty means any model of the dialect."""
    takes: str = ""
    """A rule that separates models (`ModelFacts.refuses`): only for models that are known to take it."""
    counter: Literal["any", "present", "absent"] = "any"
    """Whether an official count endpoint can be asked (a key and an address for it are there)."""
    baseline: Literal["any", "present", "absent"] = "any"
    """Whether a published token count is known for this model (`token_baselines.toml`)."""
    profiles: tuple[ProfileName, ...] = ("quick", "standard", "thorough")
    also: Extra | None = None
    """No profile sends it by itself: only where the buyer asked for it by this word (`run --also`)."""


class Probe(Frozen):
    id: str = Field(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")
    """`pack/file`, as the file lies."""
    checks: tuple[int, ...] = Field(min_length=1)
    """Which of the six checks read its answers; the first is the one it was made for."""
    assess: tuple[AssessorName, ...] = Field(min_length=1)
    stage: Stage
    paired: bool
    """Whether an official side is asked beside the relay."""
    lifecycle: Literal["experimental", "stable", "deprecated"] = "stable"
    question: Bilingual
    motivation: Bilingual
    caveat: Bilingual
    """What it does not prove."""
    applies: Applies
    requests: tuple[RequestSpec, ...] = Field(min_length=1)
    task: TaskSpec | None = None
    """For a film: its one request orders a task, and this says how it is asked after and delivered."""

    @model_validator(mode="after")
    def _consistent(self) -> Probe:
        names = [request.id for request in self.requests]
        if len(set(names)) != len(names):
            raise ValueError("two requests of one probe share an id")
        if any(check not in range(1, 7) for check in self.checks):
            raise ValueError("checks are numbered 1 to 6")
        if any(request.counted or request.mirrored for request in self.requests) != self.paired:
            raise ValueError("paired is true exactly when a request is counted or mirrored on the official side")
        if any(request.counted for request in self.requests) and self.applies.counter != "present":
            raise ValueError('a paired probe applies only where a counter is: applies.counter = "present"')
        return self


def _references(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value] if REFERENCE.match(value) else []
    if isinstance(value, dict):
        return [found for item in value.values() for found in _references(item)]
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    return []


def _generator_calls(value: JsonValue) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        own: list[dict[str, Any]] = [dict(value)] if "generate" in value else []
        return own + [found for item in value.values() for found in _generator_calls(item)]
    if isinstance(value, list):
        return [found for item in value for found in _generator_calls(item)]
    return []
