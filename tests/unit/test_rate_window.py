"""The limit of N requests in any 60 seconds, as a pure function of times."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from payaccept.domain.rate_window import WINDOW_US, admit

SECOND = 1_000_000

steps = st.integers(0, 70 * SECOND) | st.sampled_from([0, 1, WINDOW_US - 1, WINDOW_US, WINDOW_US + 1])
arrivals = st.lists(st.tuples(steps, st.integers(0, 7)), max_size=60)


def run(limit: int, asked: list[tuple[int, int]], start_us: int = 10**15) -> list[int]:
    """All the times at which a request was admitted; every answer on the way is checked against them."""
    history: list[int] = []
    window: list[int] = []
    now_us = start_us
    for step_us, wanted in asked:
        now_us += step_us
        recent = [at for at in history if at >= now_us - WINDOW_US]
        admission = admit(window, now_us, limit, wanted)
        assert admission.admitted == min(wanted, limit - len(recent)), "admits exactly what there is room for"
        history += [now_us] * admission.admitted
        assert admission.times_us == recent + [now_us] * admission.admitted
        window = admission.times_us
    return history


@settings(max_examples=300, deadline=None)
@given(limit=st.integers(1, 12), asked=arrivals)
@example(limit=1, asked=[(0, 1), (WINDOW_US, 1), (1, 1)])
def test_there_are_never_more_than_n_in_any_window_of_60_seconds(limit, asked):
    times = run(limit, asked)
    for first, beyond in zip(times, times[limit:], strict=False):
        assert beyond - first > WINDOW_US, "both ends of a window belong to it"


@settings(max_examples=200, deadline=None)
@given(limit=st.integers(1, 8), asked=arrivals)
def test_it_says_to_the_microsecond_when_the_next_is_admitted(limit, asked):
    window: list[int] = []
    now_us = 10**15
    for step_us, wanted in asked:
        now_us += step_us
        admission = admit(window, now_us, limit, wanted)
        window = admission.times_us
        assert admission.free_at_us >= now_us
        assert admit(window, admission.free_at_us, limit, 1).admitted == 1
        if admission.free_at_us > now_us:
            assert admit(window, admission.free_at_us - 1, limit, 1).admitted == 0


@settings(max_examples=150, deadline=None)
@given(
    limit=st.integers(1, 8),
    asked=st.lists(st.tuples(st.integers(-5 * SECOND, 40 * SECOND), st.integers(1, 5)), max_size=40),
)
def test_clocks_that_differ_a_little_never_open_the_limit(limit, asked):
    history: list[int] = []
    window: list[int] = []
    now_us = 10**15
    for step_us, wanted in asked:
        now_us += step_us
        admission = admit(window, now_us, limit, wanted)
        history += admission.times_us[len(admission.times_us) - admission.admitted :]
        window = admission.times_us
        assert window == sorted(window)
    for first, beyond in zip(history, history[limit:], strict=False):
        assert beyond - first > WINDOW_US


@settings(max_examples=100, deadline=None)
@given(before=arrivals, after=arrivals, old=st.integers(1, 9), new=st.integers(1, 9))
def test_a_limit_that_changes_holds_from_then_on(before, after, old, new):
    window: list[int] = []
    now_us = 10**15
    for step_us, wanted in before:
        now_us += step_us
        window = admit(window, now_us, old, wanted).times_us
    for step_us, wanted in after:
        now_us += step_us
        recent = [at for at in window if at >= now_us - WINDOW_US]
        admission = admit(window, now_us, new, wanted)
        assert admission.admitted == max(0, min(wanted, new - len(recent)))
        window = admission.times_us


def test_the_hundred_and_first_request_waits_for_the_first_to_be_more_than_60_seconds_old():
    times = [1_000 * number for number in range(100)]
    admission = admit(times, 99_000, 100, 1)
    assert (admission.admitted, admission.free_at_us) == (0, WINDOW_US + 1)
    assert admit(times, WINDOW_US, 100, 1).admitted == 0
    assert admit(times, WINDOW_US + 1, 100, 2).admitted == 1


@pytest.mark.parametrize(("wanted", "admitted"), [(0, 0), (1, 1), (3, 3), (100, 3)])
def test_of_requests_that_come_together_as_many_are_admitted_as_fit(wanted, admitted):
    assert admit([], 5, 3, wanted).admitted == admitted


def test_the_window_forgets_what_is_older():
    assert admit([0, 1, 2], WINDOW_US + 2, 5, 0).times_us == [2]
