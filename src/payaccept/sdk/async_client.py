"""The client for asyncio."""

import asyncio
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


class AsyncClient:
    """`Client` with `await`: the same arguments, answers, limits and errors, within one event loop."""

    def __init__(
        self,
        base_url: str,
        client_id: str,
        key_version: int,
        private_key: RSAPrivateKey | bytes | Path,
        *,
        timeout_s: float = 10.0,
        retries: int = 3,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        credentials = Credentials(base_url, client_id, key_version, keys.load_private(private_key))
        self._calls = Calls(credentials, SYSTEM_CLOCK, timeout_s, retries)
        self._http = httpx.AsyncClient() if http is None else http
        self._http_is_ours = http is None

    @classmethod
    def from_file(
        cls,
        path: Path | str,
        *,
        timeout_s: float = 10.0,
        retries: int = 3,
        http: httpx.AsyncClient | None = None,
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
    async def create_qr_order(self, request: CreateQROrderRequest, /) -> CreateQROrderResponse: ...

    @overload
    async def create_qr_order(self, /, **fields: Unpack[requests.QROrderFields]) -> CreateQROrderResponse: ...

    async def create_qr_order(
        self, request: CreateQROrderRequest | None = None, /, **fields: Any
    ) -> CreateQROrderResponse:
        """As `Client.create_qr_order`."""
        made = requests.request_of(CreateQROrderRequest, request, fields)
        return await self._run(self._calls.create_qr_order(made))

    @overload
    async def retail_pay(self, request: RetailPayRequest, /) -> RetailPayResponse: ...

    @overload
    async def retail_pay(self, /, **fields: Unpack[requests.RetailPayFields]) -> RetailPayResponse: ...

    async def retail_pay(
        self, request: RetailPayRequest | None = None, /, **fields: Any
    ) -> RetailPayResponse:
        """As `Client.retail_pay`."""
        made = requests.request_of(RetailPayRequest, request, fields)
        return await self._run(self._calls.retail_pay(made))

    @overload
    async def link_pay_create(self, request: LinkPayCreateRequest, /) -> LinkPayCreateResponse: ...

    @overload
    async def link_pay_create(self, /, **fields: Unpack[requests.LinkPayFields]) -> LinkPayCreateResponse: ...

    async def link_pay_create(
        self, request: LinkPayCreateRequest | None = None, /, **fields: Any
    ) -> LinkPayCreateResponse:
        """As `Client.link_pay_create`."""
        made = requests.request_of(LinkPayCreateRequest, request, fields)
        return await self._run(self._calls.link_pay_create(made))

    async def inquire(
        self, *, payment_id: str | None = None, payment_request_id: str | None = None
    ) -> InquiryPaymentResponse:
        """As `Client.inquire`."""
        return await self._run(self._calls.inquire(requests.inquiry_of(payment_id, payment_request_id)))

    async def aclose(self) -> None:
        """Close the connections, unless they belong to an httpx client that was given."""
        if self._http_is_ours:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        of = self._calls.credentials
        return f"AsyncClient({of.base_url!r}, {of.client_id!r}, key_version={of.key_version})"

    async def _run(self, flow: Flow[T]) -> T:
        reply: Reply | None = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            match step:
                case Send():
                    reply = await self._exchange(step)
                case Wait():
                    await asyncio.sleep(step.seconds)
                    reply = None

    async def _exchange(self, send: Send) -> Reply:
        collector = Collector(SYSTEM_CLOCK.elapsed_s() + send.timeout_s)
        try:
            async with self._http.stream(
                "POST",
                send.url,
                headers=send.headers,
                content=send.body,
                timeout=send.timeout_s,
                follow_redirects=False,
            ) as response:
                async for piece in response.aiter_bytes():
                    passed = collector.add(piece)
                    if passed is not None:
                        return passed
        except (httpx.TransportError, httpx.DecodingError) as error:
            return no_answer(error)
        return Answer(response.status_code, response.headers, collector.body)
