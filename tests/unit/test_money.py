"""Which currencies are money here."""

import re

import pytest

from payaccept.domain.money import active_currencies, currency_problem


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
