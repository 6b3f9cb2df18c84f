"""An administrator's commands on a running sandbox, which honours each within a second."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from merchant import Merchant, base64url, compact, private_key, public_pem, request_of
from processes import Sandbox, eventually, one_line, payaccept
from traffic import Answered, Receiver, Till, published_keys, verify

HONOURED_S = 1.0
numbers = count(1_000_000)  # of keys that no other test registers


async def honoured(ask: Callable[[], Awaitable[Answered]], code: str) -> Answered:
    """Ask until the answer is this one, which must be so within a second, and stay so."""
    begun = time.monotonic()
    while True:
        asked_at = time.monotonic()
        answer = await ask()
        if answer.code == code:
            break
        assert asked_at - begun < HONOURED_S, f"still {answer.code} after {HONOURED_S} s"
        await asyncio.sleep(0.02)
    for _ in range(5):
        assert (await ask()).code == code
    return answer


async def register(sandbox: Sandbox, merchant: Merchant, number: int, directory: Path) -> int:
    """Register a further key of a merchant's; returns its keyVersion."""
    file = directory / f"{number}.pem"
    file.write_bytes(public_pem(private_key(number)))
    key = await sandbox.acli("key", "add", merchant.client_id, file)
    assert key["clientId"] == merchant.client_id
    assert key["state"] == "ACTIVE"
    return int(key["keyVersion"])


@pytest.fixture
async def shop(sandbox: Sandbox, directory: Path) -> Merchant:
    """A new merchant with one key and no rate limit."""
    made = await sandbox.acli("merchant", "create", "--name", "Corner shop")
    merchant = Merchant(made["clientId"])
    await sandbox.acli("merchant", "set", merchant.client_id, "--rate-limit", "none")
    number = next(numbers)
    merchant.use_key(await register(sandbox, merchant, number, directory), private_key(number))
    return merchant


async def test_a_new_merchant_takes_payments_at_once_and_every_change_is_honoured(
    sandbox: Sandbox, shop: Merchant
) -> None:
    client_id = shop.client_id
    async with Till(sandbox.base_url, shop) as till:

        async def ask() -> Answered:
            return await till.create("retailPay")

        await honoured(ask, "SUCCESS")
        await sandbox.acli("merchant", "deactivate", client_id)
        await honoured(ask, "INVALID_CLIENT_ID")
        await sandbox.acli("merchant", "activate", client_id)
        await honoured(ask, "SUCCESS")

        body = compact(request_of("createQROrder"))
        first = await till.send("createQROrder", body)
        repeated = lambda: till.send("createQROrder", body)  # noqa: E731
        assert (await repeated()).code == "REPEAT_REQUEST"
        await sandbox.acli("merchant", "set", client_id, "--duplicates", "replay")
        assert (await honoured(repeated, "ACCEPTED")).value == first.value

        changed = await sandbox.acli("merchant", "set", client_id, "--rate-limit", "7")
        assert changed["rateLimit"] == 7
        await asyncio.sleep(HONOURED_S)
        codes = [(await ask()).code for _ in range(9)]
        assert codes == ["SUCCESS"] * 7 + ["REQUEST_TRAFFIC_EXCEED_LIMIT"] * 2
        await sandbox.acli("merchant", "set", client_id, "--rate-limit", "none")
        await honoured(ask, "SUCCESS")

    shown = await sandbox.acli("merchant", "show", client_id)
    assert shown == {
        **shown,
        "duplicates": "replay",
        "rateLimit": None,
        "webhookUrl": None,
        "state": "ACTIVE",
    }
    assert shown in await sandbox.acli("merchant", "list")


async def test_keys_are_rotated_under_load_without_one_refused_request(
    sandbox: Sandbox, shop: Merchant, directory: Path
) -> None:
    old_version = shop.key_version
    new = Merchant(shop.client_id)
    stop = asyncio.Event()
    refused: list[str] = []
    done = {"old": 0, "new": 0}

    async def sell(name: str, merchant: Merchant, stop: asyncio.Event) -> None:
        async with Till(sandbox.base_url, merchant) as till:
            while not stop.is_set():
                answer = await till.create("retailPay")
                done[name] += 1
                if answer.code != "SUCCESS":
                    refused.append(f"{name}: {answer.value['result']}")
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as sellers:
        stop_old = asyncio.Event()
        sellers.create_task(sell("old", shop, stop_old))
        number = next(numbers)
        new_version = await register(sandbox, shop, number, directory)
        assert new_version == old_version + 1
        new.use_key(new_version, private_key(number))
        await asyncio.sleep(HONOURED_S)
        sellers.create_task(sell("new", new, stop))
        await eventually(lambda: done["new"] > 20, "the new key is used")
        stop_old.set()
        await asyncio.sleep(0.1)
        retired = await sandbox.acli("key", "retire", shop.client_id, old_version)
        assert retired["state"] == "RETIRED"
        async with Till(sandbox.base_url, shop) as till:
            answer = await honoured(lambda: till.create("retailPay"), "INVALID_SIGNATURE")
        assert answer.status == 401
        assert "retired" in answer.value["result"]["resultMessage"]
        stop.set()
    assert refused == []
    assert min(done.values()) > 20
    states = {key["keyVersion"]: key["state"] for key in await sandbox.acli("key", "list", shop.client_id)}
    assert states == {old_version: "RETIRED", new_version: "ACTIVE"}


async def test_provider_keys_are_rotated_and_every_webhook_verifies(sandbox: Sandbox, shop: Merchant) -> None:
    [before] = [key for key in await sandbox.acli("provider-key", "list") if key["status"] == "ACTIVE"]
    async with Receiver() as receiver, Till(sandbox.base_url, shop) as till:

        async def pay() -> int:
            count = len(receiver.journal)
            await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/hook")
            await eventually(lambda: len(receiver.journal) > count, "the webhook")
            verify(receiver.journal[-1], await published_keys(sandbox.base_url))
            return int(
                receiver.journal[-1].headers["Signature"].partition("keyVersion=")[2].partition(",")[0]
            )

        assert await pay() == before["keyVersion"]
        rotated = await sandbox.acli("provider-key", "rotate", "--lead", "4")
        assert rotated["keyVersion"] == before["keyVersion"] + 1
        assert rotated["status"] == "PUBLISHED"
        assert rotated["keyVersion"] in await published_keys(sandbox.base_url)
        assert await pay() == before["keyVersion"], "a key signs before its time"
        deadline = time.monotonic() + 10
        while await pay() != rotated["keyVersion"]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
    told = {key["keyVersion"]: key["status"] for key in await sandbox.acli("provider-key", "list")}
    assert told[before["keyVersion"]] == "RETIRED"
    assert told[rotated["keyVersion"]] == "ACTIVE"


async def test_the_customer_is_played_from_the_command_line(sandbox: Sandbox, shop: Merchant) -> None:
    async with Till(sandbox.base_url, shop) as till:
        manual = {"outcome": "MANUAL"}
        qr = (await till.create("createQROrder", sandbox=manual)).value
        link = (await till.create("linkPayCreate", sandbox=manual)).value
        retail = await till.create("retailPay", sandbox=manual)
        assert retail.code == "ACCEPTED"
        assert (await till.inquire(paymentId=qr["paymentId"])).value["paymentStatus"] == "PROCESSING"

        approved = await sandbox.acli("wallet", "approve", qr["qrCode"])
        assert approved == {"paymentId": qr["paymentId"], "paymentStatus": "SUCCESS"}
        assert (await till.inquire(paymentId=qr["paymentId"])).value["paymentStatus"] == "SUCCESS"
        declined = await sandbox.acli(
            "wallet", "decline", link["acquirementId"], "--reason", "INSUFFICIENT_BALANCE"
        )
        assert declined["paymentStatus"] == "FAIL"
        asked = (await till.inquire(paymentId=link["acquirementId"])).value
        assert (asked["paymentStatus"], asked["failureCode"]) == ("FAIL", "INSUFFICIENT_BALANCE")
        await sandbox.acli("wallet", "decline", retail.value["paymentId"])
        asked = (await till.inquire(paymentId=retail.value["paymentId"])).value
        assert asked["failureCode"] == "USER_REJECTED"

        again = await asyncio.to_thread(
            payaccept, "wallet", "decline", qr["paymentId"], "--data-dir", sandbox.data_dir
        )
        assert again.returncode == 1
        assert "final" in one_line(again.stderr)

        code = (await sandbox.acli("wallet", "code"))["paymentAuthCode"]
        assert (await till.create("retailPay", paymentAuthCode=code)).code == "SUCCESS"
        assert (await till.create("retailPay", paymentAuthCode=code)).code == "AUTH_CODE_ALREADY_USED"


def test_an_administrators_mistake_is_told_in_one_line(sandbox: Sandbox, directory: Path) -> None:
    private = directory / "private.pem"
    private.write_text("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n")
    nobody = f"sandbox_{24 * '0'}"
    client_id = sandbox.demo_merchant().client_id
    for arguments in (
        ("merchant", "show", nobody),
        ("merchant", "set", client_id, "--webhook-url", "ftp://example.com"),
        ("merchant", "set", client_id, "--rate-limit", "many"),
        ("key", "add", client_id, private),
        ("key", "add", client_id, directory / "missing.pem"),
        ("key", "add", nobody, private),
        ("key", "retire", client_id, 99),
        ("wallet", "approve", "pay_unknown"),
        ("wallet", "decline", "x", "--reason", "NO_SUCH_CODE"),
    ):
        done = payaccept(*arguments, "--data-dir", sandbox.data_dir)
        assert done.returncode in {1, 2}, arguments
        assert done.stdout == ""
        one_line(done.stderr)
    done = payaccept("merchant", "list", "--data-dir", directory)
    assert done.returncode == 2
    assert str(directory) in one_line(done.stderr)


async def test_the_published_keys_are_the_same_as_pem_and_as_jwks(sandbox: Sandbox) -> None:
    def fetch(path: str) -> Any:
        with urlopen(sandbox.base_url + path, timeout=10) as answer:  # noqa: S310 - our own address
            return json.load(answer)

    listed = await asyncio.to_thread(fetch, "/.well-known/payaccept/webhook-keys")
    jwks = {key["kid"]: key for key in (await asyncio.to_thread(fetch, "/.well-known/jwks.json"))["keys"]}
    assert len(listed) == len(jwks) >= 1
    for key in listed:
        numbers = load_pem_public_key(key["publicKeyPem"].encode()).public_numbers()
        assert jwks[str(key["keyVersion"])]["n"] == base64url(numbers.n.to_bytes(256))
        assert jwks[str(key["keyVersion"])]["e"] == "AQAB"
