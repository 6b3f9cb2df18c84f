"""Which currencies are money here, and how many digits their minor units have."""

import re

import pytest

from payaccept.domain.money import (
    _CODES_BY_DIGITS,
    AmountUnreadable,
    active_currencies,
    currency_problem,
    in_major_units,
    in_minor_units,
    minor_digits,
)


def test_the_table_is_a_maintained_one_of_active_codes():
    codes = active_currencies()
    assert 140 < len(codes) < 180
    assert all(re.fullmatch("[A-Z]{3}", code) for code in codes)


@pytest.mark.parametrize(
    "code", ["EUR", "USD", "JPY", "KWD", "CHF", "GBP", "CNY", "XOF", "XAF", "XPF", "XCD"]
)
def test_money_in_use_is_taken(code):
    assert currency_problem(code) is None


@pytest.mark.parametrize(
    "code",
    [
        "DEM",
        "FRF",
        "HRK",
        "XXX",
        "XTS",
        "XAU",
        "XDR",
        "XBA",
        "XSU",
        "AAA",
        "BTC",
        "eur",
        "",
        "EU",
        "EURO",
        "978",
    ],
)
def test_what_is_no_money_or_no_longer_is_not(code):
    assert currency_problem(code) == f"{code} is not an active ISO 4217 currency code"


@pytest.mark.parametrize(
    ("code", "digits", "major"),
    [
        ("EUR", 2, "12345.67"),
        ("JPY", 0, "1234567"),
        ("KRW", 0, "1234567"),
        ("KWD", 3, "1234.567"),
        ("BHD", 3, "1234.567"),
        ("CLF", 4, "123.4567"),
        ("ALL", 2, "12345.67"),
        ("IQD", 3, "1234.567"),
        ("HUF", 2, "12345.67"),
        ("ISK", 0, "1234567"),
    ],
)
def test_minor_units_are_those_of_iso_4217(code, digits, major):
    assert minor_digits(code) == digits
    assert str(in_major_units(code, 1_234_567)) == major


def test_every_currency_with_other_than_two_digits_is_money():
    unusual = {code for code in active_currencies() if minor_digits(code) != 2}
    assert len(unusual) == 26
    assert {code for codes in _CODES_BY_DIGITS.values() for code in codes.split()} == unusual


@pytest.mark.parametrize("code", sorted(active_currencies()))
@pytest.mark.parametrize("amount_minor", [1, 99, 100, 1250, 123_456_789, 999_999_999_999])
def test_an_amount_in_major_units_is_read_back(code, amount_minor):
    major = in_major_units(code, amount_minor)
    assert in_minor_units(code, str(major)) == amount_minor
    assert in_minor_units(code, f"{major:,}") == amount_minor


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", ",", "1,2,3", "12.", "1 2", "--1", "1e3", "0x10", "NaN", "\N{DEVANAGARI DIGIT ONE}"],
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(AmountUnreadable):
        in_minor_units("EUR", text)
