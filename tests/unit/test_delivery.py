"""When a notification goes again, when it counts as delivered, when it is given up."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.delivery import (
    RETRY_SCHEDULE_S,
    Acknowledged,
    Again,
    Answered,
    Dead,
    Delivery,
    Unreachable,
    after_attempt,
    is_acknowledged,
    is_unwell,
    kind_of,
    reason_of,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE, HOUR = 60, 3600


def delivery(attempt: int = 1, *faults: str, step: int | None = None) -> Delivery:
    return Delivery(
        bucket=1,
        event_id="evt_1",
        client_id="sandbox_1",
        url="https://shop.example/",
        lane="lane",
        body=b"{}",
        attempt=attempt,
        step=attempt if step is None else step,
        sequence=7,
        faults=faults,
        claim_id=UUID(int=1),
        created_at=NOW,
        due_at=NOW,
        payment_id="pay_1",
    )


def decide(attempt, outcome, *, chance=0.5, faults=(), schedule_s=RETRY_SCHEDULE_S):
    return after_attempt(delivery(attempt, *faults), outcome, NOW, schedule_s=schedule_s, chance=chance)


def wait_s(decision) -> float:
    assert isinstance(decision, Again)
    return (decision.at - NOW).total_seconds()


FAILED = Answered(500)


def test_the_schedule_is_the_documented_one():
    assert RETRY_SCHEDULE_S == (
        5, 30, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR,
    )  # fmt: skip


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_acknowledges(status):
    assert is_acknowledged(Answered(status))
    assert decide(1, Answered(status)) == Acknowledged()


@pytest.mark.parametrize(
    "status", [100, 101, 199, 300, 301, 302, 304, 307, 308, 400, 404, 410, 429, 500, 503, 599]
)
def test_no_other_status_does(status):
    assert not is_acknowledged(Answered(status))
    assert isinstance(decide(1, Answered(status)), Again)


def test_a_body_that_says_no_and_an_endpoint_out_of_reach_do_not_acknowledge():
    assert isinstance(decide(1, Answered(200, refusal="resultStatus F")), Again)
    assert isinstance(decide(1, Unreachable("no answer in 10 s")), Again)


@pytest.mark.parametrize(("attempt", "step_s"), list(enumerate(RETRY_SCHEDULE_S, start=1)))
def test_each_step_has_a_jitter_of_a_fifth_either_way(attempt, step_s):
    assert wait_s(decide(attempt, FAILED, chance=0.0)) == pytest.approx(step_s * 0.8)
    assert wait_s(decide(attempt, FAILED, chance=0.5)) == pytest.approx(step_s)
    assert wait_s(decide(attempt, FAILED, chance=0.999999)) == pytest.approx(step_s * 1.2, rel=1e-5)


def test_after_the_last_step_it_is_given_up():
    last = len(RETRY_SCHEDULE_S)
    assert isinstance(decide(last, FAILED), Again)
    assert decide(last + 1, FAILED) == Dead()
    assert decide(last + 7, FAILED) == Dead()
    assert decide(last + 1, Answered(204)) == Acknowledged()


def test_one_that_somebody_has_had_sent_again_goes_through_the_whole_schedule_again():
    def wait_s_of(step):
        sent_again = delivery(12 + step, step=step)
        return wait_s(after_attempt(sent_again, FAILED, NOW, schedule_s=RETRY_SCHEDULE_S, chance=0.5))

    assert [wait_s_of(step) for step in range(1, 12)] == list(RETRY_SCHEDULE_S)
    last = delivery(24, step=12)
    assert after_attempt(last, FAILED, NOW, schedule_s=RETRY_SCHEDULE_S, chance=0.5) == Dead()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked_s", "waits_s"),
    [(0, 30), (29, 30), (30, 30), (31, 31), (119.5, 119.5), (120, 120), (121, 120), (1e9, 120)],
)
def test_retry_after_is_honoured_from_one_to_four_times_the_step(status, asked_s, waits_s):
    decision = decide(2, Answered(status, retry_after_s=asked_s), chance=0.0)
    assert wait_s(decision) == pytest.approx(waits_s)


@pytest.mark.parametrize("status", [500, 502, 301, 404])
def test_retry_after_of_other_statuses_is_not_heard(status):
    assert wait_s(decide(2, Answered(status, retry_after_s=100))) == pytest.approx(30)


def test_duplicate_sends_an_acknowledged_notification_once_more():
    assert decide(1, Answered(200), faults=("duplicate",)) == Again(at=NOW, faults=())
    assert decide(2, Answered(200)) == Acknowledged()
    failed = decide(1, FAILED, faults=("duplicate",))
    assert isinstance(failed, Again)
    assert failed.faults == ("duplicate",), "a fault is played once, but not before its time"


def test_tampered_never_acknowledges_and_is_played_once():
    decision = decide(1, Answered(200), faults=("tampered",))
    assert wait_s(decision) == pytest.approx(5)
    assert isinstance(decision, Again)
    assert decision.faults == ()


def test_tampered_and_duplicate_are_played_one_after_the_other():
    first = decide(1, Answered(200), faults=("tampered", "duplicate"))
    assert isinstance(first, Again)
    second = decide(2, Answered(200), faults=first.faults)
    assert second == Again(at=NOW, faults=())
    assert decide(3, Answered(200), faults=second.faults) == Acknowledged()


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Answered(204), "HTTP 204"),
        (Answered(503), "HTTP 503"),
        (Answered(200, refusal="resultStatus is F"), "resultStatus is F"),
        (Unreachable("connection refused"), "connection refused"),
    ],
)
def test_the_reason_is_told_in_a_few_words(outcome, reason):
    assert reason_of(outcome) == reason


@pytest.mark.parametrize(
    ("outcome", "kind", "unwell"),
    [
        (Answered(204), "ACKNOWLEDGED", False),
        (Answered(200, refusal="resultStatus is F"), "REFUSED", False),
        (Answered(302), "REFUSED", False),
        (Answered(404), "REFUSED", False),
        (Answered(429), "REFUSED", True),
        (Answered(500), "REFUSED", True),
        (Answered(599), "REFUSED", True),
        (Unreachable("connection refused"), "UNREACHABLE", True),
    ],
)
def test_what_is_kept_of_an_attempt_and_whether_the_endpoint_is_unwell(outcome, kind, unwell):
    assert kind_of(outcome) == kind
    assert is_unwell(outcome) is unwell


outcomes = st.builds(
    Answered,
    st.integers(100, 599),
    st.none() | st.just("no"),
    st.none() | st.floats(0, 1e9, allow_nan=False),
) | st.builds(Unreachable, st.text(max_size=20))


@given(
    attempt=st.integers(1, 20),
    outcome=outcomes,
    chance=st.floats(0, 1, exclude_max=True),
    faults=st.sets(st.sampled_from(["duplicate", "tampered"])),
    schedule_s=st.lists(st.floats(0.01, 1e6), min_size=1, max_size=12),
)
def test_whatever_happens_the_next_attempt_is_within_four_times_its_step(
    attempt, outcome, chance, faults, schedule_s
):
    decision = decide(attempt, outcome, chance=chance, faults=tuple(sorted(faults)), schedule_s=schedule_s)
    if isinstance(decision, Again):
        assert decision.at >= NOW
        assert set(decision.faults) <= faults
        if not is_acknowledged(outcome) or "tampered" in faults:
            step_s = schedule_s[attempt - 1]
            least, most = timedelta(seconds=0.8 * step_s), timedelta(seconds=4 * step_s)
            assert least - timedelta(microseconds=1) <= decision.at - NOW <= most + timedelta(microseconds=1)
    elif isinstance(decision, Acknowledged):
        assert is_acknowledged(outcome)
    else:
        assert attempt > len(schedule_s)
