"""Both clients over httpx, their arguments, keys and credentials files."""

import asyncio
import copy
import pickle
import time
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from payaccept.sdk import (
    Amount,
    AsyncClient,
    Client,
    CreateQROrderRequest,
    DescribedOrder,
    Order,
    errors,
    keys,
    load_credentials,
)
from unit.test_sdk_fake_service import BASE_URL, CLIENT_ID, KEY, FakeService, timed_out

EUR = Amount("EUR", 1999)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def pem_of(key: object, encryption: object = None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())  # type: ignore[attr-defined]


def test_the_three_ways_to_be_paid_and_the_inquiry() -> None:
    with FakeService().client() as client:
        qr = client.create_qr_order(payment_request_id="qr-1", amount=EUR, product_code="p")
        retail = client.retail_pay(payment_request_id="r-1", amount=EUR, product_code="p", auth_code="28")
        link = client.link_pay_create(
            payment_request_id="l-1",
            amount=EUR,
            product_code="p",
            order=DescribedOrder(order_description="Tea"),
            redirect_url="https://shop.test/thanks",
        )
        assert qr.payment_request_id == "qr-1"
        assert retail.payment_amount == EUR
        assert link.merchant_trans_id == "l-1"
        assert client.inquire(payment_request_id="qr-1").payment_id == qr.payment_id


async def test_the_asynchronous_client_does_the_same() -> None:
    service = FakeService(accidents=[timed_out])
    async with AsyncClient(BASE_URL, CLIENT_ID, 1, KEY, http=service.async_http()) as client:
        qr = await client.create_qr_order(payment_request_id="qr-1", amount=EUR, product_code="p")
        await client.retail_pay(payment_request_id="r-1", amount=EUR, product_code="p", auth_code="28")
        order = DescribedOrder(order_description="Tea")
        await client.link_pay_create(payment_request_id="l-1", amount=EUR, product_code="p", order=order)
        assert (await client.inquire(payment_request_id="qr-1")).payment_id == qr.payment_id
    assert len(service.requests) == 5


def test_the_blocking_client_sends_again() -> None:
    service = FakeService(accidents=[timed_out])
    with service.client() as client:
        client.create_qr_order(payment_request_id="qr-1", amount=EUR, product_code="p")
    assert len(service.requests) == 2


def test_a_request_may_be_given_instead_of_keywords() -> None:
    request = CreateQROrderRequest("ORDER_CODE", "p", "CGCP", "qr-1", EUR)
    with FakeService().client() as client:
        assert client.create_qr_order(request).payment_request_id == "qr-1"
        with pytest.raises(TypeError, match="not both"):
            client.create_qr_order(request, amount=EUR)  # type: ignore[call-overload]


def test_a_keyword_that_is_missing_or_unknown_is_named() -> None:
    with FakeService().client() as client:
        with pytest.raises(TypeError, match="'amount'"):
            client.create_qr_order(payment_request_id="a", product_code="p")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="'amonut'"):
            client.create_qr_order(payment_request_id="a", product_code="p", amount=EUR, amonut=1)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="payment_id"):
            client.inquire()


def test_optional_keywords_reach_the_wire_and_none_leaves_them_out() -> None:
    service = FakeService()
    with service.client() as client:
        client.create_qr_order(
            payment_request_id="qr-1",
            amount=EUR,
            product_code="p",
            order=Order(order_description="Tea"),
            notify_url="https://shop.test/hook",
            extend_info={"sandbox": {"outcome": "FAIL"}},
        )
        client.create_qr_order(payment_request_id="qr-2", amount=EUR, product_code="p", notify_url=None)
    full, spare = (msgspec.json.decode(request.content) for request in service.requests)
    assert full["paymentNotifyUrl"] == "https://shop.test/hook"
    assert full["extendInfo"] == '{"sandbox":{"outcome":"FAIL"}}'
    assert "paymentNotifyUrl" not in spare


def test_redirects_are_not_followed() -> None:
    moved = httpx.Response(302, headers={"Location": "https://elsewhere.test/"})
    service = FakeService(accidents=[lambda: moved])
    http = httpx.Client(transport=httpx.MockTransport(service.handle), follow_redirects=True)
    with Client(BASE_URL, CLIENT_ID, 1, KEY, http=http) as client, pytest.raises(errors.AnswerMalformed):
        client.create_qr_order(payment_request_id="a", amount=EUR, product_code="p")
    assert len(service.requests) == 1


