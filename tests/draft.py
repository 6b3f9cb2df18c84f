"""A request in the making, to be spoiled in one way or another before it is signed and sent."""

from typing import Any

import msgspec

from merchant import PREFIX, Merchant, at_now, compact, request_of
from raw_asgi import RawAnswer, exchange

CREATE = "createQROrder"
PATH = PREFIX + CREATE


class Draft(msgspec.Struct):
    """A request in the making: signed when it is sent, from whatever it has become by then."""

    merchant: Merchant
    method: str = "POST"
    path: str = PATH
    query: str = ""
    body: bytes = msgspec.field(default_factory=lambda: compact(request_of(CREATE)))
    client_id: str = ""
    request_time: str = msgspec.field(default_factory=at_now)
    content_type: str = "application/json"
    signed_body: bytes | None = None
    signature_header: str = "algorithm=SHA256withRSA, keyVersion={version}, signature={signature}"
    key_version: int | None = None
    left_out: set[str] = msgspec.field(default_factory=set)
    doubled: set[str] = msgspec.field(default_factory=set)

    async def send(self, kernel: Any) -> RawAnswer:
        """Sign it and send it."""
        signer = Merchant(self.client_id or self.merchant.client_id)
        signer.use_key(1, self.merchant.key)
        signed = self.body if self.signed_body is None else self.signed_body
        signature = signer.signature(self.path, self.request_time, signed, self.method)
        header = self.signature_header.format(
            version=self.key_version or self.merchant.key_version, signature=signature
        )
        headers = {
            "Client-Id": signer.client_id,
            "Request-Time": self.request_time,
            "Signature": header,
            "Content-Type": self.content_type,
        }
        pairs = [(name, value) for name, value in headers.items() if name not in self.left_out]
        pairs += [(name, value) for name, value in pairs if name in self.doubled]
        return await exchange(kernel, self.method, self.path + self.query, pairs, self.body)
