"""From names of variables to two ways out: keys read, guarded and bound to their origins; one redactor that knows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from filelock import FileLock, Timeout

from relay_audit.clock import Clock
from relay_audit.errors import Unfinished
from relay_audit.free_questions import Notify, Sides
from relay_audit.keys import (
    KeyShapes,
    confirm_origin,
    guard_same,
    guard_shape,
    read_key,
    read_trust_list,
    workspace_salt,
)
from relay_audit.pack import Pack
from relay_audit.redaction import Redactor, Secret
from relay_audit.target import Target, at_vendor, origin_of
from relay_audit.transport import Endpoint, Inner, Limits, Transport
from relay_audit.words import AuthStyle
from relay_audit.workspace import Workspace

WAIT_FOR_OTHER_RUN_S = 120


@dataclass(frozen=True)
class Permissions:
    """What this invocation allows beyond the target file, which may have been written by somebody else."""

    origins: frozenset[str] = frozenset()
    """`--allow-origin`: a key may go there."""
    official_key_to: str = ""
    """`--allow-official-key-to HOST`."""
    private: bool = False
    """`--allow-private`: private addresses may be connected to."""
    ask: Callable[[str], bool] | None = None
    """Asks at the terminal whether a key may go to an origin; None without a terminal."""
    relay_key: str = ""
    """A key read unseen from a terminal or from a file instead of the environment."""


@dataclass
class Connections:
    sides: Sides
    redactor: Redactor
    salt: bytes = field(repr=False)

    def user_agent(self) -> str:
        return self.sides.transport.user_agent(self.sides.relay)

    def fingerprints(self) -> dict[str, str]:
        """Variable → salted fingerprint of the key it held: which key it was, and nothing of the key."""
        found = [end.secret for end in (self.sides.relay, self.sides.official) if end is not None and end.secret]
        return {secret.name: secret.fingerprint(self.salt) for secret in found}

    def use_auth(self, style: str) -> None:
        """The header style that the planning found out; an unknown word leaves the dialect's first."""
        if style in get_args(AuthStyle):
            self.sides.relay = replace(self.sides.relay, auth=cast("AuthStyle", style))

    def key_name(self) -> str:
        """A name for this (origin, key) that says neither, the same for every run on this machine."""
        secret = self.sides.relay.secret
        return secret.fingerprint(self.salt + origin_of(self.sides.relay.base_url).encode()) if secret else "none"

    @asynccontextmanager
    async def exclusive(self, space: Workspace) -> AsyncIterator[None]:
        """The right to spend on this (origin, key), one run at a time on this machine. Raises `Unfinished` when another
        run keeps it too long."""
        lock = FileLock(space.spending_lock(self.key_name()), mode=0o600)
        for _ in range(WAIT_FOR_OTHER_RUN_S):
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                await asyncio.sleep(1)
        else:
            raise Unfinished(
                "another run is spending on this key; two never interleave",
                next_step="wait for it, then resume this one",
            )
        try:
            yield
        finally:
            lock.release()


def connect(
    target: Target,
    pack: Pack,
    shapes: KeyShapes,
    space: Workspace,
    clock: Clock,
    environ: Mapping[str, str],
    permissions: Permissions,
    notify: Notify,
    limits: Limits | None = None,
    inner: Inner | None = None,
) -> Connections:
    """Raises `KeyRefused` and `OriginUnconfirmed` before any socket is opened."""
    trusted = read_trust_list(space.trust_list)
    salt = workspace_salt(space.state)

    def guarded(variable: str, base_url: str, given: str = "") -> str:
        origin = origin_of(base_url)
        key = given or read_key(variable, environ)
        guard_shape(key, origin, shapes, permissions.official_key_to)
        confirm_origin(variable, origin, environ, trusted, set(permissions.origins), permissions.ask)
        return key

    relay, vendor = target.relay, at_vendor(target, pack.official_roots).official
    relay_key = guarded(relay.key_env, relay.base_url, permissions.relay_key)
    relay_secret = Secret(relay_key, name=relay.key_env, origin=origin_of(relay.base_url))
    secrets, official = [relay_secret], None
    if vendor is not None:
        key = guarded(vendor.key_env, vendor.base_url)
        guard_same(relay_key, key, origin_of(relay.base_url), permissions.official_key_to, origin_of(vendor.base_url))
        secret = Secret(key, name=vendor.key_env, origin=origin_of(vendor.base_url))
        secrets.append(secret)
        official = Endpoint("official", vendor.base_url, secret, pack.auth_styles[0], dict(pack.headers), vendor.proxy,
                            vendor.ca_file, "", permissions.private)  # fmt: skip
    style = relay.auth if relay.auth != "auto" else pack.auth_styles[0]
    way = Endpoint("relay", relay.base_url, relay_secret, style, dict(pack.headers), relay.proxy, relay.ca_file,
                   relay.user_agent, permissions.private)  # fmt: skip
    redactor = Redactor(secrets, salt)
    transport = Transport(redactor, clock, limits, inner)
    return Connections(Sides(transport, clock, way, official, notify), redactor, salt)
