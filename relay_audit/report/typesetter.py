"""Run as a child: a page comes in, a PDF goes out. Nothing is fetched: a page of ours refers to nothing outside itself."""

from __future__ import annotations

import sys

try:
    from weasyprint import HTML
except (ImportError, OSError):  # the extra [pdf] is not there, or the system's Pango
    HTML = None

ABSENT = 3
"""Exit code where there is nothing to set type with."""


def nothing(*_: object, **__: object) -> dict[str, object]:
    """In place of a fetcher. Always raises."""
    raise ValueError("a report refers to nothing outside itself")


def main() -> int:
    if HTML is None:
        return ABSENT
    page = sys.stdin.buffer.read().decode("utf-8")
    sys.stdout.buffer.write(HTML(string=page, url_fetcher=nothing).write_pdf(pdf_variant="pdf/ua-1"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
