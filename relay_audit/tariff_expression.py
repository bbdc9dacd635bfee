"""A relay's price as an expression (new-api's `tiered_expr`), read and computed again; whatever is not understood is None.

`tier("base", p * 2.5 + c * 15 + cr * 0.25)`, `len <= 200000 ? tier(…) : tier(…)`: token counts times dollars per million.
`p` and `c` hold every token that the expression gives no price of its own; `len` is the whole input. Source: the
documentation beside the engine in new-api (pkg/billingexpr, 2026-03 and later). Nothing of a stranger is ever evaluated
as code: the text is taken apart by a grammar with arithmetic, comparisons and a closed list of names.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, DecimalException
from typing import Any

from relay_audit.usage import Usage

LONGEST, DEEPEST = 4096, 40
MILLION = Decimal(1_000_000)
ZONES = {
    "": 0,
    "UTC": 0,
    "Asia/Shanghai": 8,
    "Asia/Hong_Kong": 8,
    "Asia/Singapore": 8,
    "Asia/Taipei": 8,
    "Asia/Tokyo": 9,
}
"""Hours ahead of UTC of zones that have no summer time; others are not understood."""
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>\"[^\"\\]*\"|'[^'\\]*')|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\|\||&&|[<>=!]=|[-+*/%()?:,<>!]))"
)
COUNTS = ("p", "c", "cr", "cc", "cc1h", "len", "img", "img_cr", "img_o", "ai", "ao", "image_count")
Node = tuple[Any, ...]


class NotUnderstoodError(Exception):
    """The expression uses something that is not known here."""


@dataclass(frozen=True)
class Circumstances:
    """What an expression may ask about besides tokens."""

    at: dt.datetime
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def decoded(expr_b64: object) -> str:
    """The expression of a log row; empty where it is none."""
    try:
        return base64.b64decode(str(expr_b64), validate=True).decode()[: LONGEST + 1]
    except (binascii.Error, ValueError):
        return ""


def same_expression(one: str, other: str) -> bool:
    """Whether two texts are the same expression but for spaces and the version mark."""
    return _plain(one) == _plain(other)


def dollars_of(expression: str, usage: Usage, around: Circumstances) -> Decimal | None:
    """What one call costs before the group's ratio, in site dollars; None where the expression is not understood."""
    text = expression.strip().removeprefix("v1:")
    if not text or len(text) > LONGEST or "|||" in text:
        return None
    try:
        tree = _Parser(text).whole()
        names = _names(tree)
        worth = _Evaluation(_counts(usage, names), around).number(tree)
    except (NotUnderstoodError, DecimalException, RecursionError):
        return None
    return worth / MILLION if worth.is_finite() and worth >= 0 else None


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text).removeprefix("v1:")


def _counts(usage: Usage, used: set[str]) -> dict[str, Decimal]:
    """Tokens as the engine hands them in: what has no price of its own stays in `p`."""
    read, five, hour = usage.cache_read, usage.cache_write_5m, usage.cache_write_1h
    own = usage.input + (0 if "cr" in used else read) + (0 if "cc" in used else five)
    own += 0 if used & {"cc1h", "cc"} else hour
    counts = {
        "p": own, "c": usage.output, "cr": read, "cc": five if "cc1h" in used else five + hour, "cc1h": hour,
        "len": usage.billed_input, "image_count": 1,
    }  # fmt: skip
    return {name: Decimal(counts.get(name, 0)) for name in COUNTS}


def _names(node: object) -> set[str]:
    if not isinstance(node, tuple):
        return set()
    own = {node[1]} if node[0] == "name" else set()
    return own.union(*(_names(part) for part in node[1:])) if len(node) > 1 else own


