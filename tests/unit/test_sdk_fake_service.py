"""A service in a few lines, for the tests of the SDK and the client commands; and that it is strict.

It verifies signatures with `wire.signing`, keeps payments in a dict, and plays whatever accident a test
scripts: the next replies are taken from `accidents` before the honest ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from payaccept.sdk import Amount, Client, errors
from payaccept.wire import signing

CLIENT_ID = "sandbox_0123456789abcdef01234567"
BASE_URL = "http://service.test"
KEY = rsa.generate_private_key(65537, 2048)
OTHER_KEY = rsa.generate_private_key(65537, 2048)


def refusal(http_status: int, code: str, status: str = "F", **headers: str) -> httpx.Response:
    result = {"resultStatus": status, "resultCode": code, "resultMessage": f"{code} it is."}
    return httpx.Response(http_status, json={"result": result}, headers={"Request-Id": "req-1", **headers})


def refused() -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def timed_out() -> httpx.Response:
    raise httpx.ReadTimeout("timed out")


@dataclass
class FakeService:
    """`accidents`: what happens to the next requests. `lost`: how many answers get lost after the deed."""

    key: RSAPrivateKey = KEY
    accidents: list[Callable[[], httpx.Response]] = field(default_factory=list)
    lost: int = 0
    requests: list[httpx.Request] = field(default_factory=list)
    payments: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: str = "SUCCESS"
    failure_code: str = "INSUFFICIENT_BALANCE"

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.accidents:
            return self.accidents.pop(0)()
        answer = self._answer(request)
        if self.lost and request.url.path != "/v1/payments/inquiryPayment":
            self.lost -= 1
            raise httpx.ReadTimeout("timed out")
        return answer

    async def ahandle(self, request: httpx.Request) -> httpx.Response:
        return self.handle(request)

    def http(self) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(self.handle))

    def async_http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self.ahandle))

    def client(self, **options: Any) -> Client:
        return Client(BASE_URL, CLIENT_ID, 1, self.key, http=self.http(), **options)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        headers = request.headers
        string = signing.request_string(
            request.method, request.url.path, headers["client-id"], headers["request-time"], request.content
        )
        try:
            header = signing.parse_header(headers["signature"])
            signing.verify(KEY.public_key(), header.signature, string)
        except ValueError:
            return refusal(401, "INVALID_SIGNATURE")
        body = msgspec.json.decode(request.content)
        operation = request.url.path.rpartition("/")[2]
        if operation == "inquiryPayment":
            return self._inquire(body)
        request_id = body["paymentRequestId"]
        if request_id in self.payments:
            return refusal(409, "REPEAT_REQUEST")
        payment_id = f"pay_{len(self.payments):036x}"
        self.payments[request_id] = {
            "paymentId": payment_id,
            "paymentRequestId": request_id,
            "paymentAmount": body["paymentAmount"],
        }
        accepted = {"resultStatus": "A", "resultCode": "ACCEPTED", "resultMessage": "Accepted."}
        ids = {"paymentRequestId": request_id, "paymentId": payment_id}
        if operation == "createQROrder":
            answer = {"result": accepted, **ids, "qrCode": f"https://pay.test/q/{payment_id}"}
        elif operation == "linkPayCreate":
            url = f"https://pay.test/pay/{payment_id}"
            answer = {"result": accepted, "merchantTransId": request_id, "redirectUrl": url}
        elif self.status == "FAIL":
            return refusal(200, self.failure_code)
        else:
            paid = {"resultStatus": "S", "resultCode": "SUCCESS", "resultMessage": "Success."}
            amount = body["paymentAmount"]
            answer = {"result": paid, **ids, "paymentAmount": amount, "paymentTime": "2026-01-31T12:00:00Z"}
        return httpx.Response(200, json=answer, headers={"Request-Id": "req-1"})

    def _inquire(self, body: dict[str, str]) -> httpx.Response:
        payment = self.payments.get(body.get("paymentRequestId", ""))
        if payment is None:
            return refusal(404, "ORDER_NOT_EXIST")
        answer = {
            "result": {"resultStatus": "S", "resultCode": "SUCCESS", "resultMessage": "Success."},
            "paymentStatus": self.status,
            **payment,
        }
        if self.status != "PROCESSING":
            answer["paymentTime"] = "2026-01-31T12:00:00.000Z"
        if self.status == "FAIL":
            answer |= {"failureCode": self.failure_code, "failureMessage": "Too poor."}
        return httpx.Response(200, json=answer)


def test_the_fake_service_refuses_another_key() -> None:
    with FakeService(key=OTHER_KEY).client() as client, pytest.raises(errors.SignatureRefused):
        client.create_qr_order(payment_request_id="a", amount=Amount("EUR", 1), product_code="p")
