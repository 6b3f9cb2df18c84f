"""Requests to a kernel byte by byte: what an HTTP client would tidy up on the way."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from payaccept.api.kernel import Kernel


class RawAnswer(msgspec.Struct):
    """An answer as it left the kernel, and how many pieces of the body were read for it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    pieces_read: int

    def header(self, name: str) -> str:
        """The one value of a header."""
        [value] = [value for other, value in self.headers if other == name]
        return value

    @property
    def result(self) -> dict[str, Any]:
        """The member `result`."""
        return msgspec.json.decode(self.body)["result"]

    @property
    def code(self) -> str:
        """The result code."""
        return self.result["resultCode"]

    @property
    def message(self) -> str:
        """The result message."""
        return self.result["resultMessage"]


async def exchange(
    kernel: Kernel,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | Sequence[bytes] = b"",
) -> RawAnswer:
    """Send one request; a body given in pieces has no Content-Length."""
    pieces = [body] if isinstance(body, bytes) else list(body)
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    if isinstance(body, bytes):
        sent.append((b"content-length", str(len(body)).encode()))
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": sent,
        "client": ("192.0.2.7", 4711),
    }
    answer = RawAnswer(0, [], b"", 0)

    async def receive() -> dict[str, Any]:
        piece = pieces[answer.pieces_read]
        answer.pieces_read += 1
        return {"type": "http.request", "body": piece, "more_body": answer.pieces_read < len(pieces)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = [(name.decode(), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            answer.body += message["body"]

    await kernel(scope, receive, send)
    return answer
