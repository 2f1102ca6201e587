"""The internet addresses that connections may go to: those of hosts that everybody can reach.

One rule: an address is globally routable, and reserved for nothing else. Python's `ipaddress` contains most
of IANA's registries of special addresses, each release another part of them: the parts that any release
lacks are listed here.
"""

from __future__ import annotations

import ipaddress

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Nothing else of IPv6 is assigned to hosts that everybody can reach.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
#: The network in which an address leads to the IPv4 address in its last bytes (RFC 6052), which machines
#: without an IPv4 address of their own get from their resolver.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
#: Special networks that some release of `ipaddress` takes for global.
_RESERVED = tuple(
    map(
        ipaddress.ip_network,
        (
            # Assignments of the IETF: of them a release lets single addresses pass.
            "192.0.0.0/24",
            # The way from IPv6 to IPv4 that was given up (RFC 7526).
            "192.88.99.0/24",
            # Azure's service for its own machines, which answers with their secrets.
            "168.63.129.16/32",
            # Assignments of the IETF, among them Teredo, which leads to the IPv4 address inside it.
            "2001::/23",
            # 6to4, which leads to the IPv4 address inside it.
            "2002::/16",
            # Two networks for documents.
            "2001:db8::/32",
            "3fff::/20",
        ),
    )
)


def is_public(address: str) -> bool:
    """Return whether an address, or the IPv4 address it contains, is that of a host everybody can reach.

    >>> [is_public(each) for each in ("8.8.8.8", "10.0.0.1", "169.254.169.254", "::1", "168.63.129.16")]
    [True, False, False, False, False]
    >>> is_public("64:ff9b::a00:1"), is_public("64:ff9b::808:808"), is_public("2606:4700::1111")
    (False, True, True)
    """
    try:
        ip = _meant(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    return (
        ip.is_global
        and not (ip.is_private or ip.is_multicast or ip.is_reserved)
        and (ip.version == 4 or ip in _GLOBAL_UNICAST)
        and not any(ip in network for network in _RESERVED)
    )


def _meant(ip: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address contains or is translated to; else the address itself."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _TRANSLATED:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip
