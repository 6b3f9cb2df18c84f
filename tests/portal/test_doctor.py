"""The signature doctor's page: a captured request is examined, and nothing of it kept."""

import itertools

import pytest

from deployment import fetch_all
from draft import PATH, Draft
from merchant import Merchant, at_now, compact, private_key, public_pem, request_of
from payaccept.domain.user import Role

fresh = itertools.count(9000)


async def shop_of(portal, owner) -> Merchant:
    key = private_key(next(fresh))
    stored = await portal.services.merchants.add_key(owner.client_id, public_pem(key), portal.clock())
    merchant = Merchant(owner.client_id)
    merchant.use_key(stored.key_version, key)
    return merchant


def raw(shop: Merchant, body: bytes, signed: bytes | None = None, **changes: str) -> str:
    headers = shop.headers(PATH, body if signed is None else signed, at_now()) | changes
    head = [f"POST {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", body.decode()])


async def examine(visitor, home: str, text: str):
    path = f"{home}/requests/doctor"
    return await visitor.fill(path, path, capture=text)


async def test_a_right_request_is_found_healthy(portal):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    seen = await examine(await owner.browser(), owner.home, raw(shop, compact(request_of("createQROrder"))))
    assert seen.status == 200
    assert "Nothing is wrong with it" in seen.text
    assert "It verifies under keyVersion 1." in seen.text


async def test_a_wrong_one_is_told_every_rule_that_it_breaks(portal):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    body = compact(request_of("createQROrder", paymentAmount=None))
    text = raw(shop, body, signed=body + b"\n", **{"Content-Type": "text/plain"})
    seen = await examine(await owner.browser(), owner.home, text)
    assert "3 things are wrong" in seen.text
    for rule in ("content-type", "trailing-newline", "paymentAmount"):
        assert rule in seen.text
    assert "What has to be signed" in seen.text
    form = seen.form(f"{owner.home}/requests/doctor")
    assert body.decode() in form.fields["capture"]


async def test_a_refused_request_can_be_opened_in_the_doctor(portal, kernel):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    body = b'{\n  "paymentRequestId": "order-1"\n}\n'
    answer = await Draft(shop, body=body).send(kernel)
    await kernel._refusals.flush()
    visitor = await owner.browser()
    path = f"{owner.home}/requests/doctor"
    page = await visitor.get(f"{path}?request={answer.header('request-id')}")
    seen = await visitor.send(page, path)
    assert "It verifies under keyVersion 1." in seen.text
    assert "paymentAmount" in seen.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Paste a request"),
        ("hello", "must start with a request line"),
        ("{}", "is not a JSON object of method, path, headers and body"),
        ("x" * 100_000, "longer than any request"),
        ("POST /v1 HTTP/1.1\r\nno header\r\n\r\n", "a line that is no header"),
    ],
)
async def test_what_is_no_request_is_told_beside_the_field_and_stays(portal, text, told):
    owner = await portal.owner()
    seen = await examine(await owner.browser(), owner.home, text)
    assert seen.status == 422
    assert told in seen.text
    assert "capture-error" in seen.ids
    assert seen.form(f"{owner.home}/requests/doctor").fields["capture"].split() == text.split()


async def test_a_private_key_never_comes_back(portal):
    owner = await portal.owner()
    seen = await examine(
        await owner.browser(),
        owner.home,
        "-----BEGIN PRIVATE KEY-----\r\nMIIEsecret\r\n-----END PRIVATE KEY-----",
    )
    assert "This holds a private key" in seen.text
    assert "MIIEsecret" not in seen.html


async def test_nothing_of_it_is_kept(portal, settings):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    await examine(await owner.browser(), owner.home, raw(shop, b'{"a":1}', signed=b"{}"))
    for table in ("refused_requests", "key_uses", "payments"):
        rows = fetch_all(settings.database_url, f"SELECT FROM {table} WHERE client_id = %s", owner.client_id)
        assert rows == []


async def test_the_keys_of_another_merchant_are_not_asked(portal):
    owner, other = await portal.owner(), await portal.owner()
    theirs = await shop_of(portal, other)
    await shop_of(portal, owner)
    seen = await examine(await owner.browser(), owner.home, raw(theirs, b"{}"))
    assert "other-client-id" in seen.text
    assert "unregistered-key" in seen.text


async def test_viewers_may_ask_the_doctor(portal):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    viewer = await (await portal.colleague(owner, Role.VIEWER)).browser()
    seen = await examine(viewer, owner.home, raw(shop, compact(request_of("createQROrder"))))
    assert "Nothing is wrong with it" in seen.text
