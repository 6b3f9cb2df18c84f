"""Examining captured requests of a merchant, and those that the API has kept."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from payaccept.domain import doctor
from payaccept.domain.doctor import Examination, Kept, Patient
from payaccept.domain.merchant import Environment, KeyState
from payaccept.domain.payment import Payment
from payaccept.domain.traffic import RefusedRequest
from payaccept.domain.urls import UrlPolicy
from payaccept.operations.ports import MerchantStore
from payaccept.wire import signing
from payaccept.wire.capture import Capture
from payaccept.wire.messages import PATH_PREFIX

T = TypeVar("T")

_AT_ONCE: Final = 2
"""An examination may take 40 ms of a processor: so many at a time, whoever asks."""


class Doctor:
    """The verbs of the signature doctor."""

    def __init__(self, merchants: MerchantStore, environment: Environment, urls: UrlPolicy) -> None:
        self._merchants = merchants
        self._environment = environment
        self._urls = urls
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def examine_typed(self, client_id: str, text: str) -> Examination:
        """Examine a capture that somebody has typed into a form. Raises: CaptureUnreadable."""
        patient = await self._patient(client_id)
        return await self._apart(lambda: doctor.examine(doctor.read_typed(text, patient), patient))

    async def examine_refused(self, request: RefusedRequest) -> Examination:
        """Examine a request that the API has refused and kept."""
        patient = await self._patient(request.client_id)
        kept = Kept(request.received_at, request.body_bytes, request.body_is_whole)
        return await self._apart(lambda: doctor.examine(capture_of(request), patient, kept))

    async def examine_accepted(self, payment: Payment) -> Examination | None:
        """Examine the request that made a payment; None when its signature was not kept.

        The key that signed it was active then, whatever has become of it since.
        """
        if payment.request_time is None or payment.key_version is None or payment.signature is None:
            return None
        patient = await self._patient(payment.client_id)
        keys = [
            replace(key, state=KeyState.ACTIVE) if key.key_version == payment.key_version else key
            for key in patient.keys
        ]
        headers = (
            ("Content-Type", "application/json"),  # or it would not have been accepted
            ("Client-Id", payment.client_id),
            ("Request-Time", payment.request_time),
            ("Signature", signing.write_header(payment.key_version, payment.signature)),
        )
        capture = Capture("POST", PATH_PREFIX + payment.operation, headers, payment.request_body)
        kept = Kept(payment.created_at, len(payment.request_body), body_is_whole=True)
        return await self._apart(lambda: doctor.examine(capture, replace(patient, keys=keys), kept))

    async def _patient(self, client_id: str) -> Patient:
        keys = await self._merchants.list_keys(client_id)
        return Patient(client_id=client_id, environment=self._environment, urls=self._urls, keys=keys)

    async def _apart(self, call: Callable[[], T]) -> T:
        async with self._free:
            return await asyncio.to_thread(call)


def capture_of(request: RefusedRequest) -> Capture:
    """Return a refused request as if it had been captured on its way."""
    given = (
        ("Host", request.host),
        ("User-Agent", request.user_agent),
        ("Content-Type", request.content_type),
        ("Content-Length", str(request.body_bytes)),
        ("Client-Id", request.client_id),
        ("Request-Time", request.request_time),
        ("Signature", request.signature_header),
    )
    headers = tuple((name, value) for name, value in given if value)
    return Capture(request.method, request.target, headers, request.body)


def text_of(request: RefusedRequest) -> str:
    """Write a refused request as raw HTTP."""
    capture = capture_of(request)
    head = "\n".join(
        [
            f"{capture.method} {capture.target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in capture.headers),
        ]
    )
    return f"{head}\n\n{capture.body.decode('utf-8', 'replace')}"
