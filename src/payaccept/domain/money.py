"""Which currencies are money here, and how many digits their minor units have."""

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
