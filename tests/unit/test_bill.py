"""What a customer gets to see of a payment."""

from datetime import timedelta

import msgspec
import pytest

from deployment import NOW, after
from payaccept.domain.app_links import android_intent, app_links, ios_link, qr_prefix
from payaccept.domain.bill import BillState, bill_of
from payaccept.domain.payment import Payment, PaymentState
from payaccept.wire.codes import ResultCode

PAYMENT_ID = "pay_0195500d0b4042d3a1c9e7f2b8d4650c1f3e"


def payment(body: dict[str, object] | None = None, **changes: object) -> Payment:
    values: dict[str, object] = {
        "bucket": 0x42,
        "payment_id": PAYMENT_ID,
        "client_id": "sandbox_1",
        "payment_request_id": "order-1",
        "operation": "linkPayCreate",
        "state": PaymentState.PROCESSING,
        "currency": "EUR",
        "amount_minor": 1999,
        "notify_url": None,
        "external_store_id": None,
        "extend_info": None,
        "request_body": msgspec.json.encode(body or {}),
        "answer": None,
        "failure_code": None,
        "event_id": None,
        "created_at": NOW,
        "expires_at": after(900),
        "due_at": after(2),
        "final_at": None,
    }
    return Payment(**values | changes)


def failed(code: ResultCode) -> dict[str, object]:
    return {"state": PaymentState.FAIL, "failure_code": code, "final_at": after(1)}


@pytest.mark.parametrize(
    ("changes", "at_s", "state"),
    [
        ({}, 0, BillState.OPEN),
        ({}, 899.9, BillState.OPEN),
        ({}, 900, BillState.EXPIRED),
        ({"state": PaymentState.SUCCESS, "final_at": after(1)}, 1000, BillState.PAID),
        (failed(ResultCode.USER_REJECTED), 5, BillState.FAILED),
        (failed(ResultCode.PROCESS_FAIL), 1000, BillState.FAILED),
        (failed(ResultCode.ORDER_EXPIRED), 5, BillState.EXPIRED),
        (failed(ResultCode.QR_EXPIRED), 5, BillState.EXPIRED),
    ],
)
def test_how_a_bill_stands(changes, at_s, state):
    bill = bill_of(payment(**changes), "Shop", NOW + timedelta(seconds=at_s))
    assert bill.state is state
    assert bill.is_final is ("final_at" in changes)


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("A pair of shoes", "A pair of shoes"),
        ("two\nlines\tand \u2028 more\x00", "two lines and more"),
        ("right \u202eot left\u2066", "right ot left"),
        ("👨‍👩‍👧 ticket", "👨‍👩‍👧 ticket"),
        ("می‌خواهم", "می‌خواهم"),
        (" \n\u202e ", None),
        ("", None),
    ],
)
def test_a_description_is_one_line_that_turns_no_writing_around(description, shown):
    bill = bill_of(payment({"order": {"orderDescription": description}}), "Shop", NOW)
    assert bill.description == shown


def test_what_a_request_does_not_say_is_not_there():
    bill = bill_of(payment(), "Shop", NOW)
    assert bill.description is None
    assert bill.redirect_url is None


def test_the_way_back_is_what_the_request_says_letter_by_letter():
    url = "https://shop.example/%7Ea?b=1&c=ü#d"
    bill = bill_of(payment({"paymentRedirectUrl": url, "order": {"orderMemo": "x"}}), "Shop", NOW)
    assert bill.redirect_url == url


def test_a_bill_that_only_its_deadline_decides_has_no_other_time():
    assert bill_of(payment(due_at=after(900)), "Shop", NOW).due_at is None
    assert bill_of(payment(due_at=after(2)), "Shop", NOW).due_at == after(2)


def test_the_addresses_of_a_payment():
    web = "http://127.0.0.1:8081"
    links = app_links(PAYMENT_ID, web)
    assert links.android.short_url == links.ios.short_url == f"{web}/s/{PAYMENT_ID}"
    assert links.android.target_path == links.ios.target_path == f"/pay/{PAYMENT_ID}"
    assert qr_prefix(web) == "https://127.0.0.1:8081/q/"
    assert qr_prefix("https://pay.example/base") == "https://pay.example/base/q/"
    assert ios_link(PAYMENT_ID) == f"org.payaccept.wallet://pay/{PAYMENT_ID}"
    intent = android_intent(PAYMENT_ID, "https://pay.example", "https://pay.example/x?a=1;b")
    assert intent == (
        f"intent://pay.example/pay/{PAYMENT_ID}#Intent;scheme=https;package=org.payaccept.wallet;"
        "S.browser_fallback_url=https%3A%2F%2Fpay.example%2Fx%3Fa%3D1%3Bb;end"
    )
