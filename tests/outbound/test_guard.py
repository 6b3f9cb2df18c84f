"""Where a post does not go, whatever a name says: every address is checked, at every connection."""

import pytest

from endpoints import LOCAL, NEARBY, OK, Endpoint, Names, Talk, answering, outbound, post
from payaccept.domain.delivery import Answered, Unreachable
from payaccept.domain.urls import Address, UrlPolicy

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC = UrlPolicy(allow_http=True, allow_private=False)
PRIVATE = Unreachable("the host name leads to a private address")
OURSELVES = Unreachable("the host name leads to this service itself")

PRIVATE_ADDRESSES = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1",
    "169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:db8::1", "3fff::1", "fc00::1", "fd00:ec2::254",
    "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "ff0e::1", "100::1", "5f00::1", "2001:20::1",
    "2606:4700::5efe:10.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
async def test_a_name_that_leads_to_a_private_address_is_not_dialled(address):
    async with outbound(PUBLIC, resolver=Names(shop_example=[[address]]), timeout_s=0.3) as client:
        exchange = await post(client, "https://shop.example/")
    assert exchange.outcome == PRIVATE
    assert exchange.timing.connect_us is None


@pytest.mark.parametrize(
    "found", [["127.0.0.2", "10.0.0.1"], ["::1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"]]
)
async def test_one_private_address_among_good_ones_refuses_them_all(found):
    async with (
        Endpoint(answering(OK), host="127.0.0.2") as endpoint,
        outbound(NEARBY, resolver=Names(shop_example=[found])) as client,
    ):
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == PRIVATE
        assert endpoint.connections == 0


async def once(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")


async def test_a_name_that_leads_elsewhere_the_second_time_is_refused_the_second_time():
    names = Names(shop_example=[["127.0.0.2"], ["127.0.0.1"]])
    async with (
        Endpoint(once, host="127.0.0.2") as good,
        Endpoint(once, host="127.0.0.1", port=good.port) as own,
        outbound(NEARBY, resolver=names) as client,
    ):
        assert (await post(client, good.url(host="shop.example"))).outcome == Answered(200)
        assert (await post(client, good.url(host="shop.example"))).outcome == PRIVATE
        assert (good.connections, own.connections) == (1, 0)
    assert names.asked == ["shop.example"] * 2


async def test_what_is_dialled_is_what_was_checked_for_a_connection_asks_once():
    # Whoever asked a second time, to connect, would get the private address.
    names = Names(shop_example=[["127.0.0.2"], ["127.0.0.1"]])
    async with (
        Endpoint(answering(OK), host="127.0.0.2") as good,
        Endpoint(answering(OK), host="127.0.0.1", port=good.port) as own,
        outbound(NEARBY, resolver=names) as client,
    ):
        for _ in range(3):  # the connection is kept, and what was checked once stays
            assert (await post(client, good.url(host="shop.example"))).outcome == Answered(200)
        assert (good.connections, own.connections) == (1, 0)
    assert names.asked == ["shop.example"]


async def test_the_replacement_of_a_kept_connection_is_checked_again():
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(OK)
        await talk.hear()

    names = Names(shop_example=[["127.0.0.2"], ["10.0.0.1"]])
    async with (
        Endpoint(behave, host="127.0.0.2") as good,
        outbound(NEARBY, resolver=names) as client,
    ):
        assert (await post(client, good.url(host="shop.example"))).outcome == Answered(200)
        assert (await post(client, good.url(host="shop.example"))).outcome == PRIVATE


async def test_an_address_of_this_machine_is_left_before_anything_is_sent():
    class Forgetful(UrlPolicy, frozen=True, kw_only=True):
        """A rule that lets an address of this machine through: the connection itself shows where it has led."""

        def allows(self, address: Address) -> bool:
            return address.is_loopback or super().allows(address)

    heard: list[bytes] = []

    async def behave(talk: Talk) -> None:
        heard.append(await talk.reader.read())

    policy = Forgetful(allow_http=True, allow_private=False)
    names = Names(shop_example=[["127.0.0.1"]])
    async with Endpoint(behave) as endpoint, outbound(policy, resolver=names) as client:
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == OURSELVES
        assert exchange.timing.connect_us is None
        while not heard:
            await post(client, endpoint.url(host="shop.example"))
    assert set(heard) == {b""}


async def test_a_url_that_is_not_allowed_any_more_is_refused_at_the_attempt():
    async with Endpoint(answering(OK)) as endpoint, outbound(PUBLIC) as client:
        exchange = await post(client, endpoint.url())
        assert exchange.outcome == Unreachable("the URL must not lead to a private address")
        exchange = await post(client, "https://user:secret@shop.example/")
        assert exchange.outcome == Unreachable("the URL must not have a user name or a password")
        assert endpoint.connections == 0


async def test_this_deployments_own_host_is_refused_by_name():
    policy = UrlPolicy(allow_http=False, allow_private=False, own_host="pay.example")
    names = Names(pay_example=[["127.0.0.2"]])
    async with outbound(policy, resolver=names) as client:
        exchange = await post(client, "https://PAY.example:8443/hook")
    assert exchange.outcome == Unreachable("the URL must not lead to this service itself")
    assert not names.asked


async def test_a_local_sandbox_posts_anywhere():
    names = Names(receiver=[["127.0.0.1", "::1"]])
    async with Endpoint(answering(OK)) as endpoint, outbound(LOCAL, resolver=names) as client:
        assert (await post(client, endpoint.url(host="receiver"))).outcome == Answered(200)


async def test_a_name_without_an_address_is_unknown():
    async with outbound(PUBLIC, resolver=Names(shop_example=[[]])) as client:
        exchange = await post(client, "https://shop.example/")
    assert exchange.outcome == Unreachable("the host name is unknown")
