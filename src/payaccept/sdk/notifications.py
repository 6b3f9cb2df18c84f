"""Verify a webhook, then read it.

A notification is believed after these five steps, in this order (the protocol's own rules):

1. Parse `algorithm`, `keyVersion` and `signature` out of the Signature header.
2. Select the provider's public key of that keyVersion; an unknown keyVersion is refused.
3. Build the signing string: `POST <path>`, a line feed, `<Request-Time>.<raw body>`. It holds no Client-Id.
4. Refuse a Request-Time outside the window, 10 minutes to either side.
5. Verify the signature; only then is the body parsed.

`verify` returns the notification or raises. There is no verdict that a caller could forget to look at.

    try:
        notification = verify(body, request.headers, path=request.path, keys=keys)
    except NotificationRefused:
        return 401
    if isinstance(notification, TestNotification):
        return 200  # it has arrived and verified: that was the test, no payment is behind it
    # At least once, in no promised order: remember notification.event_id, and act on each event once.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from payaccept.sdk.errors import (
    BodyMalformed,
    HeaderMalformed,
    NotificationRefused,
    NotSignedByProvider,
    OutsideWindow,
    UnknownKeyVersion,
)
from payaccept.sdk.webhook_keys import WebhookKeys
from payaccept.wire import signing, strict_json, timestamps
from payaccept.wire.messages import TEST_EVENT, Notification, TestNotification

__all__ = [
    "WINDOW_S",
    "Notification",
    "NotificationRefused",
    "TestNotification",
    "WebhookKeys",
    "verify",
]

WINDOW_S: Final = 600.0
"""The window the protocol suggests."""


def verify(
    body: bytes,
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    *,
    path: str,
    keys: WebhookKeys,
    now: datetime | None = None,
    window_s: float = WINDOW_S,
) -> Notification | TestNotification:
    """Verify a notification as received, and return it: a payment's outcome, or a test that somebody sent.

    `body` is the raw body, byte for byte, before any JSON library saw it. `headers` are looked up without
    regard to case; a header given twice is refused. `path` is the path of the endpoint that the service
    called (as it stands in paymentNotifyUrl, before any rewriting by a proxy); a query string is not signed
    and is left out. `now` is an aware datetime, the system's clock by default.

    Raises: HeaderMalformed, UnknownKeyVersion, OutsideWindow, NotSignedByProvider, BodyMalformed (all of
    them NotificationRefused: answer 401); KeysUnavailable when the keys could not be had (answer 503).
    """
    # 1. Parse algorithm, keyVersion and signature.
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    try:
        signature = signing.parse_header(_only(pairs, "Signature"))
    except signing.SignatureHeaderMalformed as error:
        raise HeaderMalformed(str(error)) from None

    # 2. Select the provider's key; an unknown version is refused.
    public_key = keys.find(signature.key_version)
    if public_key is None:
        raise UnknownKeyVersion(f"the provider has no key of version {signature.key_version}")

    # 3. Build the signing string, of the bytes as they came.
    request_time = _only(pairs, "Request-Time")
    string = signing.notification_string(path.partition("?")[0], request_time, body)

    # 4. Refuse a Request-Time outside the window, both ends included.
    try:
        sent_at = timestamps.parse(request_time)
    except timestamps.TimestampMalformed as error:
        raise HeaderMalformed(f"Request-Time {error}") from None
    age_s = ((now or datetime.now(UTC)) - sent_at).total_seconds()
    if abs(age_s) > window_s:
        direction = "old" if age_s > 0 else "in the future"
        raise OutsideWindow(f"Request-Time is {abs(age_s):.0f} s {direction}; {window_s:.0f} s are allowed")

    # 5. Verify. Nothing of the body has been looked at until here.
    try:
        signing.verify(public_key, signature.signature, string)
    except signing.SignatureMismatch:
        raise NotSignedByProvider(
            f"the signature does not verify for path {path.partition('?')[0]!a}: forged, altered on the way, "
            "or not the path the service called"
        ) from None
    return _read(body)


def _only(headers: list[tuple[str, str]], name: str) -> str:
    values = [value for given, value in headers if given.lower() == name.lower()]
    if len(values) != 1:
        raise HeaderMalformed(f"{name} is missing" if not values else f"{name} is given {len(values)} times")
    return values[0].strip(" \t")


def _read(body: bytes) -> Notification | TestNotification:
    try:
        members = strict_json.load_object(body)
        if members.get("eventType") == TEST_EVENT:
            return msgspec.convert(members, TestNotification)
        return msgspec.convert(members, Notification)
    except strict_json.JsonRefused as error:
        raise BodyMalformed(f"the body {error}") from None
    except msgspec.ValidationError as error:
        raise BodyMalformed(f"the body is not a notification: {error}") from None
