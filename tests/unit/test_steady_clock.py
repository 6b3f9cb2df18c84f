"""The schedules' time: it follows the wall clock, but is not set back with it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.steady_clock import FURTHEST, SteadyClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def test_while_nobody_sets_the_wall_clock_it_is_the_wall_clock():
    clock = SteadyClock()
    for elapsed in (0.0, 0.1, 5.0, 3600.0, 90_000.0):
        assert clock.read(NOW + seconds(elapsed), 100 + elapsed) == NOW + seconds(elapsed)


def test_it_follows_a_wall_clock_that_is_set_forward():
    clock = SteadyClock()
    clock.read(NOW, 0.0)
    assert clock.read(NOW + seconds(7200), 1.0) == NOW + seconds(7200)


def test_it_waits_for_one_that_was_set_back_at_nine_tenths_of_the_pace():
    clock = SteadyClock()
    clock.read(NOW, 0.0)
    assert clock.read(NOW - seconds(600) + seconds(10), 10.0) == NOW + seconds(9)
    assert clock.read(NOW - seconds(600) + seconds(110), 110.0) == NOW + seconds(99)
    # Ahead by a tenth less each second, it has waited long enough after ten times as long.
    assert clock.read(NOW - seconds(600) + seconds(6010), 6010.0) == NOW + seconds(5410)
    assert clock.read(NOW - seconds(600) + seconds(7000), 7000.0) == NOW + seconds(6400)


def test_one_that_was_set_back_by_more_than_a_day_had_been_wrong_and_is_followed():
    clock = SteadyClock()
    clock.read(NOW, 0.0)
    long_ago = NOW - FURTHEST - seconds(60)
    assert clock.read(long_ago, 1.0) == long_ago


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(-20_000, 20_000)), max_size=30))
def test_within_a_day_it_never_goes_back_and_is_never_behind_the_wall_clock(steps):
    clock, wall, monotonic_s = SteadyClock(), NOW, 0.0
    last = clock.read(wall, monotonic_s)
    for elapsed_s, set_by_s in steps:
        monotonic_s += elapsed_s
        wall += seconds(elapsed_s + set_by_s)
        now = clock.read(wall, monotonic_s)
        assert now >= wall
        assert now >= last or last - wall > FURTHEST
        assert now - wall <= FURTHEST
        last = now
