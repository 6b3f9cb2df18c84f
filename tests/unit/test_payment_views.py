"""What the pages of payments say in words."""

from datetime import UTC, datetime

import pytest

from payaccept.domain import scenario
from payaccept.domain.merchant import KeyState, MerchantKey
from payaccept.domain.payment import PaymentState
from payaccept.domain.payment_search import PaymentSearch
from payaccept.operations.payment_story import Received
from payaccept.portal.payment_views import (
    MOST_SHOWN,
    chips_of,
    command_of,
    script_in_words,
    shown,
    state_tabs,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEARCH = PaymentSearch(state=PaymentState.FAIL, currency="EUR", least_minor=1000, store="till 7")


@pytest.mark.parametrize(
    ("script", "operation", "told"),
    [
        ("{}", "createQROrder", "paid by itself after a moment, for nothing else is scripted."),
        ("{}", "retailPay", "It is paid at once"),
        ('{"delayMs":5000}', "createQROrder", "Its script pays it, 5.0 s after it came."),
        ('{"outcome":"FAIL"}', "createQROrder", "lets it fail with PROCESS_FAIL."),
        ('{"outcome":"FAIL","resultCode":"RISK_REJECT"}', "retailPay", "lets it fail with RISK_REJECT."),
        ('{"outcome":"MANUAL"}', "createQROrder", "waits for somebody to approve or decline it"),
        ('{"outcome":"UNKNOWN"}', "retailPay", "the wallet says that it has paid."),
        (
            '{"outcome":"UNKNOWN","resultCode":"RISK_REJECT","delayMs":90000}',
            "retailPay",
            "has failed with RISK_REJECT, 2 min after it came.",
        ),
        ('{"webhook":["tampered","late"]}', "createQROrder", "Its webhook is to be tampered, late."),
    ],
)
def test_a_script_is_said_in_words(script, operation, told):
    read, problem = scenario.read(f'{{"sandbox":{script}}}')
    assert problem is None
    assert told in script_in_words(read, operation)


def test_in_production_wallets_have_no_script():
    assert script_in_words(None, "createQROrder") == ""


def test_each_thing_that_is_looked_for_can_be_taken_away():
    chips = {chip.label: (chip.value, chip.without) for chip in chips_of(SEARCH)}
    assert chips == {
        "State": ("FAIL", "currency=EUR&amount=10.00-&store=till+7"),
        "Amount": ("10.00- EUR", "state=FAIL&currency=EUR&store=till+7"),
        "Store": ("till 7", "state=FAIL&currency=EUR&amount=10.00-"),
    }
    assert [chip.label for chip in chips_of(PaymentSearch(currency="EUR"))] == ["Currency"]


def test_a_state_is_chosen_beside_what_is_looked_for_already():
    tabs = state_tabs(SEARCH)
    assert [(label, here) for label, _, here in tabs] == [
        ("All", False), ("PROCESSING", False), ("SUCCESS", False), ("FAIL", True),
    ]  # fmt: skip
    assert tabs[0][1] == "currency=EUR&amount=10.00-&store=till+7"
    assert tabs[2][1] == "state=SUCCESS&currency=EUR&amount=10.00-&store=till+7"


def received(body: bytes = b"{}", key_version: int | None = 1) -> Received:
    return Received(
        at=NOW,
        path="/v1/payments/retailPay",
        headers=(("Client-Id", "sandbox_1"),),
        body=body,
        is_masked=False,
        signing_string=None,
        key_version=key_version,
        skew_ms=None,
    )


def key(version: int, state: KeyState) -> MerchantKey:
    return MerchantKey(
        client_id="sandbox_1",
        key_version=version,
        state=state,
        public_key_pem="",
        fingerprint="",
        created_at=NOW,
        activated_at=NOW,
        retired_at=None,
        proof_nonce=None,
    )


@pytest.mark.parametrize(
    ("signed_with", "keys", "version"),
    [
        (1, [(1, KeyState.ACTIVE), (2, KeyState.ACTIVE)], 1),
        (1, [(1, KeyState.RETIRED), (2, KeyState.ACTIVE), (3, KeyState.PENDING)], 2),
        (None, [(1, KeyState.ACTIVE), (2, KeyState.ACTIVE)], 2),
        (1, [(1, KeyState.RETIRED)], 1),
        (None, [], 1),
    ],
)
def test_a_command_signs_with_a_key_that_is_taken_if_there_is_one(signed_with, keys, version):
    command = command_of(received(key_version=signed_with), [key(*one) for one in keys], "http://api.test")
    assert command.key_version == version
    assert f"keyVersion={version}," in command.text


def test_a_long_body_makes_no_command_and_is_shown_in_part():
    body = b"x" * (MOST_SHOWN + 1)
    assert command_of(received(body), [], "http://api.test").text == ""
    assert len(shown(body)) == MOST_SHOWN + 1
    assert shown(b"\xff") == "\N{REPLACEMENT CHARACTER}"
