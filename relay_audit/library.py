"""Packs and knowledge of one invocation as one value, with the texts that travel with a run; and the versions of its day."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path

from relay_audit.baseline_file import check_baselines, read_baselines, rows_in
from relay_audit.catalog import KNOWLEDGE, PINS, PROBES, Packs, knowledge_digest, knowledge_from, packs_from, read_files
from relay_audit.fingerprint import Knowledge
from relay_audit.media.pins import read_pins
from relay_audit.replay import History

BASELINES = f"{KNOWLEDGE}/baselines_of_this_run.toml"
"""Where a baselines file stands among the texts of a run, whatever it was called."""


OWN_PINS = f"{KNOWLEDGE}/{PINS}"
"""And where the buyer's own pins stand."""


@dataclass(frozen=True)
class Library:
    """Packs and knowledge of one invocation, and their texts for the archive."""

    knowledge: Knowledge
    files: dict[str, str]
    probes: frozenset[str] | None = None
    """Only these; None means all."""

    @cached_property
    def packs(self) -> Packs:
        """What would be sent. Read when somebody asks: judging and reporting do not. Raises `PackError`."""
        packs = packs_from(_below(self.files, PROBES))
        if self.probes is None:
            return packs
        return replace(packs, probes=tuple(probe for probe in packs.probes if probe.id in self.probes))

    @property
    def digest(self) -> str:
        return knowledge_digest(_below(self.files, KNOWLEDGE))

    def only(self, probes: frozenset[str]) -> Library:
        """The same with these probes alone; what else a run carries stays as it is."""
        return replace(self, probes=probes)

    @property
    def channels(self) -> list[str]:
        """What a claim may name: every channel of the knowledge, and `unknown`."""
        known = self.knowledge
        named = {channel for row in known.ids for channel in row.channels}
        named |= {channel for row in known.headers for channel in row.channels}
        named |= {channel for row in known.errors for channel in row.channels}
        return sorted(named - {"converter"} | {"unknown"})

    @property
    def key_shapes(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """Vendor → patterns of its keys and its own hosts: known vendors and those of the packs."""
        shapes = {pack.vendor: (pack.key_shapes, pack.official_hosts) for pack in self.packs.dialects.values()}
        return shapes | {vendor.name: (vendor.key_shapes, vendor.hosts) for vendor in self.knowledge.vendors}


def load_library(packs: Path | None = None, knowledge: Path | None = None) -> Library:
    """The shipped folders and the user's beside them. Raises `PackError`."""
    return library_from(texts_of(packs, knowledge))


def texts_of(packs: Path | None = None, knowledge: Path | None = None) -> dict[str, str]:
    """Path → text of the same, unread."""
    files = {f"{PROBES}/{path}": text for path, text in read_files(PROBES, packs).items()}
    return files | {f"{KNOWLEDGE}/{path}": text for path, text in read_files(KNOWLEDGE, knowledge).items()}


def with_baselines(library: Library, file: Path, today: dt.date) -> Library:
    """The same with the rows of a baselines file, which travel with the run. Raises `PackError`."""
    text = read_baselines(file)
    check_baselines(file.name, rows_in(file.name, text), library.knowledge, today)
    return library_from({**library.files, BASELINES: text})


def with_pins(library: Library, pins: Path) -> Library:
    """The same with the buyer's own originals, which travel with the run that used them. Raises `UsageError`."""
    if not read_pins(pins):
        return library
    return library_from({**library.files, OWN_PINS: pins.read_text(encoding="utf-8")})


def library_from(files: dict[str, str]) -> Library:
    """Both read and checked whole. Raises `PackError`."""
    library = _known(files)
    library.packs  # noqa: B018  what is wrong with a pack is said here, not when a step is sent
    return library


def _known(files: dict[str, str]) -> Library:
    return Library(_knowledge(tuple(sorted(_below(files, KNOWLEDGE).items()))), files)


@lru_cache(maxsize=4)
def _knowledge(texts: tuple[tuple[str, str], ...]) -> Knowledge:
    """The last few are kept: one invocation judges several runs by the very texts that they were planned with."""
    return knowledge_from(dict(texts))


def current_library(history: History) -> Library:
    """Today's packs and knowledge; a baselines file that was given for the run stays with it."""
    given = {path: history.files[path] for path in (BASELINES, OWN_PINS) if path in history.files}
    return _known({**texts_of(), **given})


def archived_library(history: History) -> Library:
    """What the run carries; its packs were checked when it was planned, and are read again only to send."""
    return _known(history.files)


LIBRARIES = ("c2pa-python", "pymediainfo", "cryptography", "httpx", "pydantic")
"""What facts of a run may depend on besides our own code."""


def library_versions() -> dict[str, str]:
    """Installed versions; a library that is not there is left out."""
    found = {name: version for name in LIBRARIES if (version := _version(name))}
    return {"python": platform.python_version(), **found}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _below(files: Mapping[str, str], folder: str) -> dict[str, str]:
    return {path.removeprefix(f"{folder}/"): text for path, text in files.items() if path.startswith(f"{folder}/")}
