"""Posting a notification: resolve once, check every address, dial the checked one, one deadline.

Redirects are not followed, at most 4 KiB of an answer are read, and nothing of it is kept but what says
whether the merchant has the notification.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from payaccept.domain.delivery import Answered, AttemptOutcome, Unreachable
from payaccept.domain.urls import UrlPolicy, literal_address

MAX_ANSWER_BYTES: Final = 4096
_KEEP_ALIVE_S: Final = 15.0
_MAX_LINE: Final = 4096

_log = logging.getLogger(__name__)


class _Refused(OSError):
    """The name leads to an address that this deployment does not dial."""


class _CheckedResolver(AbstractResolver):
    """Resolves a name and lets only addresses through that the policy allows; what it returns is dialled."""

    def __init__(self, policy: UrlPolicy) -> None:
        self._policy = policy
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for answer in found:
            address = literal_address(answer["host"].partition("%")[0])
            if address is None or not self._policy.allows(address):
                raise _Refused("the host name leads to a private address")
        return found

    async def close(self) -> None:
        await self._resolver.close()


class Outbound:
    """Posts to merchants' endpoints. To be opened and closed in the running loop."""

    def __init__(self, policy: UrlPolicy, *, timeout_s: float) -> None:
        self._policy = policy
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the connection pool."""
        connector = aiohttp.TCPConnector(
            resolver=_CheckedResolver(self._policy),
            use_dns_cache=False,
            limit=0,  # the worker limits what is in flight; waiting for a connection would eat the time-out
            keepalive_timeout=_KEEP_ALIVE_S,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            skip_auto_headers=("Accept", "Accept-Encoding"),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AttemptOutcome:
        """Post a notification, and tell in a few words how it went. Never raises for what a merchant does."""
        problem = self._policy.problem(url)
        if problem is not None:
            return Unreachable(f"the URL {problem}")
        if self._session is None:
            raise RuntimeError("Outbound is not open")
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                # Encoded: the path goes out exactly as it was given, for exactly that is what was signed.
                self._session.post(
                    URL(url, encoded=True), data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                answer = await _read(response)
                return Answered(
                    status=response.status,
                    refusal=_refusal(response.status, answer),
                    retry_after_s=_retry_after_s(response.headers.get("Retry-After")),
                )
        except TimeoutError:
            return Unreachable(f"no complete answer within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unreachable(_in_words(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the attempt has failed and the schedule goes on
            _log.exception("an exchange failed in an unforeseen way")
            return Unreachable(_in_words(error))


# The first that fits; most are kinds of the ones after them.
_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (aiohttp.ClientConnectorCertificateError, "the certificate is not valid for this host"),
    (aiohttp.ClientSSLError, "TLS failed"),
    (aiohttp.ClientConnectorDNSError, "the host name is unknown"),
    (aiohttp.ClientConnectorError, "the connection was refused or could not be made"),
    (aiohttp.ServerDisconnectedError, "the connection was closed before an answer came"),
)


def _in_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, _Refused):
        return "the host name leads to a private address"
    return next(
        (words for kind, words in _WORDS if isinstance(error, kind)),
        f"the exchange failed ({type(error).__name__})",
    )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read at most 4 KiB; what is longer is left unread and its connection given up."""
    parts, size = [], 0
    async for chunk in response.content.iter_chunked(MAX_ANSWER_BYTES):
        parts.append(chunk)
        size += len(chunk)
        if size >= MAX_ANSWER_BYTES:
            response.close()
            break
    return b"".join(parts)[:MAX_ANSWER_BYTES]


class _Result(msgspec.Struct, rename="camel"):
    result_status: Any = None


class _Body(msgspec.Struct):
    result: _Result | None = None


_body_decoder: Final = msgspec.json.Decoder(_Body)


def _refusal(status: int, answer: bytes) -> str | None:
    """Return what in the body says no: a JSON object whose result.resultStatus is there and is not S."""
    if 300 <= status < 400:  # noqa: PLR2004
        return f"HTTP {status}: redirects are not followed"
    if not answer.lstrip().startswith(b"{"):
        return None
    try:
        body = _body_decoder.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if body.result is None or body.result.result_status in {None, "S"}:
        return None
    return f"HTTP {status} with resultStatus {str(body.result.result_status)[:16]!a}"


def _retry_after_s(value: str | None) -> float | None:
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
