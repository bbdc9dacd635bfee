"""Effects that can be seen in what a model wrote: does a stop word stop, does an output limit bound?

The task is to copy a list, so that its end is known. A model that does not follow the task shows nothing either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from relay_audit.exchange import Exchange, pointer
from relay_audit.pack import Pack
from relay_audit.plan import Step
from relay_audit.prompt_text import texts_of
from relay_audit.usage import read_usage

Effect = Literal["same", "clamped", "not_honoured", "unclear"]
SLACK = 4
"""Tokens by which a count may pass its limit without meaning anything."""
SHORT = 8
"""Tokens by which an answer that ended at a limit must miss the one that was asked for."""


class Reads(Protocol):
    def __call__(self, step: Step, exchange: Exchange, pack: Pack, reads: Mapping[str, Any]) -> Effect: ...


def stop_word(step: Step, exchange: Exchange, pack: Pack, reads: Mapping[str, Any]) -> Effect:
    """The list holds the stop word in its middle: it must not be written, nor what comes after it."""
    given = step.body.get("stop_sequences") or step.body.get("stop")
    word = given[0] if isinstance(given, list) and given else given
    if not isinstance(word, str) or not word:
        return "unclear"
    text = written(exchange, pack)
    if word in text:
        return "not_honoured"
    if reads:
        return "same" if _as_read(exchange, reads) else "unclear"
    lines = asked_for(step)
    after = lines[lines.index(word) + 1 :] if word in lines else []
    return "same" if text and after and not any(line in text for line in after) else "unclear"


def output_bound(step: Step, exchange: Exchange, pack: Pack, reads: Mapping[str, Any]) -> Effect:
    """The list is longer than the limit: an answer that reaches its end was not bounded, one that ended earlier at a
    limit was bounded by another one."""
    limit, lines = step.output_limit, asked_for(step)
    usage = read_usage(exchange, pack)
    if limit is None or not lines or usage is None or not written(exchange, pack).strip():
        return "unclear"  # a model that spent its limit on thinking shows nothing either way
    if all(line in written(exchange, pack) for line in lines[-3:]):
        return "not_honoured"
    if usage.output > limit + SLACK:  # a limit that was raised, or tokens counted otherwise: the text says which
        return "not_honoured" if _room(lines, exchange, pack) > limit + SLACK else "unclear"
    if reads and not _as_read(exchange, reads):
        return "unclear"
    if reads and usage.output < limit - SHORT:  # fewer than the text itself takes: a usage that counts nothing
        return "clamped" if usage.output >= _room(lines, exchange, pack) // 2 else "unclear"
    return "same"


def _room(lines: list[str], exchange: Exchange, pack: Pack) -> int:
    """The fewest tokens that what was copied can take: no line takes less than one, and its end another."""
    text = written(exchange, pack)
    return 2 * sum(line in text for line in lines)


EFFECTS: dict[str, Reads] = {"stop_word": stop_word, "output_bound": output_bound}
"""Case → how its effect is looked at."""


def written(exchange: Exchange, pack: Pack) -> str:
    """The text of an answer, wherever the dialect puts it; what was thought is not written."""
    return "\n".join(_texts(pointer(exchange.answer(), pack.answer.content)))


def asked_for(step: Step) -> list[str]:
    """The lines to be copied: all but the first of the task."""
    text = "\n".join(texts_of(step.body))
    return [line.strip() for line in text.splitlines()[1:] if line.strip()]


def _as_read(exchange: Exchange, reads: Mapping[str, Any]) -> bool:
    return all(pointer(exchange.answer(), path) == value for path, value in reads.items())


def _texts(value: Any) -> list[str]:  # noqa: ANN401  whatever a stranger sent
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        own = value.get("text")
        return [own] if isinstance(own, str) else _texts(value.get("content"))
    return []
