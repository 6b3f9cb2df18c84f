"""Which lanes get a worker's places: nobody more than their share, everybody in their turn."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from payaccept.domain.lanes import (
    COMMITTED_WITHIN,
    LANES_KEPT,
    OPENS_AFTER,
    FailingLane,
    Lanes,
    merchant_of,
)
from payaccept.domain.places import AHEAD, BRISK_S, LONG_AGO, SLOW_S, Limits

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SINCE = NOW - timedelta(seconds=15)
LIMITS = Limits()


def lane(number: int = 1, merchant: int | None = None) -> str:
    return f"sandbox_{number if merchant is None else merchant} https://host-{number}.example:443"


def several(count: int) -> list[str]:
    return [lane(number) for number in range(count)]


class Desk:
    """Lanes at work: claims are answered at once by what is due, and time passes by hand."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.lanes = Lanes(limits)
        self.now_s = 1000.0

    def plan(self, *found: str, sweep: bool = False, serves=lambda _client_id: True) -> dict[str, int]:
        """What would be claimed of lanes with more due than anybody takes."""
        asks = self.lanes.plan(found, self.now_s, since=SINCE, sweep=sweep, serves=serves)
        assert all(ask.room > 0 for ask in asks)
        assert len({ask.lane for ask in asks}) == len(asks)
        return {ask.lane: ask.room for ask in asks}

    def claim(self, *found: str, due: int = 10**6, sweep: bool = False) -> dict[str, int]:
        """Claim, where so many are due in each lane."""
        taken = {}
        for ask in self.lanes.plan(found, self.now_s, since=SINCE, sweep=sweep):
            taken[ask.lane] = min(ask.room, due)
            self.lanes.took(ask, taken[ask.lane], NOW if taken[ask.lane] else None)
        return taken

    def since(self, *found: str, sweep: bool = False) -> list[datetime]:
        """From when on the next claim would look into each lane."""
        return [ask.since for ask in self.lanes.plan(found, self.now_s, since=SINCE, sweep=sweep)]

    def exchange(self, name: str, *, unwell: bool = False, lasts_s: float = 0.0) -> None:
        """One exchange of what is in hand, begun and ended."""
        begun_s = self.now_s
        assert self.lanes.may_send(name, self.now_s)
        self.lanes.begin(name, begun_s)
        self.now_s += lasts_s
        self.answer(name, begun_s, unwell=unwell)

    def answer(self, name: str, begun_s: float, *, unwell: bool = False) -> None:
        """The end of an exchange that began then, and of its delivery."""
        self.lanes.finish(name, begun_s, self.now_s, unwell=unwell, reason="HTTP 500", now=NOW)
        self.lanes.end(name, self.now_s)

    def prove(self, *names: str, lasts_s: float = 0.0) -> None:
        """Have lanes answer once."""
        for name in names:
            assert self.claim(name, due=1) == {name: 1}
            self.exchange(name, lasts_s=lasts_s)
            self.claim(name, due=0)

    def fail(self, name: str, times: int, *, lasts_s: float = 0.0) -> None:
        """Have a lane fail so often, one after the other."""
        for _ in range(times):
            asks = self.lanes.plan([name], self.now_s, since=SINCE)
            [ask] = [ask for ask in asks if ask.lane == name]
            self.lanes.took(ask, 1, NOW)
            self.exchange(name, unwell=True, lasts_s=lasts_s)


# How much of one lane.


def test_a_lane_that_never_answered_gets_one_place():
    desk = Desk()
    assert desk.claim(lane()) == {lane(): 1}
    assert desk.plan(lane()) == {}


def test_a_lane_that_answers_slowly_has_in_hand_what_it_may_have_in_flight():
    desk = Desk()
    desk.prove(lane(), lasts_s=BRISK_S + 0.1)
    assert desk.claim(lane()) == {lane(): 4}


