"""Which currencies are money here."""

from functools import cache
from typing import Final

import pycountry

# In the ISO 4217 table, but without minor units: metals, units of account, testing, "no currency".
_NOT_TENDER: Final = frozenset(
    {"XAG", "XAU", "XBA", "XBB", "XBC", "XBD", "XDR", "XPD", "XPT", "XSU", "XTS", "XUA", "XXX"}
)


@cache
def active_currencies() -> frozenset[str]:
    """Return the active ISO 4217 codes in which an amount of minor units can be given."""
    return frozenset(currency.alpha_3 for currency in pycountry.currencies) - _NOT_TENDER


def currency_problem(code: str) -> str | None:
    """Say what is wrong with a currency code, or None."""
    return None if code in active_currencies() else f"{code} is not an active ISO 4217 currency code"
