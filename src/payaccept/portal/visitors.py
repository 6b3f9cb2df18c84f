"""A limit on what one address may ask of the pages that are open to everybody.

In this process's memory, and generous: many customers may share an address. It bounds what guessing ids,
or making codes, can cost.
"""

import ipaddress
from datetime import datetime, timedelta
from typing import Final

from payaccept.portal.errors import TooManyAttempts

WINDOW: Final = timedelta(seconds=60)
BUDGET: Final = 3000
MAX_ADDRESSES: Final = 10_000

STATUS: Final = 1
"""How a payment stands: a tab asks some thirty times a minute."""
PAGE: Final = 5
MADE: Final = 25
"""What writes a row."""
MISSED: Final = 25
"""An id that no payment has."""


class Visitors:
    """Counts what each address has cost in this minute."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._window_ends: datetime | None = None
        self._spent: dict[str, int] = {}

    def charge(self, address: str, cost: int, now: datetime) -> None:
        """Count a cost. Raises: TooManyAttempts, and counts nothing more, once the minute's budget is spent."""
        ends = self._window_ends
        if ends is None or now >= ends or len(self._spent) >= MAX_ADDRESSES:
            self._spent.clear()
            self._window_ends = ends = now + WINDOW
        who = _network_of(address)
        spent = self._spent.get(who, 0)
        if spent >= self._budget:
            raise TooManyAttempts(
                "Too many pages were opened from your network in this minute.",
                max(1, int((ends - now).total_seconds())),
            )
        self._spent[who] = spent + cost


def _network_of(address: str) -> str:
    """Return what one visitor has: an IPv4 address, or the 64 bits of an IPv6 network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address) or parsed.ipv4_mapped:
        return address
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
