"""From a destination to an open connection: names looked up once, every address checked, one of these dialled."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Final, cast

from payaccept.adapters.outbound import tcp, tunnel
from payaccept.adapters.outbound.connection import Connection
from payaccept.adapters.outbound.resolver import Resolver
from payaccept.adapters.outbound.unanswered import Unanswered
from payaccept.domain.egress_proxy import EgressProxy
from payaccept.domain.urls import Address, Destination, UrlPolicy, literal_address

_PRIVATE: Final = "the host name leads to a private address"
_OURSELVES: Final = "the host name leads to this service itself"

# By the verify code of OpenSSL (X509_V_ERR_*), for these are what a merchant can mend.
_CERTIFICATE: Final = {
    9: "the certificate is not valid yet",
    10: "the certificate has expired",
    18: "the certificate is self-signed",
    19: "the certificate's chain ends in a self-signed certificate that is not trusted",
    20: "the certificate's issuer is unknown, or an intermediate certificate is missing",
    21: "the certificate's issuer is unknown, or an intermediate certificate is missing",
    62: "the certificate is not valid for this host",
    64: "the certificate is not valid for this host",
}


class Stages:
    """How long the parts of an exchange took, in microseconds; None for what was not got to or not needed."""

    __slots__ = ("connect_us", "first_byte_us", "resolve_us", "tls_us")

    def __init__(self) -> None:
        self.resolve_us: int | None = None
        self.connect_us: int | None = None
        self.tls_us: int | None = None
        self.first_byte_us: int | None = None


def make_tls_context() -> ssl.SSLContext:
    """Return what checks certificates against the authorities this machine trusts."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialler:
    """Opens connections. The caller limits the time; what is half open is closed when it does."""

    def __init__(
        self, policy: UrlPolicy, resolver: Resolver, tls: ssl.SSLContext, proxy: EgressProxy | None = None
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._tls = tls
        self._proxy = proxy

    async def dial(
        self, destination: Destination, stages: Stages, on_lost: Callable[[Connection], None]
    ) -> Connection:
        """Return a connection that is ready for a request. Raises: Unanswered."""
        begun = time.perf_counter_ns()
        addresses = await self._checked_addresses(destination)
        resolved = time.perf_counter_ns()
        if destination.address is None:
            stages.resolve_us = (resolved - begun) // 1000
        sock = await self._connect(addresses, destination.port)
        connected = time.perf_counter_ns()
        stages.connect_us = (connected - resolved) // 1000
        tls = destination.scheme == "https"
        try:
            connection = await self._take_over(sock, destination.host if tls else None, on_lost)
        except ssl.SSLCertVerificationError as error:
            words = _CERTIFICATE.get(error.verify_code, "the certificate is not valid")
            raise Unanswered(words) from None
        except ssl.SSLError:
            raise Unanswered("TLS failed") from None
        except OSError:
            raise Unanswered("the connection was closed during the TLS handshake") from None
        if tls:
            stages.tls_us = (time.perf_counter_ns() - connected) // 1000
        return connection

    async def _checked_addresses(self, destination: Destination) -> list[Address]:
        if destination.address is not None:
            return [destination.address]  # checked with the URL
        addresses = _read(await self._resolver.resolve(destination.host))
        # Each of them: who answers with one good address and one bad one means the bad one.
        if not all(map(self._policy.allows, addresses)):
            raise Unanswered(_PRIVATE)
        return addresses

    async def _connect(self, addresses: Sequence[Address], port: int) -> socket.socket:
        if self._proxy is not None:
            literal = literal_address(self._proxy.host)
            proxies = _read(await self._resolver.resolve(self._proxy.host)) if literal is None else [literal]
            return await tunnel.connect(self._proxy, proxies, addresses, port)
        sock = await tcp.connect(addresses, port)
        if not self._policy.allow_private and _is_own(sock):
            sock.close()
            raise Unanswered(_OURSELVES)
        return sock

    async def _take_over(
        self, sock: socket.socket, tls_host: str | None, on_lost: Callable[[Connection], None]
    ) -> Connection:
        """Make a connection of a socket, over TLS for a host if there is one."""
        loop = asyncio.get_running_loop()
        making = asyncio.ensure_future(
            loop.create_connection(
                lambda: Connection(loop, on_lost),
                sock=sock,
                ssl=None if tls_host is None else self._tls,
                server_hostname=tls_host,
            )
        )
        try:
            _, connection = await asyncio.shield(making)
        except asyncio.CancelledError:
            # Cancelled at the wrong moment, uvloop and we would both close the descriptor, which may be somebody
            # else's by then. So it goes on, to find out that the socket has ended.
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            making.add_done_callback(_abandon)
            raise
        return connection


def _abandon(making: "asyncio.Future[tuple[asyncio.Transport, Connection]]") -> None:
    if not making.cancelled() and making.exception() is None:
        making.result()[1].close()


def _is_own(sock: socket.socket) -> bool:
    """Tell whether a connection has come out where it went in."""
    own, peer = literal_address(sock.getsockname()[0]), literal_address(sock.getpeername()[0])
    return own == peer


def _read(texts: Sequence[str]) -> list[Address]:
    """Read what a resolver has found. Raises: Unanswered when that is nothing, or nothing to connect to."""
    addresses = [literal_address(text) for text in texts]
    if not addresses:
        raise Unanswered("the host name is unknown")
    if not all(isinstance(address, IPv4Address | IPv6Address) for address in addresses):
        raise Unanswered(_PRIVATE)  # an address with a zone is of one link only
    return cast("list[Address]", addresses)
