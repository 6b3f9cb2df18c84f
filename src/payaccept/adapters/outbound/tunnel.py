"""A tunnel through the egress proxy: to an address that we have checked, so the proxy looks up no name."""

import asyncio
import re
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Final

from payaccept.adapters.outbound import tcp
from payaccept.adapters.outbound.unanswered import Unanswered
from payaccept.domain.egress_proxy import EgressProxy
from payaccept.domain.urls import Address

_MAX_HEAD_BYTES: Final = 16 * 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_MAX_TRIED: Final = 3


class _Refused(Unanswered):
    """The proxy has answered, and does not connect us."""


async def connect(
    proxy: EgressProxy, proxies: Sequence[Address], addresses: Sequence[Address], port: int
) -> socket.socket:
    """Return a socket that is connected to one of the addresses, through the proxy. Raises: Unanswered."""
    refused = Unanswered("the egress proxy was given no address")
    for address in addresses[:_MAX_TRIED]:
        try:
            sock = await tcp.connect(proxies, proxy.port)
        except Unanswered:
            raise Unanswered("the egress proxy could not be reached") from None
        try:
            await _open(sock, proxy, address, port)
        except _Refused as error:
            sock.close()
            refused = error
        except OSError:
            sock.close()
            raise Unanswered("the egress proxy closed the connection") from None
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise refused


async def _open(sock: socket.socket, proxy: EgressProxy, address: Address, port: int) -> None:
    loop = asyncio.get_running_loop()
    place = f"[{address}]:{port}" if isinstance(address, IPv6Address) else f"{address}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = await loop.sock_recv(sock, 4096)
        if not piece:
            raise Unanswered("the egress proxy closed the connection")
        head += piece
        if len(head) > _MAX_HEAD_BYTES:
            raise Unanswered("the answer of the egress proxy is too long")
    status = _STATUS.match(head)
    if status is None:
        raise Unanswered("the answer of the egress proxy is not HTTP/1.1")
    if not status[1].startswith(b"2"):
        raise _Refused(f"the egress proxy could not connect: it answered HTTP {int(status[1])}")
    if not head.endswith(b"\r\n\r\n") or head.count(b"\r\n\r\n") > 1:
        raise Unanswered("the egress proxy sent something before it was asked")
