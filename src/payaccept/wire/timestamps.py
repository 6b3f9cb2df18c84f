"""Instants as the protocol writes them: ISO 8601, UTC, a `Z` at the end."""

import re
from datetime import UTC, datetime

_SHAPE = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)


class TimestampMalformed(ValueError):
    """Not `YYYY-MM-DDThh:mm:ss[.fraction]Z`, or no real date."""


def parse(text: str) -> datetime:
    """Read an instant; whatever else a date parser might accept is refused.

    Returns: an aware UTC datetime, microseconds truncated.
    Raises: TimestampMalformed.
    """
    if _SHAPE.fullmatch(text) is None:
        raise TimestampMalformed("must look like 2026-01-31T23:59:59Z (UTC, with Z)")
    try:
        # Only the shape above: Python's own reader takes many others, and an hour 24 from 3.13 on.
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise TimestampMalformed(f"is no real date: {error}") from None


def write(at: datetime) -> str:
    """Write an instant with `Z` and milliseconds, as every answer and notification does."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_seconds(at: datetime) -> str:
    """Write an instant to the second: the shape of a Request-Time header."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
