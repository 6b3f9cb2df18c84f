"""Whose merchant is whose: each has one worker, and few change hands when a worker comes or goes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.membership import REMEMBERED, Membership

MERCHANTS = [f"sandbox_{number}" for number in range(600)]


def seen_by(me: int, *workers: int) -> Membership:
    membership = Membership()
    membership.update(me, workers)
    return membership


def owners(*workers: int) -> dict[str, int]:
    views = {worker: seen_by(worker, *workers) for worker in workers}
    found = {}
    for client_id in MERCHANTS:
        [found[client_id]] = [worker for worker, view in views.items() if view.serves(client_id)]
    return found


def test_a_worker_that_knows_of_no_other_serves_everybody():
    assert all(Membership().serves(client_id) for client_id in MERCHANTS)
    assert all(seen_by(5).serves(client_id) for client_id in MERCHANTS)


@given(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=6))
def test_each_merchant_has_exactly_one_worker(workers):
    assert set(owners(*workers)) == set(MERCHANTS)


def test_the_shares_are_about_the_same():
    for workers in ((1, 2), (17, 18, 19, 20)):
        shares = Counter(owners(*workers).values())
        assert min(shares.values()) > 0.7 * len(MERCHANTS) / len(workers)


def test_when_a_worker_comes_or_goes_only_its_merchants_change_hands():
    two, three = owners(11, 12), owners(11, 12, 13)
    changed = {client_id for client_id in MERCHANTS if two[client_id] != three[client_id]}
    assert changed == {client_id for client_id in MERCHANTS if three[client_id] == 13}
    assert changed


def test_it_is_news_when_somebody_comes_or_goes_and_when_the_own_number_changes():
    membership = Membership()
    assert membership.update(1, {1})
    assert not membership.update(1, {1})
    assert membership.update(1, {1, 2})
    assert not membership.update(1, {2}), "oneself lives, whoever says so"
    assert membership.update(3, {2, 3})
    before = [membership.serves(client_id) for client_id in MERCHANTS]
    assert membership.update(3, {3})
    assert before != [membership.serves(client_id) for client_id in MERCHANTS]


def test_what_is_remembered_of_merchants_is_bounded():
    membership = seen_by(1, 1, 2)
    for number in range(REMEMBERED + 10):
        membership.serves(str(number))
    assert len(membership._served) <= REMEMBERED
