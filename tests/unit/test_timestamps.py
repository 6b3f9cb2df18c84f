"""Instants: one shape is read, one is written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.wire.timestamps import TimestampMalformed, parse, write, write_seconds

ACCEPTED = {
    "2026-01-31T23:59:59Z": datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
    "2026-01-01T00:00:00Z": datetime(2026, 1, 1, tzinfo=UTC),
    "2024-02-29T12:00:00Z": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "2000-02-29T12:00:00Z": datetime(2000, 2, 29, 12, tzinfo=UTC),
    "0001-01-01T00:00:00Z": datetime(1, 1, 1, tzinfo=UTC),
    "9999-12-31T23:59:59.999999999Z": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "2026-01-31T23:59:59.1Z": datetime(2026, 1, 31, 23, 59, 59, 100000, tzinfo=UTC),
    "2026-01-31T23:59:59.120Z": datetime(2026, 1, 31, 23, 59, 59, 120000, tzinfo=UTC),
    "2026-01-31T23:59:59.123456Z": datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=UTC),
    "2026-01-31T23:59:59.123456789Z": datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=UTC),
    "2026-01-31T23:59:59.000Z": datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
}
REFUSED = {
    "empty": "",
    "no Z": "2026-01-31T23:59:59",
    "lower-case t": "2026-01-31t23:59:59Z",
    "lower-case z": "2026-01-31T23:59:59z",
    "offset zero": "2026-01-31T23:59:59+00:00",
    "offset zero, short": "2026-01-31T23:59:59+00",
    "minus zero": "2026-01-31T23:59:59-00:00",
    "another offset": "2026-01-31T23:59:59+01:00",
    "Z and an offset": "2026-01-31T23:59:59Z+00:00",
    "UTC as a word": "2026-01-31T23:59:59 UTC",
    "blank for T": "2026-01-31 23:59:59Z",
    "underscore for T": "2026-01-31_23:59:59Z",
    "hour 24": "2026-01-31T24:00:00Z",
    "minute 60": "2026-01-31T23:60:00Z",
    "leap second": "2016-12-31T23:59:60Z",
    "February 30": "2026-02-30T00:00:00Z",
    "February 29 of no leap year": "2026-02-29T00:00:00Z",
    "February 29 of 1900": "1900-02-29T00:00:00Z",
    "April 31": "2026-04-31T00:00:00Z",
    "month 0": "2026-00-10T00:00:00Z",
    "month 13": "2026-13-10T00:00:00Z",
    "day 0": "2026-01-00T00:00:00Z",
    "year 0": "0000-01-01T00:00:00Z",
    "week date": "2026-W05-6T23:59:59Z",
    "ordinal date": "2026-031T23:59:59Z",
    "basic format": "20260131T235959Z",
    "no seconds": "2026-01-31T23:59Z",
    "date alone": "2026-01-31",
    "date and Z": "2026-01-31Z",
    "two-digit year": "26-01-31T23:59:59Z",
    "five-digit year": "12026-01-31T23:59:59Z",
    "signed year": "+2026-01-31T23:59:59Z",
    "one-digit month": "2026-1-31T23:59:59Z",
    "one-digit hour": "2026-01-31T3:59:59Z",
    "fraction without digits": "2026-01-31T23:59:59.Z",
    "ten fraction digits": "2026-01-31T23:59:59.1234567890Z",
    "comma fraction": "2026-01-31T23:59:59,5Z",
    "fraction of minutes": "2026-01-31T23:59.5Z",
    "two fractions": "2026-01-31T23:59:59.1.2Z",
    "leading blank": " 2026-01-31T23:59:59Z",
    "trailing blank": "2026-01-31T23:59:59Z ",
    "blank within": "2026-01-31T 23:59:59Z",
    "trailing newline": "2026-01-31T23:59:59Z\n",
    "newline before Z": "2026-01-31T23:59:59\nZ",
    "trailing NUL": "2026-01-31T23:59:59Z\0",
    "Arabic digits": "\u0662\u0660\u0662\u0666-01-31T23:59:59Z",
    "full-width digits": "2026-01-31T23:59:5\uff19Z",
    "superscript fraction": "2026-01-31T23:59:59.\u00b2Z",
    "Unicode hyphen": "2026\u201001\u201031T23:59:59Z",
    "epoch seconds": "1769903999",
    "HTTP date": "Sat, 31 Jan 2026 23:59:59 GMT",
    "now": "now",
    "underscore in digits": "2_26-01-31T23:59:59Z",
    "two at once": "2026-01-31T23:59:59Z2026-01-31T23:59:59Z",
}


@pytest.mark.parametrize(("text", "at"), ACCEPTED.items())
def test_the_one_shape_is_read(text, at):
    assert parse(text) == at
    assert parse(text).tzinfo is UTC


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_whatever_else_a_date_parser_may_accept_is_refused(text):
    with pytest.raises(TimestampMalformed) as caught:
        parse(text)
    assert str(caught.value)


@given(at=st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_reads_back_to_the_millisecond(at):
    assert parse(write(at)) == at.replace(microsecond=at.microsecond // 1000 * 1000)
    assert parse(write_seconds(at)) == at.replace(microsecond=0)


@given(text=st.text(st.sampled_from("0123456789-:T.Z\u0661 \n"), max_size=30))
def test_any_text_is_read_or_refused_and_nothing_else_happens(text):
    try:
        at = parse(text)
    except TimestampMalformed:
        return
    assert write_seconds(at)[:19] == text[:19]


def test_instants_are_written_in_utc_with_z_whatever_their_zone():
    berlin = datetime(2026, 7, 1, 14, 30, 5, 123999, tzinfo=timezone(timedelta(hours=2)))
    assert write(berlin) == "2026-07-01T12:30:05.123Z"
    assert write_seconds(berlin) == "2026-07-01T12:30:05Z"
    assert write(datetime(2026, 7, 1, tzinfo=UTC)) == "2026-07-01T00:00:00.000Z"
