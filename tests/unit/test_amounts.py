"""Amounts in the reader's way of writing them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.money import active_currencies, minor_digits
from payaccept.portal.amounts import LOCALES, name_of_currency, preferred_locale, write_amount


@pytest.mark.parametrize(
    ("header", "locale"),
    [
        ("de-CH,de;q=0.9,en;q=0.8", "de-CH"),
        ("de-LU,de;q=0.9", "de"),
        ("en;q=0.5, fr;q=0.9", "fr"),
        ("en;q=0.5,fr;q=0.5", "en"),
        ("de;q=0, fr", "fr"),
        ("pt-BR", "pt"),
        ("zh-TW", "zh-TW"),
        ("no", "nb"),
        ("iw", "he"),
        ("EN-gb", "en-GB"),
        ("", "en"),
        ("*", "en"),
        ("tlh", "en"),
        ("../../etc/passwd", "en"),
        ("de;q=nan", "en"),
        ("de;q=x", "en"),
        ("de;level=1", "de"),
    ],
)
def test_the_browsers_favourite_of_our_locales_is_taken(header, locale):
    assert preferred_locale(header) == locale


@given(st.text(max_size=400))
def test_whatever_is_sent_as_accept_language_gives_a_locale(header):
    assert preferred_locale(header) in LOCALES


@pytest.mark.parametrize("locale", LOCALES)
def test_every_locale_writes_every_currency_with_all_its_minor_digits(locale):
    for currency in sorted(active_currencies()):
        written = write_amount(currency, 1_234_567, locale)
        assert re.sub(r"\D", "", written) == "1234567"
        digits = minor_digits(currency)
        parts = re.findall(r"\d+", written)
        assert digits == 0 or len(parts[-1]) == digits


def test_letters_do_not_touch_digits():
    for locale in LOCALES:
        for currency in ("KWD", "CHF", "XOF"):
            assert not re.search(r"[^\W\d_]\d|\d[^\W\d_]", write_amount(currency, 125_000, locale))


def test_a_sign_that_is_not_the_code_is_explained():
    assert name_of_currency("EUR", "en") == "EUR, Euro"
    assert name_of_currency("KWD", "en") is None
