"""What somebody looks for: read as people write it, and written back as it was meant."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain import identifiers
from payaccept.domain.money import active_currencies
from payaccept.domain.payment import PaymentState
from payaccept.domain.payment_search import FIELDS, MAX_MINOR, PaymentSearch, read


def read_well(**fields: str) -> PaymentSearch:
    search, errors = read({name.rstrip("_"): value for name, value in fields.items()})
    assert errors == {}
    return search


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def test_nothing_typed_looks_for_everything():
    search = read_well(state="", amount="  ", from_="", unknown="x")
    assert search == PaymentSearch()
    assert not search.is_selective
    assert search.to_query() == ""
    assert search.first_id < f"pay_{'0' * 36}"
    assert search.end_id > f"pay_{'f' * 36}"


@pytest.mark.parametrize(
    ("currency", "amount", "least", "most"),
    [
        ("EUR", "12.50", 1250, 1250),
        ("EUR", "12,5", 1250, 1250),
        ("EUR", "1.234,50", 123450, 123450),
        ("EUR", "1\N{NARROW NO-BREAK SPACE}234,50", 123450, 123450),
        ("EUR", "1'234.50", 123450, 123450),
        ("EUR", "1,234", 123400, 123400),
        ("EUR", "1.234", 123400, 123400),
        ("EUR", "1,234,567.89", 123456789, 123456789),
        ("INR", "1,23,456.50", 12345650, 12345650),
        ("EUR", ".5", None, None),
        ("JPY", "1,999", 1999, 1999),
        ("JPY", "1999", 1999, 1999),
        ("KWD", "1.25", 1250, 1250),
        ("KWD", "1.250", 1250, 1250),
        ("KWD", "1,250.500", 1250500, 1250500),
        ("", "12.50 EUR", 1250, 1250),
        ("", "eur 12.50", 1250, 1250),
        ("", "€19.99", 1999, 1999),
        ("", "19,99\N{NO-BREAK SPACE}€", 1999, 1999),
        ("eur", "10-20", 1000, 2000),
        ("EUR", "10 \N{EN DASH} 20.01", 1000, 2001),
        ("EUR", "10..20", 1000, 2000),
        ("EUR", "100-", 10000, None),
        ("EUR", "-20", None, 2000),
    ],
)
def test_amounts_are_read_as_people_write_them(currency, amount, least, most):
    search, errors = read({"currency": currency, "amount": amount})
    if least is None and most is None:
        assert "amount" in errors
        return
    assert errors == {}
    assert (search.least_minor, search.most_minor) == (least, most)


@pytest.mark.parametrize(
    ("fields", "field", "told"),
    [
        ({"amount": "12.50"}, "currency", "needs its currency"),
        ({"amount": "12.5055", "currency": "EUR"}, "amount", "EUR has 2 decimals: 12.5055 has 4"),
        ({"amount": "12.5", "currency": "JPY"}, "amount", "JPY has no decimals"),
        ({"amount": "1,250", "currency": "KWD"}, "amount", "two ways: write 1.250 or 1250"),
        ({"amount": "12.50 USD", "currency": "EUR"}, "amount", "in USD, and the currency is EUR"),
        ({"amount": "12.50 XXX"}, "amount", "not an active ISO 4217"),
        ({"currency": "EURO"}, "currency", "not an active ISO 4217"),
        ({"amount": "twelve", "currency": "EUR"}, "amount", "write it like 12.50"),
        ({"amount": "1.2.3", "currency": "EUR"}, "amount", "write it like 12.50"),
        ({"amount": "12.", "currency": "EUR"}, "amount", "write it like 12.50"),
        ({"amount": "١٢", "currency": "EUR"}, "amount", "write it like 12.50"),
        ({"amount": "-", "currency": "EUR"}, "amount", "or a range"),
        ({"amount": "1-2-3", "currency": "EUR"}, "amount", "or a range"),
        ({"amount": "20-10", "currency": "EUR"}, "amount", "ends below"),
        ({"amount": "9" * 20, "currency": "EUR"}, "amount", "No payment is of more than 9999999999.99 EUR"),
        ({"state": "PAID"}, "state", "PROCESSING, SUCCESS, FAIL"),
        ({"operation": "inquiryPayment"}, "operation", "createQROrder"),
        ({"from": "yesterday"}, "from", "Write a day"),
        ({"until": "2026-02-30"}, "until", "Write a day"),
        ({"until": "9999-12-31"}, "until", "Write a day"),
        ({"from": "2026-03-02", "until": "2026-03-01"}, "until", "ends before"),
        ({"store": "x" * 65}, "store", "At most 64"),
        ({"store": "a\0b"}, "store", "on one line"),
    ],
)
def test_a_mistake_is_told_beside_its_field_and_looked_for_is_the_rest(fields, field, told):
    search, errors = read({"operation": "retailPay"} | fields)
    assert set(errors) == {field}
    assert told in errors[field]
    assert field == "operation" or search.operation == "retailPay"


def test_days_are_whole_and_in_utc():
    search = read_well(from_="2026-03-01", until="2026-03-02")
    assert (search.created_from, search.created_until) == (at(2026, 3, 1), at(2026, 3, 3))
    assert not search.is_selective
    first = identifiers.new(identifiers.PAYMENT, 0, int(at(2026, 3, 1).timestamp() * 1000))
    last = identifiers.new(identifiers.PAYMENT, 255, int(at(2026, 3, 3).timestamp() * 1000) - 1)
    behind = identifiers.new(identifiers.PAYMENT, 0, int(at(2026, 3, 3).timestamp() * 1000))
    assert search.first_id <= first < last < search.end_id <= behind


@pytest.mark.parametrize(
    "text", ["2026-03-01 14:30", "2026-03-01T14:30", "2026-03-01T14:30:00Z", "2026-03-01 14:30:00.000Z"]
)
def test_moments_may_be_given_too(text):
    search = read_well(from_=text, until=text.replace("14:30", "14:31"))
    assert search.created_from == at(2026, 3, 1, 14, 30)
    assert search.created_until == at(2026, 3, 1, 14, 31)


MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)
DAYS = MOMENTS.map(lambda moment: moment.replace(hour=0, minute=0, second=0, microsecond=0))


@st.composite
def searches(draw: st.DrawFn) -> PaymentSearch:
    currency = draw(st.none() | st.sampled_from(sorted(active_currencies())))
    ends = (
        []
        if currency is None
        else draw(st.lists(st.integers(0, MAX_MINOR), min_size=2, max_size=2).map(sorted))
    )
    since = draw(st.none() | DAYS | MOMENTS)
    until = draw(st.none() | DAYS | MOMENTS)
    if since is not None and until is not None and until <= since:
        until = since + timedelta(days=1)
    return PaymentSearch(
        state=draw(st.none() | st.sampled_from(PaymentState)),
        operation=draw(st.sampled_from([None, "createQROrder", "retailPay", "linkPayCreate"])),
        currency=currency,
        least_minor=ends[0] if ends and draw(st.booleans()) else None,
        most_minor=ends[1] if ends and draw(st.booleans()) else None,
        created_from=since,
        created_until=until,
        store=draw(st.none() | st.from_regex(r"[!-~äß☂]{1,64}", fullmatch=True)),
    )


@given(searches())
def test_a_search_is_read_back_from_its_query_string_as_it_was(search):
    query = {
        name: values[0]
        for name, values in parse_qs(search.to_query(), strict_parsing=bool(search.to_query())).items()
    }
    assert set(query) <= set(FIELDS)
    assert read(query) == (search, {})


@given(st.dictionaries(st.sampled_from(FIELDS), st.text(max_size=80)))
def test_whatever_is_typed_is_read_or_told(fields):
    search, errors = read(fields)
    assert set(errors) <= set(FIELDS)
    assert read(search.to_fields()) == (search, {})
