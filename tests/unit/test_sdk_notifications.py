"""A webhook is believed after five steps, and after nothing less."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from payaccept.sdk import WebhookKeys, errors, keys
from payaccept.sdk.notifications import verify
from payaccept.sdk.webhook_keys import MAX_AGE_S
from payaccept.wire import signing, timestamps
from payaccept.wire.codes import ResultStatus
from payaccept.wire.messages import Amount, Notification, Result, TestNotification
from unit.test_sdk_fake_service import KEY, OTHER_KEY

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PATH = "/hooks/payaccept"
EVENT = Notification(
    event_id="evt_1",
    event_type="payment.succeeded",
    create_time="2026-01-31T12:00:00.000Z",
    environment="sandbox",
    client_id="sandbox_1",
    payment_id="pay_1",
    acquirement_id="acq_1",
    payment_request_id="order-1",
    merchant_trans_id="order-1",
    payment_status="SUCCESS",
    payment_time="2026-01-31T12:00:00.000Z",
    payment_amount=Amount("EUR", 1999),
    result=Result(result_status="S"),  # type: ignore[arg-type]
)
BODY = msgspec.json.encode(EVENT)
TEST = TestNotification(
    event_id="evt_2",
    event_type="webhook.test",
    create_time="2026-01-31T12:00:00.000Z",
    environment="sandbox",
    client_id="sandbox_1",
    test=True,
)
TEST_BODY = msgspec.json.encode(TEST)
KEYS = WebhookKeys.from_pem({1: keys.public_pem(KEY.public_key())})


def headers_for(
    body: bytes = BODY, path: str = PATH, at: datetime = NOW, key: Any = KEY, version: int = 1
) -> dict[str, str]:
    request_time = timestamps.write(at)
    signature = signing.sign(key, signing.notification_string(path, request_time, body))
    return {"Request-Time": request_time, "Signature": signing.write_header(version, signature)}


def test_a_notification_as_the_service_sends_it_is_returned() -> None:
    assert verify(BODY, headers_for(), path=PATH, keys=KEYS, now=NOW) == EVENT


def test_a_notification_with_a_code_of_tomorrow_is_read() -> None:
    failed = msgspec.structs.replace(
        EVENT,
        event_type="payment.failed",
        payment_status="FAIL",
        result=Result(ResultStatus.F, "A_CODE_OF_TOMORROW"),
    )
    body = msgspec.json.encode(failed)
    read = verify(body, headers_for(body), path=PATH, keys=KEYS, now=NOW)
    assert isinstance(read, Notification)
    assert (read.payment_status, read.result.result_code) == ("FAIL", "A_CODE_OF_TOMORROW")


def test_header_names_are_looked_up_without_regard_to_case() -> None:
    headers = {name.upper(): value for name, value in headers_for().items()}
    assert verify(BODY, headers, path=PATH, keys=KEYS, now=NOW).event_id == "evt_1"


def test_headers_may_come_as_pairs() -> None:
    assert verify(BODY, list(headers_for().items()), path=PATH, keys=KEYS, now=NOW)


def test_the_query_of_the_path_is_not_signed() -> None:
    assert verify(BODY, headers_for(), path=f"{PATH}?order=1", keys=KEYS, now=NOW)


@pytest.mark.parametrize("name", ["Signature", "Request-Time"])
def test_a_missing_or_doubled_header_is_refused(name: str) -> None:
    headers = headers_for()
    for given in (
        {key: value for key, value in headers.items() if key != name},
        {**headers, name.lower(): headers[name]},
        {**headers, name: f"{headers[name]}, {headers[name]}"},
    ):
        with pytest.raises(errors.HeaderMalformed):
            verify(BODY, given, path=PATH, keys=KEYS, now=NOW)


def test_an_unknown_key_version_is_refused() -> None:
    with pytest.raises(errors.UnknownKeyVersion, match="version 2"):
        verify(BODY, headers_for(version=2), path=PATH, keys=KEYS, now=NOW)


@pytest.mark.parametrize("seconds", [-600, 0, 600])
def test_the_window_includes_both_its_ends(seconds: int) -> None:
    headers = headers_for(at=NOW + timedelta(seconds=seconds))
    assert verify(BODY, headers, path=PATH, keys=KEYS, now=NOW)


@pytest.mark.parametrize(("seconds", "word"), [(-601, "old"), (601, "in the future")])
def test_a_time_outside_the_window_is_refused(seconds: int, word: str) -> None:
    with pytest.raises(errors.OutsideWindow, match=word):
        verify(BODY, headers_for(at=NOW + timedelta(seconds=seconds)), path=PATH, keys=KEYS, now=NOW)


def test_the_system_clock_is_used_when_no_time_is_given() -> None:
    assert verify(BODY, headers_for(at=datetime.now(UTC)), path=PATH, keys=KEYS)
    with pytest.raises(errors.OutsideWindow):
        verify(BODY, headers_for(at=datetime.now(UTC) - timedelta(hours=1)), path=PATH, keys=KEYS)


@pytest.mark.parametrize(
    "change",
    [
        {"body": BODY + b" "},
        {"path": "/other"},
        {"path": PATH + "/"},
    ],
)
def test_whatever_was_not_signed_so_is_refused(change: dict[str, Any]) -> None:
    given = {"body": BODY, "path": PATH, **change}
    with pytest.raises(errors.NotSignedByProvider):
        verify(given["body"], headers_for(), path=given["path"], keys=KEYS, now=NOW)


def test_a_fresh_time_on_an_old_signature_is_refused() -> None:
    headers = headers_for(at=NOW - timedelta(days=1))
    with pytest.raises(errors.NotSignedByProvider):
        verify(BODY, {**headers, "Request-Time": timestamps.write(NOW)}, path=PATH, keys=KEYS, now=NOW)


def test_another_key_is_refused() -> None:
    with pytest.raises(errors.NotSignedByProvider):
        verify(BODY, headers_for(key=OTHER_KEY), path=PATH, keys=KEYS, now=NOW)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", BODY[:-1] + b',"eventId":"evt_2"}'])
def test_a_signed_body_that_is_no_notification_is_refused(body: bytes) -> None:
    with pytest.raises(errors.BodyMalformed):
        verify(body, headers_for(body), path=PATH, keys=KEYS, now=NOW)


def test_members_of_tomorrow_are_ignored() -> None:
    body = BODY[:-1] + b',"later":{"a":1}}'
    assert verify(body, headers_for(body), path=PATH, keys=KEYS, now=NOW) == EVENT


def test_a_test_is_told_from_a_payment() -> None:
    assert verify(TEST_BODY, headers_for(TEST_BODY), path=PATH, keys=KEYS, now=NOW) == TEST
    later = TEST_BODY[:-1] + b',"later":1}'
    assert verify(later, headers_for(later), path=PATH, keys=KEYS, now=NOW) == TEST
    members = {name for name in Notification.__struct_encode_fields__ if name.startswith("payment")}
    assert not members & set(TestNotification.__struct_encode_fields__)


@pytest.mark.parametrize(
    "body",
    [
        BODY.replace(b"payment.succeeded", b"webhook.test"),
        TEST_BODY.replace(b"webhook.test", b"payment.succeeded"),
        TEST_BODY.replace(b"webhook.test", b"webhook.other"),
    ],
)
def test_a_body_that_is_half_of_each_is_refused(body: bytes) -> None:
    with pytest.raises(errors.BodyMalformed):
        verify(body, headers_for(body), path=PATH, keys=KEYS, now=NOW)


def document(*versions: int) -> bytes:
    pem = keys.public_pem(KEY.public_key()).decode()
    return msgspec.json.encode([{"keyVersion": v, "publicKeyPem": pem, "status": "ACTIVE"} for v in versions])


class Publisher:
    """Serves the document of keys, and counts how often it is asked."""

    def __init__(self, *versions: int) -> None:
        self.content = document(*versions)
        self.status = 200
        self.asked = 0

    def keys(self) -> WebhookKeys:
        http = httpx.Client(transport=httpx.MockTransport(self.handle))
        return WebhookKeys.from_url("https://service.test/keys", http=http)

    def handle(self, _: httpx.Request) -> httpx.Response:
        self.asked += 1
        return httpx.Response(self.status, content=self.content)


def test_the_published_document_is_read() -> None:
    known = WebhookKeys.from_json(document(1, 2))
    assert known.find(2) is not None
    assert known.find(3) is None
    assert repr(known) == "WebhookKeys(versions=[1, 2])"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[{}]", b'[{"keyVersion":1,"publicKeyPem":"x"}]', document(1, 1)]
)
def test_a_document_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(errors.KeysUnavailable):
        WebhookKeys.from_json(content)


def test_keys_are_fetched_when_needed_and_kept() -> None:
    publisher = Publisher(1)
    known = publisher.keys()
    assert publisher.asked == 0
    for _ in range(3):
        assert known.find(1) is not None
    assert publisher.asked == 1


def test_an_unknown_version_has_the_keys_fetched_at_most_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("payaccept.sdk.webhook_keys.monotonic", lambda: clock[0])
    publisher = Publisher(1)
    known = publisher.keys()
    known.find(1)
    publisher.content = document(1, 2)
    for _ in range(5):
        assert known.find(2) is None
    clock[0] += 61
    assert known.find(2) is not None
    assert publisher.asked == 2


def test_keys_of_an_hour_are_fetched_anew_and_kept_when_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("payaccept.sdk.webhook_keys.monotonic", lambda: clock[0])
    publisher = Publisher(1, 2)
    known = publisher.keys()
    known.find(1)
    publisher.status = 500
    clock[0] += MAX_AGE_S + 1
    assert known.find(1) is not None
    assert publisher.asked == 2
    publisher.status, publisher.content = 200, document(2)
    clock[0] += 61
    assert known.find(1) is None


def test_keys_that_cannot_be_had_are_no_forgery() -> None:
    publisher = Publisher(1)
    publisher.status = 503
    known = publisher.keys()
    for _ in range(3):
        with pytest.raises(errors.KeysUnavailable) as caught:
            known.find(1)
        assert not isinstance(caught.value, errors.NotificationRefused)
    assert publisher.asked == 1


@pytest.mark.parametrize("url", ["", "keys", "http://service.test/keys", "ftp://service.test/keys"])
def test_keys_are_not_fetched_from_just_anywhere(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|http"):
        WebhookKeys.from_url(url)


def test_keys_of_this_machine_may_come_over_plain_http() -> None:
    assert WebhookKeys.from_url("http://127.0.0.1:8080/keys")
    assert WebhookKeys.from_url("http://service.test/keys", allow_http=True)
