"""Where our data lie: inside the wheel, or beside the package in a checkout. The only module that knows."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from relay_audit.errors import StoreError


class ResourceNotFound(StoreError):
    """Neither the wheel nor a checkout holds this folder: the installation is incomplete."""

    code = "resource_not_found"


def folder(name: str) -> Traversable:
    """`probes`, `known_fingerprints`, `reports/templates`. Raises `ResourceNotFound`."""
    inside = files("relay_audit").joinpath("_data", *name.split("/"))
    if inside.is_dir():
        return inside
    beside = checkout().joinpath(*name.split("/"))
    if beside.is_dir():
        return beside
    raise ResourceNotFound(
        f"the data folder {name} is not part of this installation",
        next_step="install relay-audit-toolkit again, or run from a complete checkout",
    )


def skill_folder() -> Traversable:
    """The installable skill, where agents that look into installed packages find it too. Raises `ResourceNotFound`."""
    inside = files("relay_audit").joinpath(".agents", "skills", "relay-audit")
    return inside if inside.is_dir() else folder("skills/relay-audit")


def checkout() -> Path:
    """The folder that holds the package: the repository's root when run from a checkout."""
    return Path(__file__).resolve().parent.parent
