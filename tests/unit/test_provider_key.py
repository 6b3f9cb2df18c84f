"""Which provider key signs and which are published, as a matter of time alone."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from payaccept.config import SettingInvalid, Settings, from_environ
from payaccept.domain.delivery import (
    RETRY_SCHEDULE_S,
    Again,
    Answered,
    AttemptOutcome,
    Dead,
    Delivery,
    Unreachable,
    after_attempt,
)
from payaccept.domain.errors import KeyNotFound, KeyRefused
from payaccept.domain.provider_key import (
    KEEP_AT_LEAST_S,
    Change,
    ProviderKey,
    ProviderKeyStatus,
    Rotation,
    changes_ahead,
    default_keep_s,
    first_key,
    longest_retry_s,
    plan_rotation,
    published_keys,
    retires_at,
    rotate,
    signing_key,
    status_of,
    withdraw,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAIR = ("pem", b"sealed")
LEAD_S, KEEP_S = 3600.0, 86_400.0
TICK = timedelta(microseconds=1)
Keys = list[ProviderKey]


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def rotated(keys: Keys, seconds: float = 0, *, lead_s: float = LEAD_S, keep_s: float = KEEP_S) -> Keys:
    return rotate(keys, PAIR, at(seconds), lead_s=lead_s, keep_s=keep_s)


def statuses(keys: Keys, seconds: float) -> str:
    """The statuses at a moment, by version, each by its first letter."""
    return "".join(status_of(key, keys, at(seconds))[0] for key in keys)


FIRST = [first_key(PAIR, NOW)]
TWO = rotated(FIRST)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "AP"),
        (3599.999999, "AP"),
        (3600, "RA"),
        (3600 + 86_399.999999, "RA"),
        (3600 + 86_400, "WA"),
        (10**9, "WA"),
    ],
)
def test_a_rotation_goes_by_the_time_table(seconds, told):
    assert statuses(TWO, seconds) == told
    assert signing_key(TWO, at(seconds)).key_version == 1 + told.index("A")
    assert [key.key_version for key in published_keys(TWO, at(seconds))] == ([2] if told == "WA" else [1, 2])


def test_the_plan_of_a_rotation_is_what_it_does():
    plan = plan_rotation(FIRST, NOW, lead_s=LEAD_S, keep_s=KEEP_S)
    assert plan == Rotation(key_version=2, activates_at=at(3600), before=1, keeps_until=at(90_000))
    old, new = TWO
    assert new.activates_at == plan.activates_at == retires_at(old, TWO)
    assert old.withdraws_at == plan.keeps_until
    assert new.withdraws_at is retires_at(new, TWO) is None
    assert changes_ahead(TWO, NOW) == [
        Change(at(3600), 2, ProviderKeyStatus.ACTIVE),
        Change(at(90_000), 1, ProviderKeyStatus.WITHDRAWN),
    ]
    assert changes_ahead(TWO, at(90_000)) == []


def test_with_no_lead_the_new_key_signs_at_once():
    assert statuses(rotated(FIRST, lead_s=0), 0) == "RA"


def test_one_rotation_at_a_time():
    with pytest.raises(KeyRefused, match=r"2026-03-01T13:00:00Z.*provider-key withdraw 2"):
        rotated(TWO, 3599)
    assert statuses(rotated(TWO, 3600), 3600) == "RAP"


def test_a_key_from_before_there_were_withdrawals_is_withdrawn_after_the_next_rotation():
    keys = [key for key in rotated(TWO, 7200) if key.key_version != 3]
    forgotten = [replace(key, withdraws_at=None) for key in keys]
    first, second, _ = rotated(forgotten, 7200)
    assert first.withdraws_at == at(3600 + KEEP_S)
    assert second.withdraws_at == at(7200 + LEAD_S + KEEP_S)


# Taken out of use at once


def test_a_key_that_waits_to_sign_is_taken_back_and_the_one_before_goes_on():
    keys = withdraw(TWO, 2, at(10), None)
    assert statuses(keys, 10) == statuses(keys, 10**9) == "AW"
    assert changes_ahead(keys, at(10)) == []
    assert retires_at(keys[1], keys) is None
    again = rotated(keys, 20)
    assert statuses(again, 20) == "AWP"
    assert statuses(again, 20 + LEAD_S) == "RWA"


def test_a_retired_key_is_withdrawn_before_its_time():
    assert statuses(withdraw(TWO, 1, at(4000), None), 4000) == "WA"


def test_the_key_that_signs_is_withdrawn_only_with_another_that_signs_at_once():
    with pytest.raises(KeyRefused, match="give --replace, and keyVersion 2 signs at once"):
        withdraw(FIRST, 1, at(5), None)
    assert statuses(withdraw(FIRST, 1, at(5), PAIR), 5) == "WA"


def test_the_key_that_waits_to_sign_is_brought_forward_rather_than_another_made():
    with pytest.raises(KeyRefused, match="keyVersion 2 signs at once"):
        withdraw(TWO, 1, at(5), None)
    keys = withdraw(TWO, 1, at(5), PAIR)
    assert statuses(keys, 5) == "WA"
    assert keys[1].activates_at == at(5)


def test_an_older_key_never_signs_again():
    keys = withdraw(TWO, 2, at(4000), PAIR)
    assert statuses(keys, 4000) == "RWA"


def test_a_key_is_withdrawn_once_and_must_be_there():
    keys = withdraw(TWO, 2, at(10), None)
    with pytest.raises(KeyRefused, match="withdrawn already"):
        withdraw(keys, 2, at(20), PAIR)
    with pytest.raises(KeyNotFound, match="version 9"):
        withdraw(keys, 9, at(20), None)


def test_before_the_first_key_was_made_by_a_clock_that_was_set_back_it_signs_all_the_same():
    assert signing_key(FIRST, at(-3600)).key_version == 1
    assert statuses(FIRST, -3600) == "A"
    assert statuses(TWO, -3600) == "AP", "and none before its turn"
    assert changes_ahead(FIRST, at(-3600)) == []


def test_where_only_a_key_that_waits_is_published_it_signs():
    gone = [replace(TWO[0], withdraws_at=at(5)), TWO[1]]
    assert signing_key(gone, at(10)).key_version == 2
    assert statuses(gone, 10) == "WA"


def test_with_no_key_published_nothing_signs():
    with pytest.raises(LookupError):
        signing_key([replace(FIRST[0], withdraws_at=at(0))], at(1))


def test_the_only_key_is_replaced_by_a_clock_behind_as_by_any_other():
    with pytest.raises(KeyRefused, match="without it nothing would"):
        withdraw(FIRST, 1, at(-1), None)
    keys = withdraw(FIRST, 1, at(-1), PAIR)
    assert statuses(keys, -1) == "AP"
    assert statuses(keys, 0) == "WA"


def test_a_rotation_by_a_clock_behind_has_its_lead():
    keys = rotated(FIRST, -7200)
    assert statuses(keys, -7200) == statuses(keys, -3601) == "AP"
    assert statuses(keys, -3600) == statuses(keys, 0) == "RA"


def test_a_key_made_by_a_clock_ahead_is_withdrawn_when_it_was_made():
    keys = withdraw(rotated(FIRST, 30), 1, at(10), PAIR)
    assert keys[0].withdraws_at == keys[1].created_at == keys[1].activates_at == at(30)
    assert statuses(keys, 29.999999)[0] == "A"
    assert statuses(keys, 30) == "WA"


def test_the_private_half_does_not_show():
    assert "sealed" not in repr(FIRST)
    assert "version=1" in repr(FIRST)


# At every moment


class State(NamedTuple):
    """The keys as they stood from a moment on, and which had been withdrawn by hand by then."""

    since: datetime
    keys: Keys
    by_hand: frozenset[int]


SECONDS = st.floats(0, 5000) | st.sampled_from([0.0, LEAD_S, KEEP_S, LEAD_S + KEEP_S])
ACTIONS = st.lists(
    st.tuples(st.just("rotate"), SECONDS)
    | st.tuples(st.just("withdraw"), st.integers(1, 6))
    | st.tuples(st.just("replace"), st.integers(1, 6))
    | st.tuples(st.just("wait"), SECONDS),
    max_size=12,
)


def history_of(actions: list[tuple[str, float]], keep_s: float) -> list[State]:
    """What the keys have been; an action that is refused changes nothing."""
    now = NOW
    states = [State(now, FIRST, frozenset())]
    for verb, value in actions:
        _, keys, by_hand = states[-1]
        try:
            if verb == "wait":
                now += timedelta(seconds=value)
                continue
            if verb == "rotate":
                keys = rotate(keys, PAIR, now, lead_s=value, keep_s=keep_s)
            else:
                keys = withdraw(keys, int(value), now, PAIR if verb == "replace" else None)
                by_hand |= {int(value)}
        except (KeyRefused, KeyNotFound):
            continue
        states.append(State(now, keys, by_hand))
    return states


@settings(max_examples=150)
@given(actions=ACTIONS, keep_s=SECONDS)
@example([("rotate", 60.0), ("withdraw", 2), ("rotate", 60.0), ("wait", 61.0), ("replace", 3)], KEEP_S)
@example([("rotate", 0.0), ("replace", 2), ("rotate", 5.0), ("replace", 3)], 0.0)
def test_at_every_moment_one_key_signs_and_what_it_signed_stays_verifiable(actions, keep_s):
    states = history_of(actions, keep_s)
    told = {state.since for state in states}
    for state in states:
        for key in state.keys:
            told |= {key.activates_at, key.withdraws_at or key.activates_at}
    moments = sorted({moment + delta for moment in told for delta in (-TICK, timedelta(), TICK)})
    in_force = [
        (moment, [state for state in states if state.since <= moment][-1])
        for moment in moments
        if moment >= NOW
    ]
    keep = timedelta(seconds=keep_s)
    for number, (moment, state) in enumerate(in_force):
        [signs] = [
            key for key in state.keys if status_of(key, state.keys, moment) is ProviderKeyStatus.ACTIVE
        ]
        assert signs == signing_key(state.keys, moment)
        for later, then in in_force[number:]:
            if later - moment <= keep and signs.key_version not in then.by_hand:
                published = {key.key_version for key in published_keys(then.keys, later)}
                assert signs.key_version in published, (moment, later)
            elif signs.key_version in then.by_hand:
                assert signs.key_version not in {key.key_version for key in published_keys(then.keys, later)}


@settings(max_examples=100)
@given(actions=ACTIONS)
def test_versions_sign_in_their_order_and_never_again(actions):
    states = history_of(actions, KEEP_S)
    moments = sorted({key.activates_at for state in states for key in state.keys} | {s.since for s in states})
    signing = [
        signing_key([state for state in states if state.since <= moment][-1].keys, moment).key_version
        for moment in moments
    ]
    assert signing == sorted(signing)


# How long


def time_on_its_way(outcomes: Iterable[AttemptOutcome], chance: float) -> timedelta:
    """From the first attempt to the last of a notification that every attempt fails for."""
    delivery = Delivery(
        bucket=0, event_id="evt_1", client_id="sandbox_1", url="https://shop.test/", lane="shop", body=b"",
        attempt=1, step=1, sequence=1, faults=(), claim_id=UUID(int=1), created_at=NOW,
        due_at=NOW, payment_id=None,
    )  # fmt: skip
    now = NOW
    for outcome in outcomes:
        decision = after_attempt(delivery, outcome, now, schedule_s=RETRY_SCHEDULE_S, chance=chance)
        if isinstance(decision, Dead):
            break
        assert isinstance(decision, Again)
        now = decision.at
        delivery = replace(delivery, attempt=delivery.attempt + 1, step=delivery.step + 1)
    return now - NOW


LATEST = Answered(503, retry_after_s=1e9)
FAILED = st.sampled_from([Answered(500), Unreachable("time-out"), Answered(429, retry_after_s=100.0), LATEST])


def test_the_longest_retry_is_that_of_a_merchant_who_always_asks_for_the_latest_time():
    assert longest_retry_s(RETRY_SCHEDULE_S) == 4 * sum(RETRY_SCHEDULE_S) == 1_090_220
    assert time_on_its_way(repeat(LATEST), 0.5).total_seconds() == 1_090_220
    assert default_keep_s(RETRY_SCHEDULE_S) == 1_090_220
    assert default_keep_s((1.0, 2.0)) == KEEP_AT_LEAST_S


@given(outcomes=st.lists(FAILED, min_size=12, max_size=12), chance=st.floats(0, 1, exclude_max=True))
def test_no_notification_is_on_its_way_for_longer_than_that(outcomes, chance):
    assert time_on_its_way(outcomes, chance).total_seconds() <= longest_retry_s(RETRY_SCHEDULE_S)


def test_the_time_to_keep_follows_the_schedule_unless_it_is_given():
    assert Settings().provider_keys_keep_s == 1_090_220
    assert Settings(retry_schedule_s=(1000.0, 2000.0)).provider_keys_keep_s == 12_000
    given_keep = from_environ({"PAYACCEPT_PROVIDER_KEY_KEEP_S": "60"})
    assert given_keep.provider_keys_keep_s == 60
    assert from_environ(given_keep.to_environ()) == given_keep
    assert "PAYACCEPT_PROVIDER_KEY_KEEP_S" not in Settings().to_environ()
    with pytest.raises(SettingInvalid, match="PAYACCEPT_PROVIDER_KEY_KEEP_S"):
        from_environ({"PAYACCEPT_PROVIDER_KEY_KEEP_S": "-1"})


@pytest.mark.parametrize(
    ("lead_s", "max_age_s"), [(3600.0, 300), (86_400.0, 300), (60.0, 15), (1.0, 0), (0.0, 0)]
)
def test_a_copy_of_the_keys_is_renewed_well_before_a_new_key_signs(lead_s, max_age_s):
    assert Settings(provider_key_lead_s=lead_s).provider_keys_max_age_s == max_age_s
