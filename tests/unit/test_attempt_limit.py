"""Buckets that leak."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.attempt_limit import LIMITS, Kind, Level, Limit, address_block, level_at, wait_s

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMIT = Limit(3, 60)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_burst_fits_and_the_next_one_waits_for_a_drop_to_leak():
    level = Level(0, NOW)
    for _ in range(3):
        assert wait_s(level, LIMIT, NOW) == 0
        level = Level(level_at(level, LIMIT, NOW) + 1, NOW)
    assert wait_s(level, LIMIT, NOW) == 60
    assert wait_s(level, LIMIT, after(59)) == pytest.approx(1)
    assert wait_s(level, LIMIT, after(60)) == 0


def test_a_bucket_is_empty_again_after_all_has_leaked_and_never_less_than_empty():
    assert level_at(Level(3, NOW), LIMIT, after(180)) == 0
    assert level_at(Level(3, NOW), LIMIT, after(10_000)) == 0


def test_a_clock_that_goes_back_leaks_nothing():
    assert level_at(Level(2, NOW), LIMIT, after(-500)) == 2


@given(st.lists(st.floats(0, 600), max_size=200), st.sampled_from(Kind))
def test_whatever_the_pace_no_more_pass_than_capacity_and_leak_allow(pauses, kind):
    limit = LIMITS[kind]
    level, now, passed, elapsed = Level(0, NOW), NOW, 0, 0.0
    for pause in pauses:
        now += timedelta(seconds=pause)
        elapsed += pause
        if wait_s(level, limit, now) == 0:
            level = Level(level_at(level, limit, now) + 1, now)
            passed += 1
    assert passed <= limit.capacity + elapsed / limit.drain_s + 1e-6


def test_an_attacker_with_the_password_has_a_poor_chance_to_guess_the_second_factor():
    limit = LIMITS[Kind.CODE]
    a_day = limit.capacity + 86400 / limit.drain_s
    assert a_day * 3 / 10**6 < 1 / 1000


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_one_customers_ipv6_network_counts_as_one_address(address, block):
    assert address_block(address) == block
