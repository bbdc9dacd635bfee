"""Where things are kept on this machine: state (locks, salt, index of runs, log budgets), configuration, run folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import PlatformDirs

APP = "relay-audit"


@dataclass(frozen=True)
class Workspace:
    audits: Path
    """Run folders; it ignores itself in git."""
    state: Path
    """Private to this machine: nothing in it is exported."""
    config: Path
    """The user's own: trusted origins."""

    @property
    def trust_list(self) -> Path:
        return self.config / "trusted_origins.toml"

    @property
    def pins(self) -> Path:
        """Originals of the user's own."""
        return self.config / "pins.toml"

    @property
    def spending(self) -> Path:
        """What the runs of this machine can have spent: the parent ledger of `max_usd_per_30_days`."""
        return self.state / "spending"

    def spending_lock(self, fingerprint: str) -> Path:
        """The lock of one (origin, key): two runs never interleave chargeable sends on it."""
        folder = self.state / "locks"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder / f"{fingerprint}.lock"


def workspace(environ: Mapping[str, str], here: Path) -> Workspace:
    """`RELAY_AUDIT_HOME` holds state and configuration when it is set; runs go to `./audits` unless
    `RELAY_AUDIT_RUNS` names another folder."""
    runs = Path(environ["RELAY_AUDIT_RUNS"]) if environ.get("RELAY_AUDIT_RUNS") else here / "audits"
    home = environ.get("RELAY_AUDIT_HOME")
    if home:
        return Workspace(runs, Path(home) / "state", Path(home) / "config")
    dirs = PlatformDirs(APP, appauthor=False)
    return Workspace(runs, Path(dirs.user_state_dir), Path(dirs.user_config_dir))
