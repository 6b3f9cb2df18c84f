"""A TCP connection to the first of some addresses that takes it (RFC 8305)."""

import asyncio
import os
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address
from itertools import chain, zip_longest
from typing import Final

from payaccept.adapters.outbound.unanswered import Unanswered
from payaccept.domain.urls import Address

STAGGER_S: Final = 0.25
"""How long one address has before the next one is tried beside it."""
MAX_DIALLED: Final = 6

_REFUSED: Final = "the connection was refused or could not be made"


async def connect(addresses: Sequence[Address], port: int) -> socket.socket:
    """Return a connected socket; all others are closed. Raises: Unanswered."""
    if len(addresses) == 1:
        try:
            return await _connect_to(addresses[0], port)
        except OSError:
            raise Unanswered(_REFUSED) from None
    waiting = _in_turn(addresses)[:MAX_DIALLED]
    started: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    try:
        while waiting or pending:
            if waiting:
                started.append(asyncio.create_task(_connect_to(waiting.pop(0), port)))
                pending.add(started[-1])
            done, pending = await asyncio.wait(
                pending, timeout=STAGGER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if task.exception() is None:
                    started.remove(task)
                    return task.result()
        raise Unanswered(_REFUSED)
    finally:
        _give_up(started)


def _in_turn(addresses: Sequence[Address]) -> list[Address]:
    """The two families in turn, each in the resolver's order: one of them may lead nowhere from here."""
    first = type(addresses[0])
    families = (
        [address for address in addresses if isinstance(address, first)],
        [address for address in addresses if not isinstance(address, first)],
    )
    return [address for address in chain.from_iterable(zip_longest(*families)) if address is not None]


async def _connect_to(address: Address, port: int) -> socket.socket:
    """Connect as `sock_connect` of the loop does, which in uvloop goes by way of getaddrinfo and its four threads."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - so it is called
        try:
            sock.connect((str(address), port))
        except BlockingIOError:
            await _connected(sock)
    except BaseException:
        sock.close()
        raise
    return sock


async def _connected(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(sock, _set, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sock)
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _give_up(tasks: Sequence[asyncio.Task[socket.socket]]) -> None:
    for task in tasks:
        task.cancel()
        task.add_done_callback(_close)


def _close(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
