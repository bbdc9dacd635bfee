"""The message catalogues: every text of ours, in both languages, under the same keys.

Look-up is strict: a missing message or parameter is an error of ours and raises, since a report with a hole in it would
be read as a statement. Placeholders are plain `{name}`; nothing a caller passes is ever evaluated.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import tomli

from relay_audit.resources import folder
from relay_audit.words import Lang

TEMPLATES = "reports/templates"


class MissingTextError(KeyError):
    """No message of this key, or no parameter for one of its placeholders."""


class Catalogue:
    """One language. Keys are dotted paths, such as `finding.tokens.match.title`."""

    def __init__(self, lang: Lang, texts: Mapping[str, str]) -> None:
        self.lang: Lang = lang
        self._texts = dict(texts)

    @staticmethod
    @cache
    def load(lang: Lang) -> Catalogue:
        """The shipped catalogue of a language."""
        source = folder(TEMPLATES).joinpath("catalogue", f"{lang}.toml").read_text(encoding="utf-8")
        return Catalogue(lang, dict(_flat(tomli.loads(source))))

    def text(self, key: str, /, **params: str) -> str:
        """The message, filled. Raises `MissingTextError`."""
        try:
            message = self._texts[key]
        except KeyError:
            raise MissingTextError(f"{self.lang}: no message {key!r}") from None
        try:
            return _STRICT.vformat(message, (), params)
        except (KeyError, IndexError, ValueError) as error:
            raise MissingTextError(f"{self.lang}: {key!r} lacks a parameter: {error}") from None

    def knows(self, key: str) -> bool:
        return key in self._texts

    def names(self) -> frozenset[str]:
        """Every key."""
        return frozenset(self._texts)

    def placeholders(self, key: str) -> frozenset[str]:
        """The names a message is filled with."""
        return frozenset(name for _, name, _, _ in string.Formatter().parse(self._texts[key]) if name is not None)

    def messages(self) -> Iterator[str]:
        """All texts as written: for the word list, and for the leak guard's list of our own words."""
        return iter(self._texts.values())


class _Strict(string.Formatter):
    """`{name}` only: no attributes, no indices, no format codes, nothing positional."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:  # noqa: ANN401, ARG002
        if not field_name.isidentifier():
            raise ValueError(f"{field_name!r} is not a plain name")
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401
        if format_spec or not isinstance(value, str):
            raise ValueError("parameters are ready-made text")
        return value


_STRICT = _Strict()


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)
