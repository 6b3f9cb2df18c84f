"""Which URLs a deployment takes for its notifications and redirects, and which addresses it dials."""

import ipaddress
import re
from typing import Final

from msgspec import Struct

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65_535
_MAX_NAME: Final = 253

_VISIBLE: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]*")  # no space, no control character, no backslash
_URL: Final = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
# RFC 1123, and the underscore that some names have in practice.
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
# What somebody's resolver may read as an IPv4 address: a host whose last label is a number (as WHATWG has it).
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LOCAL_NAMES: Final = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa", ".onion")


class UrlRefused(ValueError):
    """The URL is none that this deployment uses; the message says why, as what the URL does."""


class Destination(Struct, frozen=True, kw_only=True):
    """A URL taken apart, once: what is checked is what is dialled and what is sent.

    scheme, host: in lower case; an IPv6 address without its brackets
    target: the path and query exactly as they were given, for the path is signed
    address: the host, when it is written as an address
    """

    scheme: str
    host: str
    port: int
    target: str
    address: Address | None

    @property
    def authority(self) -> str:
        """The value of the Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if isinstance(self.address, ipaddress.IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


class UrlPolicy(Struct, frozen=True, kw_only=True):
    """The deployment's rule: https to public addresses only, unless it is a local sandbox.

    own_host: the host this deployment itself is reached by, where notifications do not go; None to allow it
    """

    allow_http: bool
    allow_private: bool
    own_host: str | None = None

    def problem(self, url: str) -> str | None:
        """Say what is wrong with an absolute http(s) URL, or None. Names are looked up when dialled."""
        try:
            self.destination(url)
        except UrlRefused as refused:
            return str(refused)
        return None

    def destination(self, url: str) -> Destination:
        """Take a URL apart that may be used. Raises: UrlRefused."""
        destination = _read(url)
        if destination.scheme == "http" and not self.allow_http:
            raise UrlRefused("must be an https URL")
        if destination.address is not None:
            if not self.allows(destination.address):
                raise UrlRefused("must not lead to a private address")
        elif not self.allow_private and _is_local(destination.host):
            raise UrlRefused("must not lead to a private address")
        if self.own_host is not None and destination.host == self.own_host:
            raise UrlRefused("must not lead to this service itself")
        return destination

    def allows(self, address: Address) -> bool:
        """Tell whether a connection to this address may be made."""
        return self.allow_private or is_public(address)


def _read(url: str) -> Destination:
    if not url.isascii():
        raise UrlRefused("must be written in ASCII (a host name in its xn-- form)")
    if _VISIBLE.fullmatch(url) is None:
        raise UrlRefused("must not have spaces, control characters or backslashes")
    parts = _URL.fullmatch(url)
    if parts is None:
        raise UrlRefused("must be an absolute https URL")
    scheme, authority, target = parts[1].lower(), parts[2], parts[3]
    if "@" in authority:
        raise UrlRefused("must not have a user name or a password")
    split = _AUTHORITY.fullmatch(authority)
    if split is None:
        raise UrlRefused("has a malformed host name")
    host, address = _host(split[1].lower())
    port = DEFAULT_PORTS[scheme] if split[2] is None else _port(split[2])
    if not target.startswith("/"):
        target = f"/{target}"
    return Destination(scheme=scheme, host=host, port=port, target=target, address=address)


def _port(text: str) -> int:
    if _PORT.fullmatch(text) is None or int(text) > _MAX_PORT:
        raise UrlRefused("has a malformed port")
    return int(text)


def _host(text: str) -> tuple[str, Address | None]:
    if not text:
        raise UrlRefused("must have a host")
    if text.startswith("["):
        address = literal_address(text[1:-1])
        if not isinstance(address, ipaddress.IPv6Address):
            raise UrlRefused("has brackets around what is no IPv6 address")
        return str(address), address
    address = literal_address(text)
    if address is not None:
        return str(address), address
    if _NUMBER.fullmatch(text.rstrip(".").rpartition(".")[2]) is not None:
        raise UrlRefused("must name its host by a name or a plain IP address")
    if text.endswith("."):
        raise UrlRefused("must not end its host with a dot")
    if len(text) > _MAX_NAME or not all(map(_LABEL.fullmatch, text.split("."))):
        raise UrlRefused("has a malformed host name")
    return text, None


def host_of(url: str) -> str:
    """Return the host of an http(s) URL as destinations have it. Raises: UrlRefused."""
    return _read(url).host


def _is_local(name: str) -> bool:
    return "." not in name or f".{name}".endswith(_LOCAL_NAMES)


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


# The special-purpose registries of IANA, and what is public by their books but leads elsewhere. They are written
# out because `is_global` knows each release of them only as well as the running Python does.
_NEVER_V4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",  # private
            "100.64.0.0/10",  # carriers' NAT; a cloud's metadata
            "127.0.0.0/8",  # this machine
            "168.63.129.16/32",  # Azure's metadata and agents, reachable from its machines only
            "169.254.0.0/16",  # link-local; most clouds' metadata
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",  # documentation
            "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24",  # AS112 and AMT: the nearest one of many
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",  # benchmarking
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)  # fmt: skip
_NEVER_V6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
            "2001:db8::/32", "3fff::/20",  # documentation
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the 6bone, given back
        ),
    )
)  # fmt: skip
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})


def is_public(address: Address) -> bool:
    """Tell whether an address is somebody else's on the public Internet, in whatever form it is written."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _NEVER_V4)
    inner = address.ipv4_mapped or address.sixtofour
    if address in _NAT64:
        inner = _last_32_bits(address)
    if inner is not None:
        return is_public(inner)
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP and not is_public(_last_32_bits(address)):
        return False
    return (
        address in _GLOBAL_UNICAST
        and address.is_global
        and not any(address in network for network in _NEVER_V6)
    )


def _last_32_bits(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
