"""Names to addresses, against a name server of the tests'."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator

import pytest

from endpoints import OK, Endpoint, answering, outbound, post
from payaccept.adapters.outbound.resolver import DnsResolver
from payaccept.adapters.outbound.unanswered import Unanswered
from payaccept.domain.delivery import Answered, Unreachable
from processes import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

A, AAAA = 1, 28
NXDOMAIN, SERVFAIL = 3, 2


class NameServer(asyncio.DatagramProtocol):
    """Knows what it is told, says of `…fails` that it failed, and of names under `dead` nothing at all."""

    def __init__(self, **addresses: list[str]) -> None:
        self.asked: list[str] = []
        self._addresses = {name.replace("_", "."): given for name, given in addresses.items()}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name = ".".join(labels).lower()
        kind = struct.unpack_from("!H", data, at + 1)[0]
        self.asked.append(name)
        if name.endswith(".dead"):
            return
        code = SERVFAIL if name.endswith("fails") else 0 if name in self._addresses else NXDOMAIN
        records = b""
        count = 0
        for address in self._addresses.get(name, []):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if kind == (AAAA if family == socket.AF_INET6 else A):
                packed = socket.inet_pton(family, address)
                records += b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(packed)) + packed
                count += 1
        head = data[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, count, 0, 0)
        self._transport.sendto(head + data[12 : at + 5] + records, addr)


@contextlib.asynccontextmanager
async def served(**addresses: list[str]) -> AsyncIterator[tuple[NameServer, DnsResolver]]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameServer(**addresses), local_addr=("127.0.0.1", 0)
    )
    resolver = DnsResolver([f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"])
    try:
        yield server, resolver
    finally:
        await resolver.close()
        transport.close()


async def test_all_addresses_of_both_families_are_returned():
    async with served(shop_example=["192.0.2.7", "2001:db8::7", "192.0.2.8"]) as (_, resolver):
        assert set(await resolver.resolve("shop.example")) == {"192.0.2.7", "2001:db8::7", "192.0.2.8"}


async def test_a_name_that_is_not_there_is_unknown_and_a_server_that_fails_is_something_else():
    async with served(v6_example=[]) as (_, resolver):
        for name in ("no.example", "v6.example"):
            with pytest.raises(Unanswered, match="the host name is unknown"):
                await resolver.resolve(name)
        with pytest.raises(Unanswered, match="the host name could not be looked up"):
            await resolver.resolve("shop.fails")


async def test_names_are_asked_for_as_they_are_without_search_domains_or_aliases(monkeypatch, tmp_path):
    aliases = tmp_path / "aliases"
    aliases.write_text("receiver elsewhere.example\n")
    monkeypatch.setenv("HOSTALIASES", str(aliases))
    monkeypatch.setenv("LOCALDOMAIN", "corp.example")
    async with served(receiver_corp_example=["192.0.2.7"]) as (server, resolver):
        for name in ("receiver", "shop.receiver"):
            with pytest.raises(Unanswered):
                await resolver.resolve(name)
        assert set(server.asked) == {"receiver", "shop.receiver"}


async def test_localhost_is_this_machine_and_no_server_is_asked():
    async with served() as (server, resolver):
        assert set(await resolver.resolve("localhost")) <= {"127.0.0.1", "::1"}
        assert server.asked == []


async def test_localhost_reaches_an_endpoint_of_either_family():
    for host in ("127.0.0.1", "::1"):
        async with Endpoint(answering(OK), host=host) as endpoint, outbound() as client:
            assert (await post(client, endpoint.url(host="localhost"))).outcome == Answered(200)


async def test_hundreds_of_names_without_an_answer_hold_up_nobody():
    async with (
        served(shop_example=["127.0.0.1"]) as (server, resolver),
        Endpoint(answering(OK)) as endpoint,
        outbound(resolver=resolver, timeout_s=1.0) as client,
    ):
        dead = []
        for number in range(300):
            dead.append(asyncio.create_task(post(client, f"http://n{number}.dead/")))
            # All of them in one go would overflow the server's socket.
            await asyncio.sleep(0.005 if number % 20 == 0 else 0)
        await eventually(lambda: len(server.asked) >= 300, "all names are asked for")
        begun = time.perf_counter()
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == Answered(200)
        assert time.perf_counter() - begun < 0.5
        assert {(await task).outcome for task in dead} == {Unreachable("no complete answer within 1 s")}


async def test_a_look_up_that_is_given_up_is_forgotten():
    async with served() as (_, resolver):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await resolver.resolve("shop.dead")
