"""Which currencies are money here, and how many digits their minor units have."""

import re
from decimal import Decimal
from functools import cache
from typing import Final

import pycountry

# In the ISO 4217 table, but without minor units: metals, units of account, testing, "no currency".
_NOT_TENDER: Final = frozenset(
    {"XAG", "XAU", "XBA", "XBB", "XBC", "XBD", "XDR", "XPD", "XPT", "XSU", "XTS", "XUA", "XXX"}
)

# ISO 4217, table A.1, column "minor unit"; all others have two. The digits of CLDR, which locale libraries use, tell
# how prices are usually written (without any for ALL, say), not what an integer of minor units means.
_CODES_BY_DIGITS: Final = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_DIGITS: Final = {code: digits for digits, codes in _CODES_BY_DIGITS.items() for code in codes.split()}


# Figures in threes (in India also in twos), parted by one and the same mark.
_GROUPED: Final = re.compile(r"\d{1,3}(?P<mark>[.,' \u2019])(?:\d{2,3}(?P=mark))*\d{3}", re.ASCII)
_GROUP: Final = 3
_BLANKS: Final = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " "})


class AmountUnreadable(ValueError):
    """A text is no amount of its currency; the message says why."""


@cache
def active_currencies() -> frozenset[str]:
    """Return the active ISO 4217 codes in which an amount of minor units can be given."""
    return frozenset(currency.alpha_3 for currency in pycountry.currencies) - _NOT_TENDER


def currency_problem(code: str) -> str | None:
    """Say what is wrong with a currency code, or None."""
    return None if code in active_currencies() else f"{code} is not an active ISO 4217 currency code"


def minor_digits(code: str) -> int:
    """Return how many digits of an amount are minor units: 2 for EUR, 0 for JPY, 3 for KWD."""
    return _DIGITS.get(code, 2)


def in_major_units(code: str, amount_minor: int) -> Decimal:
    """Return an amount as people count it: 19.99 for 1999 cents."""
    return Decimal(amount_minor).scaleb(-minor_digits(code))


def in_minor_units(code: str, written: str) -> int:
    """Read an amount as people write it, `12.50`, `12,5`, `1,234.50`, `1 234,50`: 1250 for twelve euro fifty.

    Raises: AmountUnreadable.
    """
    digits = minor_digits(code)
    text = written.translate(_BLANKS).strip()
    place = max(text.rfind("."), text.rfind(","))
    whole, fraction = (text, "") if place < 0 else (text[:place], text[place + 1 :])
    is_group = place >= 0 and len(fraction) == _GROUP and _GROUPED.fullmatch(text) is not None
    if is_group and digits == _GROUP and text[place] == "," and whole.isdecimal():
        raise AmountUnreadable(
            f"{written} could be meant in two ways: write {whole}.{fraction} or {whole}{fraction}"
        )
    if is_group and not (digits >= _GROUP and text[place] == "." and whole.isdecimal()):
        whole, fraction = text, ""
    if not (_is_figure(whole) and _is_figures(fraction)) or (place >= 0 and not fraction and whole != text):
        raise AmountUnreadable(f"{written[:32]} is no amount: write it like {in_major_units(code, 1250)}")
    if len(fraction) > digits:
        has = f"has {digits} decimals" if digits else "has no decimals"
        raise AmountUnreadable(f"{code} {has}: {written[:32]} has {len(fraction)}")
    return int("".join(figure for figure in whole if figure.isdecimal()) + fraction.ljust(digits, "0"))


def _is_figure(text: str) -> bool:
    return (_is_figures(text) and bool(text)) or _GROUPED.fullmatch(text) is not None


def _is_figures(text: str) -> bool:
    return text.isascii() and (text.isdecimal() or not text)
