"""The gate of the signed API: who is asking, may they, and what an error is on the wire.

The checks of a signed request, cheap and safe first; the first that fails answers:

 1. The path is known, the method is POST, the body is at most 64 KiB.
 2. Client-Id, Request-Time, Signature and Content-Type are there once each; JSON is announced.
 3. Request-Time is well formed, and within five minutes of our clock, both ends included.
 4. The merchant is known here and active; the other environment's credentials are told so.
 5. The Signature header parses.
 6. Its keyVersion is an active key of the merchant, and the signature verifies over the bytes received; where the
    key was waiting for the proof that its private half is in the merchant's hands, this is the proof.
 7. The merchant's rate limit has room.
 8. The body is strict JSON and its fields keep their bounds: `endpoints`.

This is the only place where an error becomes a result code, and the code's table the only one where a
code becomes an HTTP status.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from payaccept.api.ports import Directory, FailureLimit, KeyProofs, KeyUses, RateLimits
from payaccept.domain.errors import (
    AdministrationRefused,
    DuplicateRequest,
    FieldsIllegal,
    OutcomeOpen,
    PaymentNotFound,
    Refusal,
)
from payaccept.domain.merchant import RATE_WINDOW_S, Credentials, Environment, Merchant, MerchantState
from payaccept.domain.payment import SignedBody, result
from payaccept.wire import diagnosis, signing, timestamps
from payaccept.wire.codes import TABLE, ResultCode

MAX_SKEW: Final = timedelta(minutes=5)
_JSON_TYPE: Final = re.compile(
    r"application/json(?:\s*;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE | re.ASCII
)
_CLIENT_ID: Final = re.compile(r"(?P<prefix>sandbox_|live_)[0-9a-f]{24}", re.ASCII)
_RETRY_AFTER_S: Final = "1"

_encode = msgspec.json.Encoder().encode

Headers = Sequence[tuple[str, str]]


class Answer(Struct, frozen=True):
    """What goes back: HTTP status, body, and headers besides Content-Type and Request-Id.

    The rest is for the request log; of a refusal, `message` is what its body says.
    """

    status: int
    body: bytes
    headers: Headers = ()
    code: str = ""
    client_id: str = ""
    detail: str = ""
    message: str = ""


class SignedRequest(Struct):
    """A request as the checks see it. `get_all` returns every value of a header by lower-case name."""

    method: str
    path: str
    query: str
    address: str
    get_all: Callable[[str], Sequence[str]]
    body: bytes


class Refused(Exception):
    """A check failed; it answers with this code."""

    def __init__(self, code: ResultCode, message: str | None = None, headers: Headers = ()) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.headers = headers


Endpoint = Callable[[Merchant, SignedBody, datetime], Awaitable[tuple[ResultCode, bytes]]]

_CODE_OF_REFUSAL: Final[tuple[tuple[type[Refusal], ResultCode], ...]] = (
    (FieldsIllegal, ResultCode.PARAM_ILLEGAL),
    (PaymentNotFound, ResultCode.ORDER_NOT_EXIST),
    (DuplicateRequest, ResultCode.REPEAT_REQUEST),
    (OutcomeOpen, ResultCode.SYSTEM_BUSY),
)
_UNAUTHENTICATED: Final = frozenset(
    {
        ResultCode.INVALID_CLIENT_ID,
        ResultCode.INVALID_SIGNATURE,
        ResultCode.ACCESS_DENIED,
        ResultCode.TIMESTAMP_INVALID,
    }
)


class Gate:
    """Lets signed requests through to their endpoint."""

    def __init__(
        self,
        environment: Environment,
        directory: Directory,
        limits: RateLimits,
        failures: FailureLimit,
        *,
        proofs: KeyProofs,
        uses: KeyUses,
    ) -> None:
        self._environment = environment
        self._directory = directory
        self._limits = limits
        self._failures = failures
        self._proofs = proofs
        self._uses = uses
        self._prefix = environment.client_id_prefix
        self._explains = environment is Environment.SANDBOX

    async def pass_through(self, request: SignedRequest, endpoint: Endpoint, now: datetime) -> Answer:
        """Check a request (from step 2 on), have it done, and write the answer."""
        client_id = ""
        try:
            client_id, request_time, header = self._check_headers(request)
            skew = _check_time(request_time, now)
            credentials = await self._check_client(client_id)
            try:
                signed = _check_signature(request, client_id, request_time, header, credentials)
            except (signing.SignatureHeaderMalformed, signing.SignatureMismatch) as error:
                explained = await self._explain(request, client_id, request_time, header, credentials)
                raise Refused(ResultCode.INVALID_SIGNATURE, explained or str(error)) from None
            if signed.key_version in credentials.pending_keys:
                await self._prove(credentials, signed.key_version, now, request.address)
            self._uses.used(client_id, signed.key_version, now, skew)
            merchant = credentials.merchant
            if merchant.rate_limit is not None:
                await self._check_rate(merchant, merchant.rate_limit)
            code, body = await endpoint(merchant, signed, now)
            return Answer(200, body, code=code, client_id=client_id)
        except Refused as refused:
            return self._refuse(refused, request.address, client_id)
        except FieldsIllegal as illegal:
            return failure(code_of(illegal), str(illegal), client_id=client_id, detail=illegal.logged)
        except Refusal as refusal:
            return failure(code_of(refusal), str(refusal), client_id=client_id)

    def _check_headers(self, request: SignedRequest) -> tuple[str, str, str]:
        get_all = request.get_all
        client_ids, times, signatures, types = (
            get_all("client-id"),
            get_all("request-time"),
            get_all("signature"),
            get_all("content-type"),
        )
        if len(client_ids) != 1 or len(times) != 1 or len(signatures) != 1 or len(types) != 1:
            _refuse_header_count(client_ids, times, signatures, types)
        content_type = types[0]
        if content_type != "application/json" and _JSON_TYPE.fullmatch(content_type) is None:
            raise Refused(ResultCode.UNSUPPORTED_MEDIA_TYPE)
        return client_ids[0], times[0], signatures[0]

    async def _check_client(self, client_id: str) -> Credentials:
        match = _CLIENT_ID.fullmatch(client_id)
        if match is None:
            raise Refused(ResultCode.INVALID_CLIENT_ID, "Client-Id is not known here")
        if match["prefix"] != self._prefix:
            raise Refused(
                ResultCode.ACCESS_DENIED,
                f"Client-Id belongs to the {self._environment.other} environment; this is {self._environment}",
            )
        credentials = await self._directory.find_credentials(client_id)
        if credentials is None:
            raise Refused(ResultCode.INVALID_CLIENT_ID, "Client-Id is not known here")
        state = credentials.merchant.state
        if state is MerchantState.PENDING:
            raise Refused(ResultCode.ACCESS_DENIED, "the merchant is not activated yet")
        if state is not MerchantState.ACTIVE:
            raise Refused(ResultCode.INVALID_CLIENT_ID, "Client-Id is not active")
        return credentials

    async def _explain(
        self,
        request: SignedRequest,
        client_id: str,
        request_time: str,
        header: str,
        credentials: Credentials,
    ) -> str | None:
        """In the sandbox, say which signing rule was broken; in a thread, for it may take 40 ms."""
        if not self._explains or self._failures.is_exceeded(request.address):
            return None
        captured = diagnosis.CapturedRequest(
            method=request.method,
            path=f"{request.path}?{request.query}" if request.query else request.path,
            client_id=client_id,
            request_time=request_time,
            body=request.body,
            signature_header=header,
            host=next(iter(request.get_all("host")), ""),
        )
        keys = dict(credentials.active_keys)
        keys.update((version, pending.public_key) for version, pending in credentials.pending_keys.items())
        finding = await asyncio.to_thread(diagnosis.diagnose, captured, keys)
        return None if finding is None else f"{finding.rule}: {finding.explanation}"

    async def _prove(self, credentials: Credentials, key_version: int, now: datetime, address: str) -> None:
        """Make the key active that the request has just verified under; only then is the request done."""
        client_id = credentials.merchant.client_id
        fingerprint = credentials.pending_keys[key_version].fingerprint
        try:
            await self._proofs.prove_by_request(client_id, key_version, fingerprint, now, address)
        except AdministrationRefused as refused:
            raise Refused(ResultCode.ACCESS_DENIED, str(refused)) from None
        finally:
            self._directory.forget(client_id)

    async def _check_rate(self, merchant: Merchant, limit: int) -> None:
        verdict = await self._limits.admit(merchant.client_id, limit)
        if not verdict.admitted:
            wait_s = max(1, -int(-verdict.wait_s // 1))
            raise Refused(
                ResultCode.REQUEST_TRAFFIC_EXCEED_LIMIT,
                f"more than {limit} requests in {RATE_WINDOW_S} seconds; the next is admitted in {wait_s} s",
                _limit_headers("merchant", limit, wait_s),
            )

    def _refuse(self, refused: Refused, address: str, client_id: str) -> Answer:
        if refused.code in _UNAUTHENTICATED and self._failures.count(address):
            return failure(
                ResultCode.REQUEST_TRAFFIC_EXCEED_LIMIT,
                "too many requests from this address failed authentication",
                _limit_headers("address", self._failures.limit or 0, RATE_WINDOW_S),
                client_id=client_id,
            )
        return failure(refused.code, refused.message, refused.headers, client_id=client_id)


def code_of(refusal: Refusal) -> ResultCode:
    """Return the result code of a refusal; one that is not listed is a bug and says U."""
    for kind, code in _CODE_OF_REFUSAL:
        if isinstance(refusal, kind):
            return code
    return ResultCode.UNKNOWN_EXCEPTION


def failure(
    code: ResultCode,
    message: str | None = None,
    headers: Headers = (),
    *,
    client_id: str = "",
    detail: str | None = None,
) -> Answer:
    """Write a failure: nothing but `result`. `detail` is for the log, where that may not say the message."""
    meaning = TABLE[code]
    if code is ResultCode.SYSTEM_BUSY:
        headers = (*headers, ("retry-after", _RETRY_AFTER_S))
    body = _encode({"result": result(code, message)})
    told = message or meaning.message
    logged = told if detail is None else detail
    return Answer(meaning.http, body, headers, code, client_id, logged, told)


def _limit_headers(policy: str, limit: int, wait_s: int) -> Headers:
    """Write what a limit tells its client (RFC 9110, and the IETF draft on RateLimit header fields)."""
    return (
        ("retry-after", str(wait_s)),
        ("ratelimit-policy", f'"{policy}";q={limit};w={RATE_WINDOW_S}'),
        ("ratelimit", f'"{policy}";r=0;t={wait_s}'),
    )


def _refuse_header_count(
    client_ids: Sequence[str], times: Sequence[str], signatures: Sequence[str], types: Sequence[str]
) -> NoReturn:
    for name, values, code in (
        ("Client-Id", client_ids, ResultCode.INVALID_CLIENT_ID),
        ("Request-Time", times, ResultCode.TIMESTAMP_INVALID),
        ("Signature", signatures, ResultCode.INVALID_SIGNATURE),
        ("Content-Type", types, ResultCode.UNSUPPORTED_MEDIA_TYPE),
    ):
        if len(values) != 1:
            raise Refused(code, f"the header {name} is {'missing' if not values else 'there more than once'}")
    raise AssertionError


def _check_time(request_time: str, now: datetime) -> timedelta:
    """Return how far the merchant's clock is ahead of ours."""
    try:
        at = timestamps.parse(request_time)
    except timestamps.TimestampMalformed as error:
        raise Refused(ResultCode.TIMESTAMP_INVALID, f"Request-Time {error}") from None
    skew = at - now
    if not -MAX_SKEW <= skew <= MAX_SKEW:
        seconds = skew.total_seconds()
        raise Refused(
            ResultCode.TIMESTAMP_INVALID,
            f"Request-Time is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the server's clock"
            f" ({timestamps.write_seconds(now)}); at most 300 s are accepted",
        )
    return skew


