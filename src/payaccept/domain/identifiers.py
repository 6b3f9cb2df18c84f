"""Identifiers that are unguessable, ordered by time, and name the bucket their row lives in.

    pay_ 0193a1b2c3d4 7f 9c…   =   prefix, 48 bits of Unix milliseconds, 8 bits of bucket, 88 random bits

paymentId and acquirementId of one payment differ only in their prefix.
"""

import os
import re
from datetime import datetime
from typing import Final

_TAIL: Final = re.compile(r"[0-9a-f]{36}", re.ASCII)

PAYMENT: Final = "pay_"
ACQUIREMENT: Final = "acq_"
EVENT: Final = "evt_"


def new(prefix: str, bucket: int, at_ms: int) -> str:
    """Make an identifier; `at_ms` is Unix time in milliseconds."""
    return f"{prefix}{at_ms:012x}{bucket:02x}{os.urandom(11).hex()}"


def least(prefix: str, at: datetime) -> str:
    """Return what no identifier made from this moment on is less than, and every one made before it is."""
    return f"{prefix}{max(0, int(at.timestamp() * 1000)):012x}"


def is_event(text: str) -> bool:
    """Tell whether a text is written as an eventId."""
    return text[:4] == EVENT and _TAIL.fullmatch(text[4:]) is not None


def acquirement_of(payment_id: str) -> str:
    """Return the acquirementId of a payment."""
    return ACQUIREMENT + payment_id[len(PAYMENT) :]


def payment_of(text: str) -> str | None:
    """Return the paymentId that a paymentId or an acquirementId means; None if it is neither."""
    prefix, tail = text[:4], text[4:]
    if prefix not in {PAYMENT, ACQUIREMENT} or _TAIL.fullmatch(tail) is None:
        return None
    return PAYMENT + tail


def bucket_of(identifier: str) -> int:
    """Return the bucket that a well-formed identifier names."""
    return int(identifier[16:18], 16)
