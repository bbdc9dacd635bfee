"""Which addresses this program connects to: a name is looked up once, checked, and kept for as long as the book lives.

A relay's operator controls what its name resolves to, and may change it between two requests. Without this, a target
file could aim a buyer's key or a probe at the buyer's own network or at a cloud's metadata service.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from relay_audit.base_address import LOOPBACK
from relay_audit.errors import AddressRefused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

METADATA = frozenset(map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200")))
"""Where AWS and its imitators, AWS over IPv6, and Alibaba Cloud hand out credentials to whoever asks from inside."""
SHARED = ipaddress.ip_network("100.64.0.0/10")
"""Carrier-grade NAT, RFC 6598."""
BENCHMARK = ipaddress.ip_network("198.18.0.0/15")
"""RFC 2544; in practice what a local proxy tool in fake-ip mode answers for every name."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""RFC 6052: an IPv4 address in its last 32 bits."""


class AddressBook:
    """Each host's addresses, looked up at most once. A failed look-up is not kept."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self.look_up = lookup or look_up
        self._known: dict[str, tuple[str, ...]] = {}
        self._lock = asyncio.Lock()

    async def addresses(self, host: str, port: int, *, allow_private: bool) -> tuple[str, ...]:
        """Where `host` may be reached. Raises `AddressRefused` if any of them is refused, OSError if there is none."""
        check_host(host, allow_private=allow_private)
        async with self._lock:
            if host not in self._known:
                found = tuple(dict.fromkeys(await self.look_up(host, port)))
                if not found:
                    raise OSError("no address")
                self._known[host] = found
        for address in self._known[host]:
            check(address, host=host, allow_private=allow_private)
        return self._known[host]

    def prefer(self, host: str, address: str) -> None:
        """The address that answered comes first from now on: a dead one costs its time-out once."""
        if address in self._known.get(host, ()):
            self._known[host] = (address, *(other for other in self._known[host] if other != address))


async def look_up(host: str, port: int) -> list[str]:
    """The system's own resolver, in a thread."""
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]


def check_host(host: str, *, allow_private: bool) -> None:
    """What can be told without a look-up (all there is when a proxy resolves the name). Raises `AddressRefused`."""
    if literal := _literal(host):
        check(literal, host=host, allow_private=allow_private)
    elif host.rstrip(".").endswith("localhost") and host not in LOOPBACK and not allow_private:
        raise _refusal(host, host, "loopback")


def check(address: str, *, host: str, allow_private: bool) -> None:
    """Raises `AddressRefused` unless `host` may be reached at `address`.

    A loopback host reaches loopback and nothing else, whatever is allowed; any other host reaches public addresses.
    """
    kind = kind_of(address)
    if host in LOOPBACK:
        if kind != "loopback":
            raise _refusal(host, address, "not_loopback")
    elif kind and not allow_private:
        raise _refusal(host, address, kind)


def kind_of(address: str) -> str:
    """Why an address is not an ordinary public one, in a word; empty when it is."""
    ip = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    kinds = (
        ("metadata", ip in METADATA),
        ("loopback", ip.is_loopback),
        ("unspecified", ip.is_unspecified),
        ("link_local", ip.is_link_local),
        ("multicast", ip.is_multicast),
        ("shared", ip in SHARED),
        ("fake_ip", ip in BENCHMARK),
        ("private", ip.is_private),
        ("reserved", ip.is_reserved or not ip.is_global),
    )
    return next((kind for kind, holds in kinds if holds), "")


def _unwrapped(ip: Address) -> Address:
    """The IPv4 address inside an IPv6 one (mapped, NAT64, 6to4, Teredo): that is where the packets go."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or ip


def _literal(host: str) -> str:
    """The address a host spells out, also as `127.1`, `0x7f000001` or `2130706433`; empty for a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return ""


def _refusal(host: str, address: str, kind: str) -> AddressRefused:
    remedy = "if this relay really lives inside your own network, say so with --allow-private"
    if kind == "fake_ip":
        remedy = (
            "a proxy tool on this machine answers names with made-up addresses: name it with `proxy = ...` in the "
            "target file, or accept it with --allow-private"
        )
    if kind == "not_loopback":
        remedy = "use 127.0.0.1, or the real name of the server"
    words = "made-up" if kind == "fake_ip" else kind.replace("_", " ")
    place = f"is a {words} address" if host == address else f"leads to a {words} address ({address})"
    return AddressRefused(
        f"{host} {place}; nothing was sent", next_step=remedy, details={"host": host, "address": address, "kind": kind}
    )
