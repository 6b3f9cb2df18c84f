"""Which URLs a deployment takes for its notifications and redirects."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

_NUMERIC_HOST: Final = re.compile(
    r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+))*\.?", re.IGNORECASE | re.ASCII
)
_HOST: Final = re.compile(
    r"[a-z0-9]([a-z0-9_-]{0,62})(\.[a-z0-9]([a-z0-9_-]{0,62}))*\.?", re.IGNORECASE | re.ASCII
)
_LOCAL_NAMES: Final = (".localhost", ".local", ".internal")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# What `is_global` calls global although it leads, or may lead, elsewhere.
_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_NEVER: Final = (
    ipaddress.IPv6Network("::/96"),  # IPv4-compatible
    ipaddress.IPv6Network("fec0::/10"),  # site-local
    ipaddress.IPv6Network("3fff::/20"),  # documentation
    ipaddress.IPv6Network("100::/64"),  # discard
    ipaddress.IPv6Network("5f00::/16"),  # segment routing
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays
    ipaddress.IPv4Network("192.31.196.0/24"),
    ipaddress.IPv4Network("192.52.193.0/24"),
    ipaddress.IPv4Network("192.175.48.0/24"),
)


class UrlPolicy(Struct, frozen=True, kw_only=True):
    """The deployment's rule: https to public addresses only, unless it is a local sandbox."""

    allow_http: bool
    allow_private: bool

    def problem(self, url: str) -> str | None:
        """Say what is wrong with an absolute http(s) URL, or None. Names are looked up when dialled."""
        if not url.isascii():
            return "must be written in ASCII (a host name in its xn-- form)"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return "must be an absolute https URL"
        host = parts.hostname or ""
        if parts.scheme != "https" and not (parts.scheme == "http" and self.allow_http):
            return "must be an https URL"
        if not host or port == 0 or len(host) > 253 or "@" in parts.netloc:  # noqa: PLR2004
            return "must be an absolute https URL with a host and without a user name"
        if "[" in parts.netloc and not isinstance(literal_address(host), ipaddress.IPv6Address):
            return "has brackets around what is no IPv6 address"
        return self._host_problem(host)

    def _host_problem(self, host: str) -> str | None:
        address = literal_address(host)
        if address is not None:
            return None if self.allows(address) else "must not lead to a private address"
        if ":" in host or _NUMERIC_HOST.fullmatch(host) is not None:
            return "must name its host by a name or a plain IP address"
        if _HOST.fullmatch(host) is None:
            return "has a malformed host name"
        local = "." not in host.rstrip(".") or f".{host.rstrip('.')}".endswith(_LOCAL_NAMES)
        if local and not self.allow_private:
            return "must not lead to a private address"
        return None

    def allows(self, address: Address) -> bool:
        """Tell whether a connection to this address may be made."""
        return self.allow_private or is_public(address)


def literal_address(host: str) -> Address | None:
    """Return the address that a host is written as, or None when it is a name.

    An IPv6 address with a zone (RFC 6874) means something on one machine only: no address here.
    """
    if "%" in host:
        return None
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Tell whether an address is somebody else's on the public Internet, in whatever form it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and any(address in network for network in _NAT64):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None:
            return False
    if any(address.version == network.version and address in network for network in _NEVER):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)
