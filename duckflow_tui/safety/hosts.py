"""Hosts that a command may reach: how they are written, and which hosts a consent covers.

A host is a name in lower case or an address, with ``:port`` where one was given; without a port it
stands for the ports 80 and 443.
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
#: Networks whose addresses end with an IPv4 address: compatible, mapped, translated, NAT64.
_IPV4_INSIDE: Final = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
#: The global unicast addresses that IANA assigns. Python's table lacks later exceptions, such as
#: local NAT64, 64:ff9b:1::/48, and the second block for documentation.
_GIVEN_OUT: Final = ipaddress.IPv6Network("2000::/3")
_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")

#: Before the hosts of a grant; no command is written like this.
ON_NETWORK: Final = "*network "

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def read_host(text: str) -> str:
    """Parse a name, an address or a URL into a host with its port if one was given. Raises
    ValueError for anything else, also for a pattern.
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
        raise ValueError("is not a host, or its port is invalid") from None
    if url.username is not None or port == 0 or not _is_name(name):
        raise ValueError("is not one host: write its name, as in pypi.org, or pypi.org:8080")
    return _join_host(name, port)


def _is_name(name: str) -> bool:
    """Whether the text is an address, or a host name that the system does not read as an
    address.
    """
    if _parse_address(name) is not None:
        return True
    # The system reads names that end like ``127.1`` and ``0x7f000001`` as addresses.
    last = name.rpartition(".")[2]
    return bool(_NAME.fullmatch(name)) and not last.isdigit() and not last.startswith("0x")


def _join_host(name: str, port: int | None) -> str:
    """Join a name or address and a port; an IPv6 address gets brackets. Without a port the name
    alone.
    """
    if port is None:
        return name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def has_host(hosts: Iterable[str], name: str, port: int) -> bool:
    """Whether one of the hosts stands for this name at this port."""
    return _join_host(name, port) in hosts or (port in _PORTS and name in hosts)


def is_covered(hosts: Iterable[str], given: Iterable[str]) -> bool:
    """Whether consent to the ``given`` hosts covers all of ``hosts``."""
    allowed = frozenset(given)
    return all(host in allowed or has_host(allowed, *_split_host(host)) for host in hosts)


def _split_host(host: str) -> tuple[str, int]:
    """Return name and port of a host as ``read_host`` writes it; port 0 where it has none."""
    if _parse_address(host) is not None:
        return host, 0
    url = urlsplit(f"//{host}")
    return url.hostname or "", url.port or 0


def names_address(name: str) -> bool:
    """Whether the name is a literal address or ``localhost``. Such a host may be private: the user
    who allows it knows where it leads.
    """
    return _parse_address(name) is not None or name == "localhost" or name.endswith(".localhost")


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is ``localhost`` or a loopback address."""
    name, _ = _split_host(host)
    address = _parse_address(name)
    return names_address(name) and (address is None or address.is_loopback)


def is_public(text: str) -> bool:
    """Whether an address is reachable by everybody: not loopback, private, link-local or reserved.
    An address with an IPv4 address inside is judged by that one. False for text that is no
    address.
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
    """Parse an IP address; None for any other text."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
