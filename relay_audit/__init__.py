"""relay-audit: what an LLM relay really sells, found out before you pay.

A probe's requests are planned, quoted, approved, sent at most once, recorded redacted, assessed, reported.
"""

__version__ = "0.1.0"
