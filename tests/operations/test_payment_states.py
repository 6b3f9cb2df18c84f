"""Any course of events, over the real store: a final state never changes, and has exactly one event.

The model is a dictionary; hypothesis decides what happens next and how long it takes until then.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from deployment import Parts, fetch_all, merchant_made
from merchant import CREATES, new_request_id
from payaccept.config import Settings
from payaccept.domain.errors import DuplicateRequest, OutcomeUnknown, PaymentFinal
from payaccept.domain.payment import Declined, Paid
from payaccept.wire.codes import PAYMENT_FAILURES, ResultCode

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
EXPIRY_S = 900

outcomes = st.just(Paid()) | st.sampled_from(sorted(PAYMENT_FAILURES)).map(
    lambda code: Declined(ResultCode(code))
)
scripts = st.sampled_from(
    [
        None,
        {"outcome": "FAIL", "resultCode": "RISK_REJECT"},
        {"outcome": "MANUAL"},
        {"outcome": "UNKNOWN"},
        {"outcome": "UNKNOWN", "resultCode": "PROCESS_FAIL"},
        {"delayMs": 300_000},
        {"delayMs": 2_000_000},
    ]
)


class Life(RuleBasedStateMachine):
    """What merchants, customers and workers do to some payments, in any order."""

    deployment: Settings  # set by the test

    payments: Bundle[str] = Bundle("payments")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.now = START
        self.shop = merchant_made(START, spread=4)
        self.state: dict[str, tuple[str, str | None]] = {}  # by request id: status and failure code
        self.expires_at: dict[str, datetime] = {}

    @initialize()
    def open(self) -> None:
        self.parts = self.runner.run(self._open())

    async def _open(self) -> Parts:
        return await Parts(self.deployment).__aenter__()

    def teardown(self) -> None:
        if hasattr(self, "parts"):
            self.runner.run(self.parts.__aexit__())
        self.runner.close()

    def _status(self, request_id: str) -> tuple[str, str | None]:
        found = self.runner.run(self.parts.inquire(self.shop, paymentRequestId=request_id))
        assert ("paymentTime" in found) == (found["paymentStatus"] != "PROCESSING")
        return found["paymentStatus"], found.get("failureCode")

    @rule(target=payments, operation=st.sampled_from(CREATES), script=scripts)
    def create(self, operation: str, script: dict[str, object] | None) -> str:
        request_id = new_request_id()
        self.expires_at[request_id] = self.now + timedelta(seconds=EXPIRY_S)
        create = self.parts.create(
            self.shop, operation, self.now, paymentRequestId=request_id, sandbox=script
        )
        try:
            self.runner.run(create)
        except OutcomeUnknown:
            assert operation == "retailPay"
        status = self._status(request_id)
        if (
            operation != "retailPay"
            or (script or {}).get("outcome") in {"MANUAL", "UNKNOWN"}
            or "delayMs" in (script or {})
        ):
            assert status == ("PROCESSING", None)
        self.state[request_id] = status
        return request_id

    @rule(request_id=payments, operation=st.sampled_from(CREATES))
    def repeat(self, request_id: str, operation: str) -> None:
        with pytest.raises(DuplicateRequest):
            self.runner.run(self.parts.create(self.shop, operation, self.now, paymentRequestId=request_id))

    @rule(seconds=st.sampled_from([0.05, 0.1, 1, 30, 299, 301, 899, 900, 5000]))
    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def work(self) -> None:
        """A worker looks; afterwards nothing is unpaid beyond its deadline."""
        self.runner.run(self.parts.look(self.now))
        for request_id, (before, _) in self.state.items():
            status = self._status(request_id)
            if before != "PROCESSING":
                assert status == self.state[request_id]
            self.state[request_id] = status
            if self.now >= self.expires_at[request_id]:
                assert status[0] != "PROCESSING"

    @rule(request_id=payments, outcome=outcomes)
    def decide_as_customer(self, request_id: str, outcome: Paid | Declined) -> None:
        found = self.runner.run(self.parts.inquire(self.shop, paymentRequestId=request_id))
        play = self.parts.payments.play_customer(
            found["paymentId"], outcome, self.parts.webhook_url_of, self.now
        )
        open_still = self.state[request_id][0] == "PROCESSING" and self.now < self.expires_at[request_id]
        try:
            self.runner.run(play)
        except PaymentFinal:
            assert not open_still
        else:
            assert open_still
            code = outcome.code if isinstance(outcome, Declined) else None
            self.state[request_id] = ("SUCCESS" if code is None else "FAIL", code)

    @rule(request_id=payments, several=st.lists(outcomes, min_size=2, max_size=5))
    def settle_from_several_sides(self, request_id: str, several: list[Paid | Declined]) -> None:
        found = self.runner.run(self.parts.inquire(self.shop, paymentRequestId=request_id))

        async def settle_all() -> list[bool]:
            payment = await self.parts.store.find_payment_by_id(found["paymentId"])
            assert payment is not None
            return await asyncio.gather(
                *(self.parts.payments.finish(payment, outcome, None, self.now) for outcome in several)
            )

        won = self.runner.run(settle_all())
        assert sum(won) == (self.state[request_id][0] == "PROCESSING")
        if any(won):
            winner = several[won.index(True)]
            code = winner.code if isinstance(winner, Declined) else None
            self.state[request_id] = ("SUCCESS" if code is None else "FAIL", code)

    @invariant()
    def every_state_is_the_models(self) -> None:
        for request_id, expected in self.state.items():
            assert self._status(request_id) == expected

    @invariant()
    def a_final_payment_has_exactly_one_event_and_an_open_one_none(self) -> None:
        rows = fetch_all(
            self.deployment.database_url,
            "SELECT p.payment_request_id, count(e.event_id), min(e.event_type), min(p.event_id) = min(e.event_id)"
            " FROM payments AS p LEFT JOIN events AS e USING (bucket, payment_id)"
            " WHERE p.client_id = %s GROUP BY 1",
            self.shop.client_id,
        )
        assert {row[0] for row in rows} == set(self.state)
        for request_id, count, kind, same in rows:
            status = self.state[request_id][0]
            expected = {"SUCCESS": "payment.succeeded", "FAIL": "payment.failed", "PROCESSING": None}[status]
            assert (count, kind) == (0 if expected is None else 1, expected)
            assert same or expected is None


@pytest.fixture
def machine(settings: Settings) -> type[Life]:
    return type("Life", (Life,), {"deployment": settings})


def test_a_final_state_never_changes_whatever_happens(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
