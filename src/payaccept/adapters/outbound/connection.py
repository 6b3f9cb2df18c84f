"""One connection: one request and its answer at a time, and nothing else is listened to."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, cast

from payaccept.adapters.outbound.answer import MAX_HEAD_BYTES, AnswerReader
from payaccept.adapters.outbound.unanswered import ConnectionClosed, Unanswered

_CLOSED: Final = "the connection was closed before an answer came"


class DeadlinePassed(Exception):
    """The time for the exchange is used up."""


class Connection(asyncio.Protocol):
    """A protocol for one transport, plain or TLS. `on_lost` is called once, when it is closed.

    Some answer as soon as they are connected, having no place for us; that is kept for the first request, and not
    beyond what a head may be. What is said between two exchanges answers nothing and closes the connection.
    """

    __slots__ = (
        "_asked_ns",
        "_early",
        "_first_byte_ns",
        "_is_fresh",
        "_loop",
        "_on_lost",
        "_reader",
        "_transport",
        "_waiter",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: "Callable[[Connection], None]") -> None:
        self._loop = loop
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_fresh = True
        self._early = b""
        self._asked_ns = 0
        self._first_byte_ns = 0

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it, as far as we have heard."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def first_byte_us(self) -> int | None:
        """How long after the last request the first byte of its answer came; None when none came."""
        return (self._first_byte_ns - self._asked_ns) // 1000 if self._first_byte_ns else None

    @property
    def transport(self) -> asyncio.Transport:
        """What it goes over. Raises: RuntimeError before there is one."""
        if self._transport is None:
            raise RuntimeError("the connection is not made yet")
        return self._transport

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes, deadline: float) -> AnswerReader:
        """Send a request and return its answer; a connection that cannot serve again is closed.

        deadline: of the loop's clock. Raises: Unanswered, DeadlinePassed.
        """
        transport, reader = self.transport, AnswerReader()
        self._first_byte_ns = 0
        if transport.is_closing() and not self._early:
            raise ConnectionClosed(_CLOSED)
        self._reader, self._waiter = reader, self._loop.create_future()
        timer = self._loop.call_at(deadline, self._expire)
        self._asked_ns = time.perf_counter_ns()
        try:
            if not transport.is_closing():
                transport.write(request)
            if self._is_fresh:
                self._catch_up()
            await self._waiter
        except BaseException:
            transport.abort()
            raise
        finally:
            timer.cancel()
            self._reader = self._waiter = None
        # An answer that came before all of the request was taken leaves the two sides out of step.
        if not reader.is_reusable or transport.get_write_buffer_size():
            transport.abort()
        return reader

    def _catch_up(self) -> None:
        """Take what came before the first request."""
        self._is_fresh = False
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        if self.transport.is_closing():
            self._ended()

    def _expire(self) -> None:
        self._fail(DeadlinePassed())

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _succeed(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _ended(self, error: Exception | None = None) -> None:
        if self._reader is None:
            return
        if error is None and self._reader.end():
            self._succeed()
        elif self._first_byte_ns:
            self._fail(Unanswered("the connection was closed in the middle of the answer"))
        else:
            self._fail(ConnectionClosed(_CLOSED))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; TLS, where there is any, has been agreed on."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what the other side says."""
        reader = self._reader
        if reader is None and self._is_fresh and len(self._early) + len(data) <= MAX_HEAD_BYTES:
            self._early += data
            return
        if reader is None or reader.is_done:
            self.close()  # it would be taken for the next answer
            return
        if not self._first_byte_ns:
            self._first_byte_ns = time.perf_counter_ns()
        try:
            if reader.feed(data):
                self._succeed()
        except Unanswered as error:
            self._fail(error)
            self.close()

    def eof_received(self) -> None:
        """Take it that the other side says no more."""
        self._ended()

    def connection_lost(self, error: Exception | None) -> None:
        """Take it that the connection is closed, by whomever."""
        self._ended(error)
        self._on_lost(self)