def test_an_answer_without_end_is_cut() -> None:
    service = FakeService(accidents=[lambda: httpx.Response(200, content=b" " * 2_000_000)])
    with service.client(retries=0) as client, pytest.raises(errors.OutcomeUnknown, match="longer than"):
        client.create_qr_order(payment_request_id="a", amount=EUR, product_code="p")


async def test_a_trickling_answer_is_given_up() -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        async def trickle():
            for _ in range(100):
                await asyncio.sleep(0.02)
                yield b" "

        return httpx.Response(200, content=trickle())

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    began_s = time.monotonic()
    client = AsyncClient(BASE_URL, CLIENT_ID, 1, KEY, http=http, timeout_s=0.1, retries=0)
    with pytest.raises(errors.OutcomeUnknown, match="too long"):
        await client.create_qr_order(payment_request_id="a", amount=EUR, product_code="p")
    assert time.monotonic() - began_s < 1


def test_an_http_client_that_was_given_is_not_closed() -> None:
    http = FakeService().http()
    with Client(BASE_URL, CLIENT_ID, 1, KEY, http=http):
        pass
    assert not http.is_closed


def test_no_repr_shows_the_key() -> None:
    client = Client(BASE_URL, CLIENT_ID, 3, PEM)
    assert repr(client) == f"Client({BASE_URL!r}, {CLIENT_ID!r}, key_version=3)"
    assert "private_key" not in repr(client._calls)
    client.close()


def test_a_client_is_made_of_the_sandbox_s_file(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(PEM)
    file = tmp_path / "demo-merchant.json"
    file.write_text(
        f'{{"baseUrl":"{BASE_URL}","clientId":"{CLIENT_ID}","keyVersion":1,"privateKeyFile":"key.pem",'
        '"webhookKeysUrl":"http://service.test/keys","later":1}'
    )
    with Client.from_file(file, http=FakeService().http()) as client:
        assert client.create_qr_order(payment_request_id="a", amount=EUR, product_code="p")
    assert load_credentials(str(file)).webhook_keys_url == "http://service.test/keys"
    assert "baseUrl" not in repr(AsyncClient.from_file(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("[]", "not a merchant's credentials file"),
        ('{"baseUrl":"http://a","clientId":"c","keyVersion":1}', "privateKeyFile"),
        (
            '{"baseUrl":"http://a","clientId":"c","keyVersion":1,"privateKeyFile":"no.pem"}',
            "no.pem cannot be",
        ),
    ],
)
def test_a_credentials_file_that_is_no_good_is_told_so(
    tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "m.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(errors.CredentialsUnusable, match=message):
        Client.from_file(file)


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (b"", "not a private key"),
        (keys.public_pem(KEY.public_key()), "not a private key"),
        (pem_of(ec.generate_private_key(ec.SECP256R1())), "RSA key of 2048"),
        (pem_of(rsa.generate_private_key(65537, 3072)), "RSA key of 2048"),
        (pem_of(KEY, BestAvailableEncryption(b"secret")), "passphrase"),
    ],
)
def test_a_private_key_that_cannot_sign_is_refused(pem: bytes, message: str) -> None:
    with pytest.raises(errors.CredentialsUnusable, match=message):
        Client(BASE_URL, CLIENT_ID, 1, pem)


def test_a_private_key_given_for_a_public_one_is_refused() -> None:
    with pytest.raises(errors.CredentialsUnusable, match="private key"):
        keys.load_public(PEM)
    with pytest.raises(errors.CredentialsUnusable, match="not a public key"):
        keys.load_public(b"-----BEGIN")


def test_a_generated_pair_belongs_together() -> None:
    pair = keys.generate()
    private = keys.load_private(pair.private_pem)
    assert keys.public_pem(private.public_key()) == pair.public_pem
    assert private.key_size == 2048


@pytest.mark.parametrize("url", ["", "service.test", "ftp://service.test", "http://a.test/?q=1"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(errors.CredentialsUnusable, match="base_url"):
        Client(url, CLIENT_ID, 1, KEY)


def test_a_client_id_cannot_smuggle_a_header() -> None:
    with pytest.raises(errors.CredentialsUnusable, match="client_id"):
        Client(BASE_URL, "a\r\nX-Evil: 1", 1, KEY)
    with pytest.raises(errors.CredentialsUnusable, match="key_version"):
        Client(BASE_URL, CLIENT_ID, 0, KEY)


def test_errors_survive_a_task_queue() -> None:
    error = errors.RateLimited("C", "m", http_status=429, request_id="r", retry_after_s=3.0)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert type(copied) is errors.RateLimited
        assert (str(copied), copied.retry_after_s, copied.request_id) == (str(error), 3.0, "r")
