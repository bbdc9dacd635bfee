"""Compiled templates are kept where Python keeps compiled modules, and by its rules.

Translating the templates of one page takes as long as judging a run. What comes out is code, so it lies beside the
program's own, in `__pycache__`: whoever can write there can change the program itself. It is not written where Python
was told to write nothing, and where nothing can be written the templates are translated again each time.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.metadata import version
from importlib.resources.abc import Traversable
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache

from relay_audit.words import digest


def kept_beside(templates: Traversable, engine: Environment) -> BytecodeCache | None:
    """For an engine whose settings are made. It looks by itself whether a template still has the text that was compiled;
    its version, its settings and Python's version are in the name."""
    if sys.dont_write_bytecode or not isinstance(templates, Path):
        return None
    place = Path(cache_from_source(str(templates / "template.py"))).parent
    with suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
    if not os.access(place, os.W_OK):
        return None
    settings = [engine.autoescape is True, engine.finalize is None, engine.trim_blocks, engine.lstrip_blocks,
                engine.keep_trailing_newline, sorted(engine.extensions)]  # fmt: skip
    made_by = digest([version("jinja2"), sys.implementation.cache_tag, settings])
    return FileSystemBytecodeCache(str(place), f"%s.{made_by[:16]}.pyc")
