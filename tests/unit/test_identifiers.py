"""Identifiers: unguessable, ordered by time, naming their bucket."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain import identifiers

milliseconds = st.integers(0, 2**48 - 1)
buckets = st.integers(0, 255)


@given(bucket=buckets, at_ms=milliseconds)
def test_an_identifier_tells_its_time_and_its_bucket(bucket, at_ms):
    made = identifiers.new(identifiers.PAYMENT, bucket, at_ms)
    assert re.fullmatch(r"pay_[0-9a-f]{36}", made)
    assert len(made) <= 64
    assert identifiers.bucket_of(made) == bucket
    assert int(made[4:16], 16) == at_ms


@given(first=milliseconds, second=milliseconds, bucket=buckets)
def test_the_order_of_identifiers_is_the_order_of_time(first, second, bucket):
    if first < second:
        assert identifiers.new("pay_", bucket, first) < identifiers.new("pay_", 255 - bucket, second)


@given(at_ms=milliseconds, other_ms=milliseconds, bucket=buckets)
def test_the_least_identifier_of_a_moment_parts_those_before_from_those_after(at_ms, other_ms, bucket):
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=min(at_ms, 10**14))
    other = identifiers.new(identifiers.EVENT, bucket, min(other_ms, 10**14))
    assert (other > identifiers.least(identifiers.EVENT, at)) == (min(other_ms, 10**14) >= min(at_ms, 10**14))


def test_an_event_id_is_known_by_its_form():
    event_id = identifiers.new(identifiers.EVENT, 7, 1)
    assert identifiers.is_event(event_id)
    for wrong in (
        "",
        "evt_",
        event_id[:-1],
        event_id + "0",
        event_id.upper(),
        "pay" + event_id[3:],
        event_id + "\n",
    ):
        assert not identifiers.is_event(wrong)


def test_identifiers_of_one_millisecond_and_bucket_are_different():
    made = {identifiers.new(identifiers.EVENT, 7, 1) for _ in range(10_000)}
    assert len(made) == 10_000
    assert len({identifier[18:20] for identifier in made}) == 256  # the random part starts at once


@given(bucket=buckets, at_ms=milliseconds)
def test_payment_and_acquirement_are_two_names_of_one_thing(bucket, at_ms):
    payment_id = identifiers.new(identifiers.PAYMENT, bucket, at_ms)
    acquirement_id = identifiers.acquirement_of(payment_id)
    assert acquirement_id == "acq_" + payment_id[4:]
    assert identifiers.payment_of(payment_id) == payment_id
    assert identifiers.payment_of(acquirement_id) == payment_id
    assert identifiers.bucket_of(acquirement_id) == bucket


TAIL = "0193a1b2c3d47f" + "9" * 22


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pay_",
        TAIL,
        "pay_" + TAIL[:-1],
        "pay_" + TAIL + "0",
        "pay_" + TAIL[:-1] + "g",
        "pay_" + TAIL.upper(),
        "PAY_" + TAIL,
        "evt_" + TAIL,
        "pay-" + TAIL,
        " pay_" + TAIL,
        "pay_" + TAIL + "\n",
        "pay_" + TAIL[:-1] + "\u0669",
    ],
)
def test_nothing_else_is_an_identifier_of_a_payment(text):
    assert identifiers.payment_of(text) is None


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    assert identifiers.payment_of(text) is None or text[4:].isalnum()
