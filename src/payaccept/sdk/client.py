"""The client for ordinary, blocking code."""

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from payaccept.sdk import keys, requests
from payaccept.sdk.answers import Answer, Reply
from payaccept.sdk.credentials import Credentials, load_credentials
from payaccept.sdk.flow import Calls, Flow, Send, Wait
from payaccept.sdk.http_exchange import SYSTEM_CLOCK, Collector, no_answer
from payaccept.wire.messages import (
    CreateQROrderRequest,
    CreateQROrderResponse,
    InquiryPaymentResponse,
    LinkPayCreateRequest,
    LinkPayCreateResponse,
    RetailPayRequest,
    RetailPayResponse,
)

T = TypeVar("T")


class Client:
    """Signs requests with the merchant's key, sends them, and returns typed answers.

    `private_key` is an RSA-2048 key, PEM bytes, or the Path of a PEM file. `timeout_s` bounds one attempt,
    `retries` counts the attempts after the first: connection errors, timeouts, HTTP 5xx and 429 (after its
    Retry-After) are tried again, always with the same bytes and paymentRequestId, and a fresh signature.
    A call returns or raises within about `timeout_s * (retries + 1)`, twice that when a lost answer had to
    be asked for. What it raises is drawn in `payaccept.sdk.errors`.

    One client may be shared by threads. `http` brings an httpx client of your own (proxies, certificates);
    it stays yours to close.
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        key_version: int,
        private_key: RSAPrivateKey | bytes | Path,
        *,
        timeout_s: float = 10.0,
        retries: int = 3,
        http: httpx.Client | None = None,
    ) -> None:
        credentials = Credentials(base_url, client_id, key_version, keys.load_private(private_key))
        self._calls = Calls(credentials, SYSTEM_CLOCK, timeout_s, retries)
        self._http = httpx.Client() if http is None else http
        self._http_is_ours = http is None

    @classmethod
    def from_file(
        cls, path: Path | str, *, timeout_s: float = 10.0, retries: int = 3, http: httpx.Client | None = None
    ) -> Self:
        """Make a client of a credentials file, such as the sandbox's demo-merchant.json.

        Raises: CredentialsUnusable.
        """
        read = load_credentials(path)
        return cls(
            read.base_url,
            read.client_id,
            read.key_version,
            read.private_key,
            timeout_s=timeout_s,
            retries=retries,
            http=http,
        )

    @overload
    def create_qr_order(self, request: CreateQROrderRequest, /) -> CreateQROrderResponse: ...

    @overload
    def create_qr_order(self, /, **fields: Unpack[requests.QROrderFields]) -> CreateQROrderResponse: ...

    def create_qr_order(
        self, request: CreateQROrderRequest | None = None, /, **fields: Any
    ) -> CreateQROrderResponse:
        """Create an order and get the text of its QR code to show to the customer.

        Takes a request, or its fields as keywords: `payment_request_id`, `amount`, `product_code`, and
        optionally `order`, `notify_url`, `extend_info` (text or a mapping).
        Raises: RequestRefused, AlreadyCreated, OutcomeUnknown, ServiceUnavailable.
        """
        made = requests.request_of(CreateQROrderRequest, request, fields)
        return self._run(self._calls.create_qr_order(made))

    @overload
    def retail_pay(self, request: RetailPayRequest, /) -> RetailPayResponse: ...

    @overload
    def retail_pay(self, /, **fields: Unpack[requests.RetailPayFields]) -> RetailPayResponse: ...

    def retail_pay(self, request: RetailPayRequest | None = None, /, **fields: Any) -> RetailPayResponse:
        """Charge the code scanned from the customer's wallet.

        Takes a request, or its fields as keywords: those of `create_qr_order`, and `auth_code`.
        Returns: status `S` when it is paid, `A` while the customer or the wallet has yet to decide.
        Raises: PaymentDeclined, RequestRefused, OutcomeUnknown, ServiceUnavailable.
        """
        made = requests.request_of(RetailPayRequest, request, fields)
        return self._run(self._calls.retail_pay(made))

    @overload
    def link_pay_create(self, request: LinkPayCreateRequest, /) -> LinkPayCreateResponse: ...

    @overload
    def link_pay_create(self, /, **fields: Unpack[requests.LinkPayFields]) -> LinkPayCreateResponse: ...

    def link_pay_create(
        self, request: LinkPayCreateRequest | None = None, /, **fields: Any
    ) -> LinkPayCreateResponse:
        """Create an order and get the links that open the wallet.

        Takes a request, or its fields as keywords: those of `create_qr_order`, with `order` required and
        described, and optionally `redirect_url` and `settlement_strategy`.
        Raises: RequestRefused, AlreadyCreated, OutcomeUnknown, ServiceUnavailable.
        """
        made = requests.request_of(LinkPayCreateRequest, request, fields)
        return self._run(self._calls.link_pay_create(made))

    def inquire(
        self, *, payment_id: str | None = None, payment_request_id: str | None = None
    ) -> InquiryPaymentResponse:
        """Ask how a payment stands, by either identifier or both.

        Raises: PaymentNotFound, RequestRefused, ServiceUnavailable.
        """
        return self._run(self._calls.inquire(requests.inquiry_of(payment_id, payment_request_id)))

    def close(self) -> None:
        """Close the connections, unless they belong to an httpx client that was given."""
        if self._http_is_ours:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        of = self._calls.credentials
        return f"Client({of.base_url!r}, {of.client_id!r}, key_version={of.key_version})"

    def _run(self, flow: Flow[T]) -> T:
        reply: Reply | None = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            match step:
                case Send():
                    reply = self._exchange(step)
                case Wait():
                    time.sleep(step.seconds)
                    reply = None

    def _exchange(self, send: Send) -> Reply:
        collector = Collector(SYSTEM_CLOCK.elapsed_s() + send.timeout_s)
        try:
            with self._http.stream(
                "POST",
                send.url,
                headers=send.headers,
                content=send.body,
                timeout=send.timeout_s,
                follow_redirects=False,
            ) as response:
                for piece in response.iter_bytes():
                    passed = collector.add(piece)
                    if passed is not None:
                        return passed
        except (httpx.TransportError, httpx.DecodingError) as error:
            return no_answer(error)
        return Answer(response.status_code, response.headers, collector.body)
