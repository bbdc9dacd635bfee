"""Keys are read, guarded and bound before any socket is opened."""

from __future__ import annotations

import asyncio

import pytest

from relay_audit import connect as connecting
from relay_audit.connect import Connections, Permissions, connect
from relay_audit.errors import AddressRefused, KeyRefused, OriginUnconfirmed, Unfinished
from relay_audit.target import target_from
from relay_audit.workspace import Workspace
from tests.audits import LIBRARY, TestClock

RELAY_KEY, OFFICIAL_KEY = "sk-Q7vX2mP9LtR4wZc8NbY1kHs6", "sk-ant-api03-J5tK8wQ2xZ6vB9nM3cF7"
FAR, LOOP, VENDOR = "https://relay.example", "http://127.0.0.1:7001", "https://api.anthropic.com"


def connected(
    tmp_path,
    *,
    relay: str = LOOP,
    official: str | None = None,
    permissions: Permissions | None = None,
    table=None,
    **environ: str,
) -> Connections:
    def never(_):
        raise AssertionError("no way out is opened while connecting")

    data = {"target": {"model": "claude-sonnet-5-5"}, "relay": {"base_url": relay, **(table or {})}}
    if official:
        data["official"] = {"base_url": official}
    space = Workspace(tmp_path / "audits", tmp_path / "state", tmp_path / "config")
    keys = {"RELAY_KEY": RELAY_KEY, "OFFICIAL_KEY": OFFICIAL_KEY, **environ}
    return connect(
        target_from(data),
        LIBRARY.packs.pack("anthropic"),
        LIBRARY.key_shapes,
        space,
        TestClock(),
        keys,
        permissions or Permissions(),
        lambda *_: None,
        inner=never,
    )


def test_two_sides_with_a_key_each(tmp_path):
    made = connected(tmp_path, relay=f"{LOOP}/sub/v1", official=VENDOR, OFFICIAL_KEY_ORIGIN=VENDOR)
    relay, official = made.sides.relay, made.sides.official
    assert (relay.side, relay.base_url, relay.secret.origin, relay.auth) == ("relay", f"{LOOP}/sub", LOOP, "x-api-key")
    assert (official.side, official.secret.origin) == ("official", VENDOR)
    assert relay.secret.reveal_for(LOOP) == RELAY_KEY
    assert official.secret.reveal_for(VENDOR) == OFFICIAL_KEY
    with pytest.raises(AddressRefused):
        official.secret.reveal_for(LOOP)
    assert relay.headers == official.headers == {"anthropic-version": "2023-06-01"}


def test_without_an_official_side_there_is_one_way(tmp_path):
    assert connected(tmp_path).sides.official is None


def test_the_redactor_knows_both_keys(tmp_path):
    made = connected(tmp_path, official=VENDOR, OFFICIAL_KEY_ORIGIN=VENDOR)
    cleaned = made.redactor.clean_text(f"{RELAY_KEY} and {OFFICIAL_KEY}")
    assert RELAY_KEY[5:17] not in cleaned
    assert OFFICIAL_KEY[15:27] not in cleaned
    assert RELAY_KEY not in repr(made)
    assert repr(made.salt) not in repr(made)


@pytest.mark.parametrize(("auth", "style"), [("auto", "x-api-key"), ("bearer", "bearer"), ("x-api-key", "x-api-key")])
def test_the_header_style_of_the_target_file(tmp_path, auth, style):
    made = connected(tmp_path, table={"auth": auth})
    assert made.sides.relay.auth == style
    for other in ("bearer", "x-api-key"):
        made.use_auth(other)
        assert made.sides.relay.auth == other


def test_the_user_agent_is_plain_unless_named(tmp_path):
    assert connected(tmp_path).user_agent().startswith("python-httpx/")
    assert connected(tmp_path, table={"user_agent": "my-shop/1"}).user_agent() == "my-shop/1"


def test_a_missing_key(tmp_path):
    with pytest.raises(KeyRefused, match="RELAY_KEY is not set"):
        connected(tmp_path, RELAY_KEY="")
    with pytest.raises(KeyRefused, match="OFFICIAL_KEY is not set"):
        connected(tmp_path, official=VENDOR, OFFICIAL_KEY="", OFFICIAL_KEY_ORIGIN=VENDOR)
    assert (
        connected(tmp_path, RELAY_KEY="", permissions=Permissions(relay_key=RELAY_KEY)).sides.relay.secret.reveal_for(
            LOOP
        )
        == RELAY_KEY
    )


def test_nobody_outside_the_file_confirmed_the_address(tmp_path):
    with pytest.raises(OriginUnconfirmed):
        connected(tmp_path, relay=FAR)


@pytest.mark.parametrize(
    ("permissions", "environ"),
    [
        (Permissions(origins=frozenset({FAR})), {}),
        (Permissions(ask=lambda question: FAR in question), {}),
        (Permissions(), {"RELAY_KEY_ORIGIN": FAR}),
    ],
)
def test_ways_to_confirm_it(tmp_path, permissions, environ):
    assert connected(tmp_path, relay=f"{FAR}/v1", permissions=permissions, **environ).sides.relay.secret.origin == FAR


def test_the_trust_list_confirms_it(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "trusted_origins.toml").write_text(f'origins = ["{FAR}"]\n', encoding="utf-8")
    assert connected(tmp_path, relay=FAR).sides.relay.secret.origin == FAR


def test_a_refusal_at_the_terminal_is_a_refusal(tmp_path):
    with pytest.raises(OriginUnconfirmed):
        connected(tmp_path, relay=FAR, permissions=Permissions(ask=lambda _: False))


def test_a_vendors_key_stays_at_home(tmp_path):
    yes = frozenset({FAR})
    with pytest.raises(KeyRefused):
        connected(tmp_path, relay=FAR, permissions=Permissions(origins=yes), RELAY_KEY=OFFICIAL_KEY)
    allowed = Permissions(origins=yes, official_key_to="relay.example")
    assert connected(tmp_path, relay=FAR, permissions=allowed, RELAY_KEY=OFFICIAL_KEY)
    with pytest.raises(KeyRefused):
        connected(
            tmp_path,
            relay=FAR,
            permissions=Permissions(origins=yes, official_key_to="other.example"),
            RELAY_KEY=OFFICIAL_KEY,
        )


def test_one_key_for_both_sides_is_refused(tmp_path):
    same = {"RELAY_KEY": RELAY_KEY, "OFFICIAL_KEY": RELAY_KEY}
    both = frozenset({FAR, VENDOR})
    with pytest.raises(KeyRefused, match="the same"):
        connected(tmp_path, relay=FAR, official=VENDOR, permissions=Permissions(origins=both), **same)


def test_two_runs_never_spend_on_one_key_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(connecting, "WAIT_FOR_OTHER_RUN_S", 2)
    one, two = connected(tmp_path), connected(tmp_path)
    other = connected(tmp_path, RELAY_KEY="sk-another-0123456789abcdef")
    space = Workspace(tmp_path / "audits", tmp_path / "state", tmp_path / "config")
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)

    async def both() -> None:
        async with one.exclusive(space):
            async with other.exclusive(space):
                pass
            monkeypatch.setattr(asyncio, "sleep", no_wait)
            with pytest.raises(Unfinished, match="another run"):
                async with two.exclusive(space):
                    raise AssertionError("two runs at once")
        async with two.exclusive(space):
            pass

    asyncio.run(both())
    assert waits == [1, 1]
    locks = list((tmp_path / "state" / "locks").iterdir())
    assert len(locks) == 2
    assert not any("relay" in lock.name or RELAY_KEY[:12] in lock.name for lock in locks)
