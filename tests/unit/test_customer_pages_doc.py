"""docs/customer-pages.md says what the code does."""

import re
from pathlib import Path

from payaccept.domain.app_links import android_intent, ios_link
from payaccept.domain.bill import BillState
from payaccept.operations.simulated_customer import DECLINES
from payaccept.portal import customers, visitors

PAGE = (Path(__file__).parents[2] / "docs" / "customer-pages.md").read_text(encoding="utf-8")


def test_every_reason_to_decline_is_told_in_the_order_of_the_page():
    assert re.findall(r"^\| .* \| `([A-Z_]+)` \|$", PAGE, re.MULTILINE) == list(DECLINES)


def test_the_links_into_the_app_are_those_of_the_code():
    told = re.findall(r"^\| (?:Android|iOS) \| `([^`]+)` \|$", PAGE, re.MULTILINE)
    android, ios = (link.replace("{paymentId}", "pay_1") for link in told)
    assert android.replace("HOST", "pay.example").replace("…", "x") == android_intent(
        "pay_1", "https://pay.example", "x"
    )
    assert ios == ios_link("pay_1")


def test_the_times_and_the_limits_are_those_of_the_code():
    text = " ".join(PAGE.split())
    paid, failed = customers.CONTINUE_AFTER_S[BillState.PAID], customers.CONTINUE_AFTER_S[BillState.FAILED]
    assert f"{paid} seconds after a payment, and {failed} seconds after a failure" in text
    assert f"More than {customers.CONTINUE_WITHIN.seconds // 60} minutes after the payment's end" in text
    pages = visitors.BUDGET // visitors.PAGE
    unknown = visitors.BUDGET // (visitors.PAGE + visitors.MISSED)
    assert f"about {pages} pages, or {unknown} ids that no payment has" in text
