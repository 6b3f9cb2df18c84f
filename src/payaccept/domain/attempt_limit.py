"""Limits on guessing that slow a stranger down and leave the owner of an account alone.

Each limit is a bucket that leaks: an attempt adds one, a drop leaks every `drain_s` seconds, and while there
is no room for one more, an attempt is refused before anything is checked. What turns out right is taken out
again. So nobody is locked out for a fixed time, and hammering at a full bucket does not keep it full.

A browser that has signed in to the account before, and can prove it, has a bucket of its own: whatever
strangers do elsewhere, it is let in. Strangers share three: for this account from this address, for this
account from everywhere, and for this address at any account.
"""

import ipaddress
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

SLOTS: Final = 1 << 20
_IPV6_SITE_BITS: Final = 64  # one customer's network has that many addresses to try from


class Limit(Struct, frozen=True):
    """How many attempts fit, and how soon each is forgotten."""

    capacity: int
    drain_s: float


class Kind(StrEnum):
    """What is counted."""

    PAIR = "pair"  # password, by a stranger: account and address
    ACCOUNT = "account"  # password, by strangers: account
    ADDRESS = "address"  # password, by strangers: address
    DEVICE = "device"  # password, by a known device
    CODE = "code"  # second factor, by strangers: account
    DEVICE_CODE = "device code"  # second factor, by a known device
    CONFIRM = "confirm"  # password, by who is signed in
    SIGN_UP = "sign up"  # new accounts: address
    MAIL = "mail"  # links sent by mail: account
    NOTED = "noted"  # refusals that the owner is told of: account


# The second factor is 6 digits, of which 3 hold at a time: 10 an hour are one chance in 1400 a day, for somebody
# who has the password already. A password that passes our rules is far beyond 30 guesses an hour.
LIMITS: Final[dict[Kind, Limit]] = {
    Kind.PAIR: Limit(5, 60),
    Kind.ACCOUNT: Limit(30, 120),
    Kind.ADDRESS: Limit(30, 30),
    Kind.DEVICE: Limit(10, 60),
    Kind.CODE: Limit(5, 360),
    Kind.DEVICE_CODE: Limit(5, 120),
    Kind.CONFIRM: Limit(10, 60),
    Kind.SIGN_UP: Limit(20, 180),
    Kind.MAIL: Limit(3, 1200),
    Kind.NOTED: Limit(10, 3600),
}


class Bucket(Struct, frozen=True, order=True):
    """One bucket: a kind, and the slot of whom it counts."""

    kind: Kind
    slot: int


class Level(Struct, frozen=True):
    """How full a bucket was."""

    level: float
    at: datetime


def level_at(before: Level, limit: Limit, now: datetime) -> float:
    """Return how full a bucket is by now."""
    leaked = max(0.0, (now - before.at).total_seconds()) / limit.drain_s
    return max(0.0, before.level - leaked)


def wait_s(before: Level, limit: Limit, now: datetime) -> float:
    """Return after how many seconds there is room for one more attempt; 0 when there is."""
    return max(0.0, (level_at(before, limit, now) + 1 - limit.capacity) * limit.drain_s)


def address_block(address: str) -> str:
    """Return whose address this is: itself, or the network that one IPv6 customer is given."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, _IPV6_SITE_BITS), strict=False))
    return str(parsed)