def _check_signature(
    request: SignedRequest, client_id: str, request_time: str, header: str, credentials: Credentials
) -> SignedBody:
    try:
        parsed = signing.parse_header(header)
    except signing.KeyVersionMissing as error:
        raise Refused(ResultCode.ACCESS_DENIED, str(error)) from None
    key_version = parsed.key_version
    public_key = credentials.active_keys.get(key_version)
    if public_key is None:
        if key_version not in credentials.pending_keys:
            _refuse_key(key_version, credentials)
        public_key = credentials.pending_keys[key_version].public_key
    body = request.body
    signing.verify(
        public_key,
        parsed.signature,
        signing.request_string(request.method, request.path, client_id, request_time, body),
    )
    return SignedBody(body, request_time, key_version, parsed.signature)


def _refuse_key(key_version: int, credentials: Credentials) -> NoReturn:
    if key_version in credentials.retired_keys:
        raise Refused(ResultCode.INVALID_SIGNATURE, f"keyVersion {key_version} is retired")
    if not credentials.active_keys and not credentials.retired_keys and not credentials.pending_keys:
        raise Refused(ResultCode.ACCESS_DENIED, "no public key is registered for this Client-Id")
    raise Refused(ResultCode.ACCESS_DENIED, f"keyVersion {key_version} was never assigned to this Client-Id")
