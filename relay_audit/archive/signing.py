"""Signatures of OpenSSH over an archive's manifest: whoever holds the key says that this very archive is his.

`ssh-keygen -Y` does the work, so the key stays where it is, an agent or a hardware key serves too, and a reader needs
nothing of ours. A namespace of its own keeps such a signature from being taken for one over a commit or a file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from relay_audit.errors import UsageError
from relay_audit.manifest import LARGEST_SEAL

FINGERPRINT = re.compile(rb"SHA256:[A-Za-z0-9+/=]{20,64}")
NAMESPACE = "relay-audit-archive"
PATIENCE_S = 120
"""A person may have to touch a key or type a passphrase."""


class SealRefused(Exception):
    """A signature or a time stamp does not hold; the word says in which way: `unreadable`, `other_hash`, `not_signed`."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


def sign(raw: bytes, key: Path) -> bytes:
    """An armoured signature over `raw` by the private key in the file, or by the agent's where the file is a public key.

    Raises `UsageError` where `ssh-keygen` is missing or cannot sign with this key.
    """
    if not key.is_file():
        raise UsageError("there is no key file of this name", next_step="--sign ~/.ssh/id_ed25519")
    done = _call("-Y", "sign", "-f", str(key), "-n", NAMESPACE, given=raw)
    if (
        done.returncode
        or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----")
        or len(done.stdout) > LARGEST_SEAL
    ):
        raise UsageError(
            "ssh-keygen cannot sign with this key; no archive was written",
            next_step="give a private key, or a public key whose private half the agent holds (OpenSSH 8.2 or newer)",
        )
    return done.stdout


def signer(raw: bytes, signature: bytes, allowed: Path) -> str:
    """Who of the allowed signers (the format of `man ssh-keygen`) signed `raw`: the principal as the file names it.

    Raises `SealRefused` where none of them did; `UsageError` where the file or `ssh-keygen` is missing.
    """
    if not allowed.is_file():
        raise UsageError("there is no file of allowed signers of this name", next_step="--allowed-signers FILE")
    with tempfile.TemporaryDirectory(prefix="relay-audit-") as folder:
        seal = Path(folder) / "seal"
        seal.write_bytes(signature)
        found = _call("-Y", "find-principals", "-s", str(seal), "-f", str(allowed))
        names = found.stdout.decode("utf-8", "replace").splitlines() if found.returncode == 0 else []
        for name in names:
            done = _call("-Y", "verify", "-f", str(allowed), "-I", name, "-n", NAMESPACE, "-s", str(seal), given=raw)
            if done.returncode == 0:
                return name
    raise SealRefused("not_signed")


def key_of(raw: bytes, signature: bytes) -> str:
    """The fingerprint of the key that signed `raw`, whoever holds it; empty where there is no `ssh-keygen` to tell.
    Raises `SealRefused` where the signature is over other bytes."""
    if shutil.which("ssh-keygen") is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="relay-audit-") as folder:
        seal = Path(folder) / "seal"
        seal.write_bytes(signature)
        done = _call("-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(seal), given=raw)
    found = FINGERPRINT.search(done.stdout)
    if done.returncode or found is None:
        raise SealRefused("not_signed")
    return found[0].decode("ascii")


def _call(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError("signatures need ssh-keygen, which is not here", next_step="install OpenSSH 8.2 or newer")
    environ = {name: value for name, value in os.environ.items() if name in KEPT}
    try:
        return subprocess.run(  # noqa: S603  a program of the system, with arguments and no shell
            [program, *arguments], input=given, capture_output=True, timeout=PATIENCE_S, check=False,
            env={**environ, "LC_ALL": "C"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UsageError("ssh-keygen did not answer", next_step="unlock the key, then give the command again") from None


KEPT = frozenset({"PATH", "HOME", "SSH_AUTH_SOCK", "SSH_SK_PROVIDER", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "DISPLAY", "WAYLAND_DISPLAY",
                  "SYSTEMROOT", "USERPROFILE", "TERM"})  # fmt: skip
"""What the program may see of our environment: the way to the agent, and no key of a relay."""
