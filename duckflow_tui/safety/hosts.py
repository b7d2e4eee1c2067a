"""The hosts that a command may reach: how they are written, and what a consent to them covers.

A host is its name in small letters, or its address, with ``:port`` where one was given; without
one it stands for the ports 80 and 443.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

MOST: Final = 10  # hosts of one command
_PORTS: Final = frozenset({80, 443})
_NAME: Final = re.compile(r"(?=.{1,253}$)(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
#: With an IPv4 address at their end: compatible, mapped and translated ones, and those of NAT64.
_IPV4_INSIDE: Final = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
#: All that IANA gives out for everybody. Python's own table lacks what came later, such as the
#: NAT64 of one's own network, 64:ff9b:1::/48, and the second block of documentation.
_GIVEN_OUT: Final = ipaddress.IPv6Network("2000::/3")
_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")

#: Before the hosts of a grant; no command is written like this.
ON_NETWORK: Final = "*network "

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def read_host(text: str) -> str:
    """The host that this names; of a URL the one in it. Raises ValueError for anything else, a
    pattern too.
    """
    given = text.strip().lower()
    try:
        address: Address | None = ipaddress.ip_address(given)
    except ValueError:
        address = None
    if address is not None:
        return _join_host(str(address), None)
    try:
        url = urlsplit(given if "://" in given else f"//{given}")
        name, port = (url.hostname or "").removesuffix("."), url.port
    except ValueError:
        raise ValueError("is not a host, or its port is none") from None
    if url.username is not None or port == 0 or not _is_name(name):
        raise ValueError("is not one host: write its name, as in pypi.org, or pypi.org:8080")
    return _join_host(name, port)


def _is_name(name: str) -> bool:
    """Whether it is an address, or a name that the system reads as nothing else."""
    if _parse_address(name) is not None:
        return True
    # The system would read the last two as addresses: ``127.1``, ``0x7f000001``.
    last = name.rpartition(".")[2]
    return bool(_NAME.fullmatch(name)) and not last.isdigit() and not last.startswith("0x")


def _join_host(name: str, port: int | None) -> str:
    if port is None:
        return name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def has_host(hosts: Iterable[str], name: str, port: int) -> bool:
    """Whether one of the hosts is this name at this port."""
    return _join_host(name, port) in hosts or (port in _PORTS and name in hosts)


def is_covered(hosts: Iterable[str], given: Iterable[str]) -> bool:
    """Whether a consent to the ``given`` ones is one to these hosts too."""
    allowed = frozenset(given)
    return all(host in allowed or has_host(allowed, *_split_host(host)) for host in hosts)


def _split_host(host: str) -> tuple[str, int]:
    """Name and port of a host as ``read_host`` writes it; 0 where it has no port."""
    if _parse_address(host) is not None:
        return host, 0
    url = urlsplit(f"//{host}")
    return url.hostname or "", url.port or 0


def names_address(name: str) -> bool:
    """Whether the name is a literal address or ``localhost``: who allows it knows where it leads,
    so it may be private.
    """
    return _parse_address(name) is not None or name == "localhost" or name.endswith(".localhost")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: ``localhost`` or a loopback address, also with a port."""
    name, _ = _split_host(host)
    address = _parse_address(name)
    return names_address(name) and (address is None or address.is_loopback)


def is_public(text: str) -> bool:
    """Whether an address is one that everybody reaches: not of this machine, its network or its
    provider, also not in another spelling. One with an IPv4 address inside is judged by that.
    """
    address = _parse_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.sixtofour
        if any(address in network for network in _IPV4_INSIDE):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and (address not in _GIVEN_OUT or address in _DOCUMENTATION):
            return False
        address = inner or address
    return address is not None and address.is_global and not address.is_multicast


def _parse_address(name: str) -> Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
