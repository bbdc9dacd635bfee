"""Run as a child: a PDF comes in, everything it says goes out: text of each page, document information, metadata."""

from __future__ import annotations

import io
import sys

from pypdf import PdfReader


def said(raw: bytes) -> str:
    """Raises whatever the library does on a file that is no PDF; the child then ends with an error."""
    reader = PdfReader(io.BytesIO(raw))
    parts = [str(value) for value in (reader.metadata or {}).values()]
    xmp = reader.xmp_metadata
    if xmp is not None:
        parts.append(xmp.stream.get_data().decode("utf-8", "replace"))
    return "\n".join([*parts, *(page.extract_text() for page in reader.pages)])


if __name__ == "__main__":
    sys.stdout.buffer.write(said(sys.stdin.buffer.read()).encode("utf-8", "replace"))
