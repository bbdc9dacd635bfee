"""Which addresses are ordinary ones, and who may reach which."""

from __future__ import annotations

import asyncio

import pytest

from relay_audit.addresses import AddressBook, check, check_host, kind_of, look_up
from relay_audit.errors import AddressRefused


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"), ("127.8.8.8", "loopback"), ("::1", "loopback"), ("::ffff:127.0.0.1", "loopback"),
        ("10.1.2.3", "private"), ("172.16.0.1", "private"), ("192.168.1.1", "private"), ("fc00::1", "private"),
        ("::ffff:10.0.0.1", "private"), ("64:ff9b::10.0.0.1", "private"), ("2002:0a00:0001::1", "private"),
        ("169.254.1.1", "link_local"), ("fe80::1", "link_local"), ("fe80::1%eth0", "link_local"),
        ("169.254.169.254", "metadata"), ("fd00:ec2::254", "metadata"), ("100.100.100.200", "metadata"),
        ("::ffff:169.254.169.254", "metadata"), ("64:ff9b::169.254.169.254", "metadata"),
        ("100.64.0.1", "shared"), ("198.18.0.7", "fake_ip"), ("224.0.1.1", "multicast"), ("ff0e::1", "multicast"),
        ("0.0.0.0", "unspecified"), ("::", "unspecified"),  # noqa: S104
        ("240.0.0.1", "private"), ("192.0.2.1", "private"),
        ("8.8.8.8", ""), ("2606:4700::1111", ""), ("64:ff9b::8.8.8.8", ""), ("::ffff:8.8.8.8", ""),
    ],
)  # fmt: skip
def test_kinds(address: str, kind: str):
    assert kind_of(address) == kind
    if not kind:
        check(address, host="relay.example", allow_private=False)
        return
    with pytest.raises(AddressRefused) as refused:
        check(address, host="relay.example", allow_private=False)
    assert refused.value.details == {"host": "relay.example", "address": address, "kind": kind}
    assert "--allow-private" in refused.value.next_step
    check(address, host="relay.example", allow_private=True)


@pytest.mark.parametrize("host", ["127.0.0.2", "127.1", "0x7f000001", "017700000001", "2130706433", "a.localhost"])
def test_other_spellings_of_loopback_are_not_the_loopback_that_is_meant(host: str):
    with pytest.raises(AddressRefused):
        check_host(host, allow_private=False)
    check_host(host, allow_private=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "relay.example", "8.8.8.8", "notlocalhost.example"])
def test_hosts_that_may_be_named(host: str):
    check_host(host, allow_private=False)


@pytest.mark.parametrize("allow_private", [False, True])
def test_a_loopback_name_reaches_loopback_only(allow_private: bool):
    check("127.0.0.1", host="localhost", allow_private=allow_private)
    with pytest.raises(AddressRefused) as refused:
        check("8.8.8.8", host="localhost", allow_private=allow_private)
    assert refused.value.details["kind"] == "not_loopback"


def test_made_up_addresses_of_a_local_proxy_tool_have_their_own_remedy():
    with pytest.raises(AddressRefused) as refused:
        check("198.18.0.7", host="relay.example", allow_private=False)
    assert "proxy" in refused.value.next_step


def test_a_failed_look_up_is_asked_again_and_a_good_one_is_kept():
    replies: list[list[str]] = [[], ["8.8.8.8", "8.8.4.4", "8.8.8.8"], ["10.0.0.1"]]

    async def lookup(_host: str, _port: int) -> list[str]:
        return replies.pop(0)

    async def run() -> None:
        book = AddressBook(lookup)
        with pytest.raises(OSError, match="no address"):
            await book.addresses("relay.example", 443, allow_private=False)
        assert await book.addresses("relay.example", 443, allow_private=False) == ("8.8.8.8", "8.8.4.4")
        book.prefer("relay.example", "8.8.4.4")
        book.prefer("relay.example", "9.9.9.9")
        assert await book.addresses("relay.example", 443, allow_private=False) == ("8.8.4.4", "8.8.8.8")

    asyncio.run(run())
    assert replies == [["10.0.0.1"]]


def test_the_systems_resolver():
    assert "127.0.0.1" in asyncio.run(look_up("127.0.0.1", 80))