class _Parser:
    """Precedence by descent: `?:` below `||`, `&&`, comparisons, sums, products, signs."""

    LEVELS = (("||", "or"), ("&&", "and"), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        end = 0
        while text[end:].strip():
            match = TOKEN.match(text, end)
            if match is None or match.lastgroup is None:
                raise NotUnderstoodError
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            end = match.end()
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        tree = self._choice()
        if self._next != len(self._tokens):
            raise NotUnderstoodError
        return tree

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> tuple[str, str]:
        if self._next >= len(self._tokens) or (wanted and self._peek() != wanted):
            raise NotUnderstoodError
        self._next += 1
        return self._tokens[self._next - 1]

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise NotUnderstoodError
        tree = self._level(0)
        if self._peek() == "?":
            self._take()
            yes = self._choice()
            self._take(":")
            tree = ("choice", tree, yes, self._choice())
        self._depth -= 1
        return tree

    def _level(self, place: int) -> Node:
        if place == len(self.LEVELS):
            return self._signed()
        tree = self._level(place + 1)
        while self._peek() in self.LEVELS[place] and self._tokens[self._next][0] != "text":
            sign = self._take()[1]
            tree = ("two", sign, tree, self._level(place + 1))
        return tree

    def _signed(self) -> Node:
        if self._peek() in ("-", "!", "not"):
            return ("one", self._take()[1], self._signed())
        return self._single()

    def _single(self) -> Node:
        kind, text = self._take()
        if kind == "number":
            return ("value", Decimal(text))
        if kind == "text":
            return ("value", text[1:-1])
        if kind == "name" and self._peek() == "(":
            return ("call", text, *self._arguments())
        if kind == "name":
            return ("name", text)
        if text != "(":
            raise NotUnderstoodError
        tree = self._choice()
        self._take(")")
        return tree

    def _arguments(self) -> list[Node]:
        self._take("(")
        given: list[Node] = []
        while self._peek() != ")":
            given.append(self._choice())
            if self._peek() != ",":
                break
            self._take()
        self._take(")")
        return given


class _Evaluation:
    def __init__(self, counts: Mapping[str, Decimal], around: Circumstances) -> None:
        self._counts = counts
        self._around = around

    def number(self, node: Node) -> Decimal:
        value = self.value(node)
        if not isinstance(value, Decimal):
            raise NotUnderstoodError
        return value

    def value(self, node: Node) -> Any:  # noqa: ANN401  a number, a text, a truth or nothing
        match node:
            case ("value", value):
                return value
            case ("name", "true" | "false" as word):
                return word == "true"
            case ("name", "nil"):
                return None
            case ("name", name) if name in self._counts:
                return self._counts[name]
            case ("choice", asked, yes, no):
                return self.value(yes if self._truth(asked) else no)
            case ("one", "-", inner):
                return -self.number(inner)
            case ("one", _, inner):
                return not self._truth(inner)
            case ("two", sign, left, right):
                return self._two(sign, left, right)
            case ("call", name, *given):
                return self._call(name, given)
        raise NotUnderstoodError

    def _truth(self, node: Node) -> bool:
        value = self.value(node)
        if not isinstance(value, bool):
            raise NotUnderstoodError
        return value

    def _two(self, sign: str, left: Node, right: Node) -> Any:  # noqa: ANN401
        if sign in ("||", "or"):
            return self._truth(left) or self._truth(right)
        if sign in ("&&", "and"):
            return self._truth(left) and self._truth(right)
        if sign in ("==", "!="):
            return (self.value(left) == self.value(right)) == (sign == "==")
        one, other = self.number(left), self.number(right)
        signs: dict[str, Callable[[], Any]] = {
            "+": lambda: one + other, "-": lambda: one - other, "*": lambda: one * other, "/": lambda: one / other,
            "%": lambda: one % other, "<": lambda: one < other, "<=": lambda: one <= other, ">": lambda: one > other,
            ">=": lambda: one >= other,
        }  # fmt: skip
        return signs[sign]()

    def _call(self, name: str, given: list[Node]) -> Any:  # noqa: ANN401
        match name, given:
            case "tier", [_, worth]:
                return self.number(worth)
            case "fixed", [amount]:
                return self.number(amount) * MILLION
            case (("max" | "min"), [one, other]):
                return (max if name == "max" else min)(self.number(one), self.number(other))
            case "abs", [inner]:
                return abs(self.number(inner))
            case (("ceil" | "floor"), [inner]):
                return self.number(inner).to_integral_value("ROUND_CEILING" if name == "ceil" else "ROUND_FLOOR")
            case "param", [("value", str(path))]:
                return _looked_up(self._around.body, path)
            case "header", [("value", str(key))]:
                return next((v for k, v in self._around.headers.items() if k.lower() == key.lower()), "")
            case "has", [source, ("value", str(part))]:
                return part in str(self.value(source) or "")
            case (("hour" | "minute" | "weekday" | "month" | "day"), [("value", str(zone))]) if zone in ZONES:
                return Decimal(self._moment(name, ZONES[zone]))
        raise NotUnderstoodError

    def _moment(self, name: str, ahead: int) -> int:
        local = self._around.at + dt.timedelta(hours=ahead)
        return local.isoweekday() % 7 if name == "weekday" else int(getattr(local, name))


def _looked_up(body: Any, path: str) -> Any:  # noqa: ANN401  a value of our own request
    for part in path.split("."):
        body = body.get(part) if isinstance(body, Mapping) else None
    return Decimal(str(body)) if isinstance(body, int | float) and not isinstance(body, bool) else body
