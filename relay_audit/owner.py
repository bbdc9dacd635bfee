"""Whose `relay_audit` is running? Another tool on the index has the same import name; it must not be handed our users' keys."""

from __future__ import annotations

from importlib import metadata

from relay_audit.errors import UsageError

OURS = "relay-audit-toolkit"
ALSO_CALLED_SO = ("relay-audit", "ai-relay-audit")


def check_owner() -> None:
    """Raises `UsageError` where another installed distribution owns this import name, so that either may be running."""
    for name in ALSO_CALLED_SO:
        try:
            other = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if any(str(file).startswith("relay_audit/") for file in other.files or ()):
            raise UsageError(
                f"another tool ({name}) is installed beside this one under the same import name; whose code runs is chance",
                next_step=f"use an environment of its own: uvx --from {OURS} relay-audit, or pip uninstall {name}",
            )
