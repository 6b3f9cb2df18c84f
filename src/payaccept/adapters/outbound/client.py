"""One post: from a URL to what became of it."""

import asyncio
import logging
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from payaccept.adapters.outbound.answer import AnswerReader
from payaccept.adapters.outbound.connection import Connection, DeadlinePassed
from payaccept.adapters.outbound.dialling import Dialler, Stages, make_tls_context
from payaccept.adapters.outbound.judgement import judge
from payaccept.adapters.outbound.pool import Pool
from payaccept.adapters.outbound.resolver import DnsResolver, Resolver
from payaccept.adapters.outbound.unanswered import ConnectionClosed, Unanswered
from payaccept.domain.delivery import AttemptOutcome, Exchange, Timing, Unreachable
from payaccept.domain.egress_proxy import EgressProxy
from payaccept.domain.urls import Destination, UrlPolicy, UrlRefused

_REMEMBERED: Final = 4096

_log = logging.getLogger(__name__)


class _Route(msgspec.Struct, frozen=True):
    """What every request to a URL has in common."""

    destination: Destination
    place: tuple[str, str, int]
    head: str


class Outbound:
    """Posts to merchants' endpoints. To be opened and closed in the running loop.

    proxy: what all connections go through
    resolver, tls: instead of the name servers and the trusted authorities of this machine
    """

    def __init__(
        self,
        policy: UrlPolicy,
        *,
        timeout_s: float,
        proxy: EgressProxy | None = None,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._timeout_s = timeout_s
        self._proxy = proxy
        self._given_resolver = resolver
        self._given_tls = tls
        self._resolver: Resolver
        self._dialler: Dialler
        self._pool: Pool
        # The judgement is of the URL alone: the same at every attempt, so it may be remembered.
        self._route = lru_cache(_REMEMBERED)(self._find_route)

    async def open(self) -> None:
        """Get ready, with no connection yet."""
        self._resolver = self._given_resolver or DnsResolver()
        tls = self._given_tls or make_tls_context()
        self._dialler = Dialler(self._policy, self._resolver, tls, self._proxy)
        self._pool = Pool(asyncio.get_running_loop())

    async def close(self) -> None:
        """Close all connections that are idle."""
        self._pool.close()
        await self._resolver.close()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Exchange:
        """Post a notification, and tell how it went. Never raises for what a merchant does."""
        begun = time.perf_counter_ns()
        stages = Stages()
        reader: AnswerReader | None = None
        try:
            reader = await self._exchange(url, body, headers, stages)
            outcome: AttemptOutcome = judge(reader.status, reader.body, reader.retry_after)
        except Unanswered as error:
            outcome = Unreachable(str(error))
        except (TimeoutError, DeadlinePassed):
            outcome = Unreachable(f"no complete answer within {self._timeout_s:g} s")
        except UrlRefused as refused:
            outcome = Unreachable(f"the URL {refused}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the attempt has failed and the schedule goes on
            _log.exception("an exchange failed in an unforeseen way")
            outcome = Unreachable(f"the exchange failed ({type(error).__name__})")
        timing = Timing(
            resolve_us=stages.resolve_us,
            connect_us=stages.connect_us,
            tls_us=stages.tls_us,
            first_byte_us=stages.first_byte_us,
            total_us=(time.perf_counter_ns() - begun) // 1000,
        )
        return Exchange(outcome, timing, b"" if reader is None else reader.body)

    async def _exchange(
        self, url: str, body: bytes, headers: Mapping[str, str], stages: Stages
    ) -> AnswerReader:
        route = self._route(url)
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        request = f"{route.head}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        connection = self._pool.take(route.place)
        if connection is not None:
            try:
                return await self._ask(connection, request, deadline, route, stages)
            except ConnectionClosed:
                # Closed while it lay idle, most likely, which is no answer: once more, on a new one.
                stages.first_byte_us = None
        async with asyncio.timeout_at(deadline):
            connection = await self._dialler.dial(route.destination, stages, self._pool.forget)
        return await self._ask(connection, request, deadline, route, stages)

    async def _ask(
        self, connection: Connection, request: bytes, deadline: float, route: _Route, stages: Stages
    ) -> AnswerReader:
        try:
            reader = await connection.exchange(request, deadline)
        finally:
            stages.first_byte_us = connection.first_byte_us
        self._pool.keep(route.place, connection)
        return reader

    def _find_route(self, url: str) -> _Route:
        destination = self._policy.destination(url)
        return _Route(
            destination,
            (destination.scheme, destination.host, destination.port),
            f"POST {destination.target} HTTP/1.1\r\nHost: {destination.authority}\r\n",
        )
