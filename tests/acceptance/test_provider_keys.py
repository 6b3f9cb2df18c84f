"""Provider keys change while a running sandbox sells, and a merchant with the SDK does not notice."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from payaccept.sdk import NotificationRefused, WebhookKeys
from payaccept.sdk.notifications import verify
from processes import Sandbox, eventually
from traffic import Arrival, Receiver, Till, acknowledge, published_keys, respond

LEAD_S, KEEP_S = 8.0, 3.0
"""A copy of the list is good for 2 s then; the SDK renews its own every 5 s."""


@pytest.fixture
def sandbox(directory: Path) -> Iterator[Sandbox]:
    """A sandbox whose keys are rotated within seconds."""
    options = ("--settle-delay", "0", "--retry-schedule", ",".join(["1"] * 20))
    times = {"PAYACCEPT_PROVIDER_KEY_LEAD_S": str(LEAD_S), "PAYACCEPT_PROVIDER_KEY_KEEP_S": str(KEEP_S)}
    with Sandbox(directory / "data", *options, **times) as running:
        yield running


class Shop:
    """A merchant's endpoint with the SDK: 200 for what verifies, 401 for what does not."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.keys = WebhookKeys.from_url(f"{sandbox.base_url}/.well-known/payaccept/webhook-keys")
        self.signed_by: list[int] = []
        self.refused: Counter[int] = Counter()
        self.sold = 0
        self.done: set[str] = set()

    async def receive(self, arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        version = int(arrival.headers["Signature"].partition("keyVersion=")[2].partition(",")[0])
        try:
            event = await asyncio.to_thread(
                verify, arrival.body, arrival.headers, path=arrival.path, keys=self.keys
            )
        except NotificationRefused:
            self.refused[version] += 1
            await respond(writer, 401)
            return
        self.signed_by.append(version)
        self.done.add(event.payment_request_id)
        await acknowledge(arrival, writer)

    @asynccontextmanager
    async def selling(self, sandbox: Sandbox) -> AsyncIterator[None]:
        """Sell about 20 times a second; at the end every payment has been told."""
        stop = asyncio.Event()

        async def sell(till: Till, url: str) -> None:
            while not stop.is_set():
                assert (await till.create("retailPay", paymentNotifyUrl=url)).code == "SUCCESS"
                self.sold += 1
                await asyncio.sleep(0.05)

        async with (
            Receiver(hook=self.receive) as receiver,
            Till(sandbox.base_url, sandbox.demo_merchant()) as till,
            asyncio.TaskGroup() as tasks,
        ):
            client_id = till.merchant.client_id
            await sandbox.acli("merchant", "set", client_id, "--rate-limit", "none")
            tasks.create_task(sell(till, f"{receiver.base_url}/hook"))
            await eventually(lambda: self.done, "the first webhook")
            try:
                yield
            finally:
                stop.set()
            await eventually(lambda: len(self.done) == self.sold, "every payment is told")


async def test_every_webhook_around_a_rotation_verifies_at_the_first_attempt(sandbox: Sandbox) -> None:
    shop = Shop(sandbox)
    async with shop.selling(sandbox):
        begun = time.monotonic()
        new = await sandbox.acli("provider-key", "rotate")
        assert (new["keyVersion"], new["status"]) == (2, "PUBLISHED")
        assert set(await published_keys(sandbox.base_url)) == {1, 2}
        await eventually(lambda: shop.signed_by[-1] == 2, "the new key signs")
        assert LEAD_S - 1 < time.monotonic() - begun < LEAD_S + 3
        assert set(await published_keys(sandbox.base_url)) == {1, 2}
        await asyncio.sleep(KEEP_S + 0.5)
        assert set(await published_keys(sandbox.base_url)) == {2}
    assert shop.refused == {}
    assert set(shop.signed_by) == {1, 2}
    assert len(shop.signed_by) == len(shop.done) == shop.sold
    listed = await sandbox.acli("provider-key", "list")
    assert [key["status"] for key in listed] == ["WITHDRAWN", "ACTIVE"]
    log = (sandbox.data_dir / "logs" / "worker.log").read_text()
    assert '"keyVersion":1,"status":"WITHDRAWN"' in log


async def test_a_key_in_the_wrong_hands_is_out_of_use_at_once_and_no_webhook_is_lost(
    sandbox: Sandbox,
) -> None:
    shop = Shop(sandbox)
    async with shop.selling(sandbox):
        withdrawn = await sandbox.acli("provider-key", "withdraw", "1", "--replace")
        assert withdrawn["status"] == "WITHDRAWN"
        assert set(await published_keys(sandbox.base_url)) == {2}
        await eventually(lambda: shop.signed_by[-1] == 2, "the replacement signs, and is known")
        sold, told = shop.sold, len(shop.signed_by)
        await eventually(lambda: shop.sold > sold + 20, "business goes on")
    assert set(shop.signed_by[told:]) == {2}
    assert shop.keys.find(1) is None
