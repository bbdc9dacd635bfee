"""Fresh texts out of the run's seed, so that no relay can recognise a probe and no cache can answer it.

Pure: the same seed and place give the same text. The word lists are data (`probes/wordlists.toml`).
"""

from __future__ import annotations

import random
from typing import Any

from pydantic import Field, JsonValue

from relay_audit.errors import PackError
from relay_audit.probe import SCRIPTS
from relay_audit.words import Frozen


class Wordlists(Frozen):
    ascii_words: tuple[str, ...] = Field(min_length=64)
    cjk_clauses: tuple[str, ...] = Field(min_length=64)
    emoji_symbols: tuple[str, ...] = Field(min_length=64)
    choices: tuple[str, ...] = ()
    """Ways to ask for one of `{words}` at random."""
    closings: dict[str, dict[str, str]]
    """closing name → script → sentence."""


class Wording:
    """The registered generators, fed by one seed."""

    def __init__(self, lists: Wordlists, seed: int, published_sentence: str = "") -> None:
        self._lists = lists
        self._seed = seed
        self._sentence = published_sentence

    def fill(self, body: dict[str, JsonValue], values: dict[str, JsonValue], place: str) -> dict[str, Any]:
        """A body as it will leave: references replaced, generators called. `place` makes each text its own."""
        filled = self._fill(body, {"$nonce": self.nonce(place), **values}, place)
        if not isinstance(filled, dict):  # pragma: no cover  a dict stays a dict
            raise PackError("a request body is a table")
        return filled

    def nonce(self, place: str) -> str:
        rng = random.Random(f"{self._seed}/{place}/nonce")
        return "".join(rng.choice("bcdfghjkmprstvw") + rng.choice("aeiou") for _ in range(4))

    def _fill(self, value: JsonValue, values: dict[str, JsonValue], place: str) -> JsonValue:
        if isinstance(value, str):
            return values.get(value, value)
        if isinstance(value, list):
            return [self._fill(item, values, f"{place}/{index}") for index, item in enumerate(value)]
        if isinstance(value, dict):
            inner = {key: self._fill(item, values, f"{place}/{key}") for key, item in value.items()}
            return self._generate(inner, place) if "generate" in inner else inner
        return value

    def _generate(self, call: dict[str, JsonValue], place: str) -> str:
        name = call["generate"]
        script = str(call.get("script", "ascii"))
        if script not in SCRIPTS:
            raise PackError(f"script {script!r} is not one of {', '.join(SCRIPTS)}")
        if name == "published_sentence":
            return self._sentence
        if name == "nonce_line":
            return self._line(script, place)
        if name == "text":
            units = _count(call, "units")
            return self._text(script, units, self._closing(str(call.get("closing", "")), script), place)
        if name == "copy_list":
            return self._copy_list(_count(call, "words"), str(call.get("marker", "")), place)
        if name == "repeated_line":
            line = self._repeatable(script) + "\n"
            return line * _count(call, "times") + self._closing(str(call.get("closing", "")), script)
        if name == "shared_prefix":
            return self._shared_prefix(_count(call, "words"), str(call.get("key", "")))
        if name == "pick_one":
            return self._pick_one(_count(call, "words"), str(call.get("key", "")))
        if name == "scene":
            return self._scene(place)
        raise PackError(f"generator {name!r} is not registered")

    def _closing(self, name: str, script: str) -> str:
        if name and script not in self._lists.closings.get(name, {}):
            raise PackError(f"closing {name!r} has no sentence in script {script!r}")
        return self._lists.closings[name][script] if name else ""

    def _text(self, script: str, units: int, end: str, place: str) -> str:
        rng = random.Random(f"{self._seed}/{place}/text")
        if script == "cjk":  # the fresh word stands before the counted characters: the shortest text holds Chinese too
            text = ""
            while len(text) < units:
                text += rng.choice(self._lists.cjk_clauses) + rng.choice("，。；")
            return f"{self.nonce(place)}，{text[:units].rstrip('，。；')}。{end}"
        if script == "emoji":
            symbols = "".join(rng.choice(self._lists.emoji_symbols) for _ in range(max(units // 2, 1)))
            return f"{self.nonce(place)} {symbols}" + ("\n" + end if end else "")
        if script == "code":
            return "\n".join(
                [f"# {self.nonce(place)}", *(self._statement(rng) for _ in range(max(units // 5, 1))), end]
            )
        words = [self.nonce(place), *(rng.choice(self._lists.ascii_words) for _ in range(units - 1))]
        return " ".join(words).capitalize() + "." + (" " + end if end else "")

    def _copy_list(self, words: int, marker: str, place: str) -> str:
        """Something to write whose end is known: then it can be seen whether a stop word stops and a limit bounds."""
        chosen = random.Random(f"{self._seed}/{place}/list").sample(self._lists.ascii_words, words)
        lines = chosen[: words // 2] + [marker] * bool(marker) + chosen[words // 2 :]
        return "Copy these words in this order, one per line, and write nothing else:\n" + "\n".join(lines)

    def _statement(self, rng: random.Random) -> str:
        """One line of a made-up program."""
        name, function, first = (rng.choice(self._lists.ascii_words) for _ in range(3))
        return f"{name} = {function}({first}, {rng.randrange(10, 999)})"

    def _repeatable(self, script: str) -> str:
        """The run's one line of a script, wherever it is asked for."""
        rng = random.Random(f"{self._seed}/{script}/repeated")
        nonce = self.nonce(f"{script}/repeated")
        if script == "cjk":
            return f"{nonce}，{rng.choice(self._lists.cjk_clauses)}。"
        return " ".join([nonce, *(rng.choice(self._lists.ascii_words) for _ in range(8))]).capitalize() + "."

    def _shared_prefix(self, words: int, key: str) -> str:
        """Notes in short sentences. The first word is this run's: nobody's cache can hold the text yet."""
        rng = random.Random(f"{self._seed}/{key}/prefix")
        chosen = [rng.choice(self._lists.ascii_words) for _ in range(words)]
        lines = [" ".join(chosen[n : n + 12]).capitalize() + "." for n in range(0, words, 12)]
        return "\n".join([f"Notes {self.nonce(f'{key}/prefix')}:", *lines])

    def _pick_one(self, words: int, key: str) -> str:
        """A question with many equally good answers: which one is given is for the sampler to say."""
        if not self._lists.choices:
            raise PackError("the word lists have no choices to ask for one of several words with")
        rng = random.Random(f"{self._seed}/{key}/choice")
        way = rng.choice(self._lists.choices)
        return way.replace("{words}", ", ".join(rng.sample(self._lists.ascii_words, words)))

    def _scene(self, place: str) -> str:
        things = random.Random(f"{self._seed}/{place}/scene").sample(self._lists.ascii_words, 3)
        return (
            f"A quiet still life on a wooden table, soft morning light, the camera moves slowly: {', '.join(things)}, "
            f"and a paper card that reads {self.nonce(place)}."
        )

    def _line(self, script: str, place: str) -> str:
        rng = random.Random(f"{self._seed}/{place}/line")
        nonce = self.nonce(place)
        if script == "cjk":
            return f"你是一个简洁的助手，代号{nonce}。{rng.choice(self._lists.cjk_clauses)}。"
        return f"You are a terse assistant, code name {nonce}, fond of {rng.choice(self._lists.ascii_words)}."


def _count(call: dict[str, JsonValue], name: str) -> int:
    value = call.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PackError(f"{name} of a generated text is a whole number of at least 1")
    return value
