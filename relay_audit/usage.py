"""What an answer says was used, read through the dialect's pointers. A count that is not a count makes the whole usage void."""

from __future__ import annotations

from relay_audit.exchange import Exchange, pointer, whole_number
from relay_audit.pack import Pack, UsagePointers
from relay_audit.words import Frozen


class Usage(Frozen):
    """Tokens as the relay billed them, by its own answer."""

    input: int
    """Not from a cache."""
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0

    @property
    def billed_input(self) -> int:
        """All input, however it was priced: uncached, written and read (R52)."""
        return self.input + self.cached

    @property
    def cached(self) -> int:
        return self.cache_read + self.cache_write_5m + self.cache_write_1h

    def by_kind(self) -> dict[str, int]:
        return {
            "input": self.input,
            "cache_read": self.cache_read,
            "cache_write_5m": self.cache_write_5m,
            "cache_write_1h": self.cache_write_1h,
            "output": self.output,
        }


def read_usage(exchange: Exchange, pack: Pack) -> Usage | None:
    """The usage of a 200 answer that arrived whole, or None where it has none that can be trusted as a number, or only
    zeros."""
    if exchange.status != 200 or exchange.response is None or exchange.response.cut:
        return None
    answer = exchange.answer()
    pointers = pack.usage
    counted = whole_number(pointer(answer, pointers.input[0]))
    output = _output(answer, pointers)
    rest = [_optional(answer, path) for path in pointers.input[1:]]
    if counted is None or output is None or any(value is None for value in rest):
        return None
    read = _optional(answer, pointers.cache_read)
    written = _optional(answer, pointers.cache_creation)
    hour = _optional(answer, pointers.cache_creation_1h)
    if read is None or written is None or hour is None:
        return None
    if not any((counted, read, written, hour, output)):
        return None  # no prompt takes nothing: a program in between that was told no usage filled in the form
    inside = read + max(written, hour) if pointers.input_includes_cache else 0
    return Usage(
        input=max(counted - inside, 0),
        cache_read=read,
        cache_write_5m=max(written - hour, 0),
        cache_write_1h=min(hour, written) if written else hour,
        output=output,
    )


def has_bad_usage(exchange: Exchange, pack: Pack) -> bool:
    """A 200 answer with a usage field that is there and is no count: negative, fractional, text. A missing one is not bad."""
    if exchange.status != 200:
        return False
    answer = exchange.answer()
    return any(
        _optional(answer, path) is None for path in (*pack.usage.input, pack.usage.output, *pack.usage.output_also)
    )


def _output(answer: object, pointers: UsagePointers) -> int | None:
    """Everything billed as output. Where several counts make it up, each may be missing, but not all of them."""
    if not pointers.output_also:
        return whole_number(pointer(answer, pointers.output))
    paths = (pointers.output, *pointers.output_also)
    counts = [_optional(answer, path) for path in paths]
    if any(count is None for count in counts) or all(pointer(answer, path) is None for path in paths):
        return None
    return sum(count or 0 for count in counts)


def _optional(answer: object, path: str) -> int | None:
    """0 for a field that is absent or null, None for one that is there and is no count."""
    value = pointer(answer, path) if path else None
    return 0 if value is None else whole_number(value)


def is_generation(exchange: Exchange, pack: Pack) -> bool:
    """Whether an answer 200 holds something generated, or usage: some relays put their refusals under status 200."""
    answer = exchange.answer() if exchange.status == 200 else None
    return isinstance(answer, dict) and (
        pointer(answer, pack.answer.content) is not None or read_usage(exchange, pack) is not None
    )


def counted(exchange: Exchange, pack: Pack) -> int | None:
    return (
        whole_number(pointer(exchange.answer(), pack.counter.read)) if pack.counter and exchange.status == 200 else None
    )


def official_fault(exchange: Exchange) -> str:
    if exchange.status == 401:
        return "official_key_refused"
    return "official_lacks_model" if exchange.status in (403, 404) else "official_unreachable"