def test_a_lane_that_answers_briskly_has_the_next_ones_signed_meanwhile_and_no_more_in_flight():
    desk = Desk()
    desk.prove(lane())
    assert desk.claim(lane()) == {lane(): min(4 * AHEAD, LIMITS.per_merchant)}
    for _ in range(4):
        assert desk.lanes.may_send(lane(), desk.now_s)
        desk.lanes.begin(lane(), desk.now_s)
    assert not desk.lanes.may_send(lane(), desk.now_s)


def test_a_lane_that_stops_answering_has_to_give_back_what_is_not_in_flight():
    desk = Desk()
    desk.prove(lane())
    desk.claim(lane())
    for _ in range(4):
        desk.lanes.begin(lane(), desk.now_s)
    assert desk.lanes.too_many(lane(), desk.now_s) == 0
    desk.now_s += BRISK_S + 0.01
    assert desk.lanes.too_many(lane(), desk.now_s) == LIMITS.per_merchant - 4
    desk.lanes.finish(lane(), 1000.0, desk.now_s, unwell=True, reason="HTTP 500", now=NOW)
    assert desk.lanes.too_many(lane(), desk.now_s) == LIMITS.per_merchant - 4


def test_it_is_time_to_claim_when_half_a_lane_is_free_and_there_is_more():
    desk = Desk()
    desk.prove(lane())
    taken = desk.claim(lane())[lane()]
    asked = [desk.lanes.end(lane(), desk.now_s) for _ in range(taken)]
    assert asked == [False] * (taken // 2 - 1) + [True] * (taken // 2 + 1)
    desk.claim(lane(), due=3)
    assert [desk.lanes.end(lane(), desk.now_s) for _ in range(3)] == [False] * 3, "there is no more"


# How much of everything.


def test_a_merchant_with_many_hosts_gets_no_more_than_a_merchant_may_have():
    desk = Desk()
    names = [lane(number, merchant=7) for number in range(100)]
    for name in names:
        desk.prove(name)
    taken = desk.claim(*names, lane(1))
    assert sum(count for name, count in taken.items() if merchant_of(name) == "sandbox_7") == 32
    assert taken[lane(1)] == 1


def test_half_a_merchants_places_are_kept_for_its_hosts_that_answer():
    desk = Desk()
    hanging = [lane(number, merchant=7) for number in range(100)]
    well = lane(200, merchant=7)
    desk.prove(well)
    assert len(desk.claim(*hanging)) == 16
    assert desk.claim(well) == {well: 16}


def test_half_the_places_are_kept_for_lanes_that_answer():
    desk = Desk()
    well = several(300)[200:]
    desk.prove(*well)
    for _ in range(20):  # these hang, and new ones are tried
        for name in desk.claim(*several(200)):
            desk.lanes.begin(name, desk.now_s)
        desk.now_s += SLOW_S + 0.1
    assert desk.lanes.in_flight == 128
    assert sum(desk.claim(*well).values()) == 128


def test_where_new_lanes_hang_a_few_are_tried_at_a_time_and_each_that_answers_makes_room_for_the_next():
    desk = Desk()
    names = several(300)
    hanging = list(desk.claim(*names[:200]))
    assert len(hanging) == 96, "three eighths of the places"
    for name in hanging:
        desk.lanes.begin(name, desk.now_s)
    desk.now_s += SLOW_S + 0.1
    tried = list(desk.claim(*names[200:]))
    assert len(tried) == 3
    assert desk.claim(*names[200:]) == {}
    begun_s = desk.now_s
    desk.lanes.begin(tried[0], begun_s)
    desk.lanes.finish(tried[0], begun_s, desk.now_s, unwell=False, reason="", now=NOW)
    assert desk.lanes.end(tried[0], desk.now_s), "it is time to claim: the next can be tried"
    assert names[203] in desk.claim(*names[200:])


def test_of_new_lanes_those_one_was_told_of_come_before_those_that_were_found():
    desk = Desk(Limits(in_all=8))
    names = several(12)
    assert len(desk.claim(*names[:10])) == 3
    for name in (names[11], names[10]):
        assert desk.lanes.plan([name], desk.now_s, since=SINCE, told=True) == []
    for name in names[:3]:
        desk.exchange(name, unwell=True)
    assert list(desk.plan(*names[3:10])) == [names[11], names[10], names[3]]


def test_a_lane_that_hangs_counts_with_those_that_do_not_answer():
    desk = Desk()
    names = several(64)
    desk.prove(*names)
    hanging = names[:50]
    desk.claim(*hanging, due=4)
    for name in hanging:
        for _ in range(4):
            desk.lanes.begin(name, desk.now_s)
    desk.now_s += SLOW_S + 0.1
    assert sum(desk.claim(*several(400)[200:]).values()) == 0, "200 of 256 places wait without an answer"
    assert sum(desk.claim(*names[50:]).values()) == 56


def test_failing_lanes_hold_a_quarter_of_the_places_at_most():
    desk = Desk()
    failing = several(150)
    for name in failing:
        desk.fail(name, 1)
    assert sum(desk.claim(*failing).values()) == 64
    assert sum(desk.claim(*several(400)[200:]).values()) == 32, "and leave room for those not known yet"


def test_what_one_lane_cannot_have_is_shared_among_the_others():
    desk = Desk()
    well, pausing = several(20), several(220)[20:]
    desk.prove(*well)
    for name in pausing:
        desk.fail(name, 1)
    taken = desk.claim(*pausing, *well)
    assert sum(taken.get(name, 0) for name in pausing) == 64
    assert min(taken[name] for name in well) >= 9, "of 192 places, and not one"


def test_lanes_that_pause_do_not_hide_those_that_have_more_due():
    desk = Desk()
    pausing, well = several(600), lane(1000)
    for name in pausing:
        desk.fail(name, OPENS_AFTER)
        desk.lanes.plan([name], desk.now_s, since=SINCE)
    desk.prove(well)
    for _ in range(desk.claim(well)[well]):
        desk.lanes.end(well, desk.now_s)
    desk.lanes.plan(pausing, desk.now_s, since=SINCE)
    assert well in desk.plan()


def test_those_that_keep_one_waiting_leave_half_of_these_to_those_that_fail_at_once():
    desk = Desk()
    hanging, refusing = several(100), several(200)[100:]
    for name in hanging:
        desk.fail(name, 1, lasts_s=10)
    for name in refusing:
        desk.fail(name, 1)
    taken = desk.claim(*hanging, *refusing)
    assert len(set(taken) & set(hanging)) == 32
    assert len(set(taken) & set(refusing)) == 32


def test_all_places_can_be_used_by_lanes_that_answer():
    desk = Desk()
    names = several(50)
    desk.prove(*names)
    assert sum(desk.claim(*names).values()) == 256
    assert desk.lanes.in_hand == 256
    assert desk.plan(*names) == {}
    told = [desk.lanes.end(names[number % 50], desk.now_s) for number in range(64)]
    assert told[-1], "a quarter of the places is free again"


def test_places_are_shared_before_anybody_gets_more():
    desk = Desk()
    names = several(200)
    desk.prove(*names)
    taken = desk.claim(*names)
    assert len(taken) == 200
    assert sum(taken.values()) == 256


def test_another_workers_merchants_are_left_alone():
    desk = Desk()
    assert desk.plan(lane(1), lane(2), serves=lambda client_id: client_id == "sandbox_2") == {lane(2): 1}
    assert desk.plan(serves=lambda client_id: client_id == "sandbox_1") == {}


# In whose turn.


def test_the_lanes_served_the_longest_ago_come_first():
    desk = Desk(Limits(in_all=10))
    names = several(25)
    desk.prove(*names)
    claims = []
    for _ in range(12):
        claims.append(desk.claim(*names))
        for name, count in claims[-1].items():
            for _ in range(count):
                desk.exchange(name)
    for first in range(10):
        assert {name for taken in claims[first : first + 3] for name in taken} == set(names)


@given(
    count=st.integers(1, 120),
    per_lane=st.integers(1, 6),
    in_all=st.integers(1, 64),
    unwell=st.sets(st.integers(0, 119)),
)
def test_every_lane_that_is_due_is_reached_within_one_rotation(count, per_lane, in_all, unwell):
    desk = Desk(Limits(per_lane=per_lane, in_all=in_all, per_merchant=32))
    names = several(count)
    bad = {names[number] for number in unwell if number < count}
    reached: set[str] = set()
    # At worst all are failing, and those share a quarter of the places; each then pauses.
    for _ in range(-(-count // max(1, in_all // 4)) + 1):
        taken = desk.claim(*names)
        reached |= set(taken)
        for name, number in taken.items():
            for _ in range(number):
                desk.lanes.begin(name, desk.now_s)
                desk.answer(name, desk.now_s, unwell=name in bad)
        desk.now_s += 20  # longer than any pause
    assert reached == set(names)


# What is remembered of what is due.


def test_a_lane_with_more_than_it_had_room_for_is_asked_again_without_a_walk():
    desk = Desk()
    assert desk.claim(lane()) == {lane(): 1}
    desk.exchange(lane())
    assert lane() in desk.plan()


def test_a_lane_that_gave_less_than_was_asked_is_not():
    desk = Desk()
    desk.prove(lane())
    assert desk.claim(lane(), due=3) == {lane(): 3}
    assert desk.plan() == {}


def test_what_a_sweep_finds_is_looked_for_far_back_until_there_is_none_left():
    desk = Desk()
    desk.prove(lane())
    assert desk.since(lane()) == [SINCE]
    assert desk.since(lane(), sweep=True) == [LONG_AGO]
    desk.claim()
    for _ in range(32):
        desk.lanes.end(lane(), desk.now_s)
    assert desk.since() == [min(SINCE, NOW - COMMITTED_WITHIN)]
    desk.claim(due=5)
    assert desk.plan() == {}
    assert desk.since(lane()) == [SINCE]


def test_what_was_found_to_be_gone_is_not_read_through_again_until_the_next_sweep():
    desk = Desk()
    desk.prove(lane())
    [ask] = desk.lanes.plan([lane()], desk.now_s, since=SINCE, sweep=True)
    long_ago = NOW - timedelta(hours=5)
    desk.lanes.took(ask, ask.room, long_ago)
    for _ in range(32):
        desk.lanes.end(lane(), desk.now_s)
    assert desk.since() == [long_ago - COMMITTED_WITHIN]
    assert desk.since(lane(), sweep=True) == [LONG_AGO]


def test_a_lane_that_a_sweep_finds_full_is_looked_into_far_back_later():
    desk = Desk()
    desk.claim(lane())
    assert desk.claim(lane(), sweep=True) == {}
    desk.exchange(lane())
    assert desk.since() == [LONG_AGO]


# The circuit breaker.


def test_after_five_unwell_exchanges_in_a_row_one_delivery_probes():
    desk = Desk()
    desk.prove(lane(), lasts_s=BRISK_S + 1)
    desk.fail(lane(), OPENS_AFTER - 1)
    assert desk.lanes.open == 0
    assert desk.plan(lane()) == {lane(): 1}, "it goes on without a pause"
    desk.fail(lane(), 1)
    assert desk.lanes.open == 1
    assert desk.plan(lane()) == {}, "it pauses"
    desk.now_s += LIMITS.pause_s
    assert desk.claim(lane()) == {lane(): 1}
    assert desk.plan(lane()) == {}


def test_the_pauses_become_longer_up_to_a_limit():
    desk = Desk()
    desk.fail(lane(), OPENS_AFTER)
    pauses = []
    for _ in range(8):
        paused_from_s = desk.now_s
        while not desk.plan(lane()):
            desk.now_s += 0.25
        pauses.append(desk.now_s - paused_from_s)
        desk.fail(lane(), 1)
    assert pauses == [1, 2, 4, 8, 16, 16, 16, 16]


def test_those_still_in_flight_when_it_opens_are_not_taken_for_probes():
    desk = Desk(Limits(per_lane=8))
    desk.prove(lane(), lasts_s=BRISK_S + 1)
    assert desk.claim(lane()) == {lane(): 8}
    for _ in range(8):
        desk.lanes.begin(lane(), desk.now_s)
    begun_s = desk.now_s
    for _ in range(8):
        desk.answer(lane(), begun_s, unwell=True)
    desk.now_s += 2 * LIMITS.pause_s
    assert desk.plan(lane()) == {lane(): 1}


def test_one_unwell_answer_among_good_ones_gives_nothing_back():
    desk = Desk()
    desk.prove(lane())
    desk.claim(lane())
    desk.exchange(lane(), unwell=True)
    assert desk.lanes.too_many(lane(), desk.now_s) == 0
    assert desk.plan(lane()) == {}, "but nothing more is taken on"
    desk.exchange(lane())
    assert desk.plan(lane()) == {lane(): 2}


def test_any_answer_that_is_not_unwell_closes_it():
    desk = Desk()
    desk.prove(lane())
    desk.fail(lane(), OPENS_AFTER)
    desk.now_s += LIMITS.pause_s
    assert desk.claim(lane()) == {lane(): 1}
    desk.exchange(lane())
    assert desk.lanes.open == 0
    assert desk.plan(lane()) == {lane(): 32}
    desk.fail(lane(), OPENS_AFTER - 1)
    assert desk.lanes.open == 0, "it counts from the beginning again"


def test_while_it_is_open_nothing_more_is_sent_of_what_is_in_hand():
    desk = Desk()
    desk.prove(lane())
    desk.claim(lane())
    for _ in range(OPENS_AFTER):
        desk.exchange(lane(), unwell=True)
    assert not desk.lanes.may_send(lane(), desk.now_s)
    assert desk.lanes.too_many(lane(), desk.now_s) == 32 - OPENS_AFTER, "all of it is to be given back"
    desk.now_s += LIMITS.pause_s
    assert desk.lanes.may_send(lane(), desk.now_s)
    desk.lanes.begin(lane(), desk.now_s)
    assert not desk.lanes.may_send(lane(), desk.now_s)


# What is written down.


def test_failing_lanes_are_told_when_that_is_news_and_those_that_answer_again():
    desk = Desk()
    desk.prove(lane(2))
    assert desk.lanes.changes() == ([], [lane(2)]), "somebody may have written that it is failing"
    desk.fail(lane(1), 2)
    kept = FailingLane(
        lane=lane(1),
        client_id="sandbox_1",
        failures=2,
        failing_since=NOW,
        opened_at=None,
        last_reason="HTTP 500",
    )
    assert desk.lanes.changes() == ([kept], [])
    assert desk.lanes.changes() == ([], [])
    desk.fail(lane(1), 3)
    [changed], _ = desk.lanes.changes()
    assert (changed.failures, changed.opened_at) == (5, NOW)
    desk.now_s += LIMITS.pause_s
    desk.claim(lane(1))
    desk.exchange(lane(1))
    assert desk.lanes.changes() == ([], [lane(1)])


def test_what_was_written_down_is_known_after_a_restart():
    before, after = Desk(), Desk()
    before.fail(lane(1), OPENS_AFTER)
    before.fail(lane(2), 2)
    after.lanes.load(before.lanes.changes()[0])
    assert after.lanes.open == 1
    assert after.claim(lane(1)) == {lane(1): 1}, "it is probed at once"
    after.exchange(lane(1), unwell=True)
    assert after.plan(lane(1)) == {}
    after.fail(lane(2), 3)
    assert after.lanes.open == 2


def test_what_is_known_is_known_better_than_what_was_written():
    desk = Desk()
    desk.fail(lane(), 5)
    written, _ = desk.lanes.changes()
    desk.now_s += 1
    desk.claim(lane())
    desk.exchange(lane())
    desk.lanes.load(written)
    assert desk.lanes.open == 0


def test_lanes_of_merchants_that_another_worker_has_now_are_forgotten_but_what_is_in_hand():
    desk = Desk()
    desk.prove(lane(1), lane(2), lane(3))
    desk.claim(lane(2), due=1)
    desk.lanes.forget(lambda client_id: client_id == "sandbox_3")
    assert desk.lanes.known == 2
    desk.exchange(lane(2))
    assert desk.lanes.in_hand == 0


def test_so_many_lanes_are_kept_and_no_more():
    desk = Desk()
    desk.fail(lane(0), OPENS_AFTER)
    for number in range(1, LANES_KEPT + 500):
        desk.plan(lane(number))
        desk.claim(due=0)
    assert desk.lanes.known <= LANES_KEPT
    assert desk.lanes.open == 1, "one that is failing is remembered rather than one that is not"


# Whatever happens.


class AtWork(RuleBasedStateMachine):
    """Any order of claims, answers and pauses keeps to the limits, and gives every place back."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits(per_lane=2, per_merchant=5, in_all=12)
        self.lanes = Lanes(self.limits)
        self.now_s = 0.0
        self.names = [lane(number, merchant=number % 4) for number in range(16)]
        self.waiting: list[str] = []
        self.in_flight: list[tuple[str, float]] = []

    @rule(found=st.sets(st.integers(0, 15)), due=st.integers(0, 20), sweep=st.booleans())
    def claim(self, found, due, sweep):
        names = sorted(self.names[number] for number in found)
        for ask in self.lanes.plan(names, self.now_s, since=SINCE, sweep=sweep):
            count = min(ask.room, due)
            self.lanes.took(ask, count, NOW if count else None)
            self.waiting += [ask.lane] * count

    @rule()
    def send(self):
        for name in list(self.waiting):
            if self.lanes.may_send(name, self.now_s):
                self.waiting.remove(name)
                self.lanes.begin(name, self.now_s)
                self.in_flight.append((name, self.now_s))

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 10**6), unwell=st.booleans())
    def answer(self, which, unwell):
        name, begun_s = self.in_flight.pop(which % len(self.in_flight))
        self.lanes.finish(name, begun_s, self.now_s, unwell=unwell, reason="x", now=NOW)
        self.lanes.end(name, self.now_s)

    @rule()
    def thin_out(self):
        for name in set(self.waiting):
            for _ in range(min(self.lanes.too_many(name, self.now_s), self.waiting.count(name))):
                self.waiting.remove(name)
                self.lanes.end(name, self.now_s)

    @rule(seconds=st.floats(0.01, 20))
    def wait(self, seconds):
        self.now_s += seconds

    @invariant()
    def the_limits_hold(self):
        in_hand = Counter(self.waiting) + Counter(name for name, _ in self.in_flight)
        in_flight = Counter(name for name, _ in self.in_flight)
        merchants: Counter[str] = Counter()
        for name, count in in_hand.items():
            merchants[merchant_of(name)] += count
        assert self.lanes.in_hand == in_hand.total() <= self.limits.in_all
        assert max(merchants.values(), default=0) <= self.limits.per_merchant
        assert max(in_flight.values(), default=0) <= self.limits.per_lane
        assert self.lanes.in_flight == in_flight.total()

    def teardown(self):
        for name in self.waiting:
            self.lanes.end(name, self.now_s)
        for name, begun_s in self.in_flight:
            self.lanes.finish(name, begun_s, self.now_s, unwell=False, reason="", now=NOW)
            self.lanes.end(name, self.now_s)
        assert self.lanes.in_hand == self.lanes.in_flight == 0


AtWork.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAtWork = AtWork.TestCase


@pytest.mark.parametrize("in_all", [1, 2, 3])
def test_even_the_smallest_worker_reaches_everybody(in_all):
    desk = Desk(Limits(per_lane=1, per_merchant=1, in_all=in_all))
    names = several(7)
    for name in names[:3]:
        desk.fail(name, OPENS_AFTER)
    desk.now_s += 100
    reached = set()
    for _ in range(14):
        for name in desk.claim(*names, due=1):
            reached.add(name)
            desk.exchange(name)
    assert reached == set(names)
