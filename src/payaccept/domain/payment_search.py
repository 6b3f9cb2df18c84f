"""Which of its payments a merchant looks for: read from a query string, and written back as one."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Final, cast, get_args
from urllib.parse import urlencode

from msgspec import Struct

from payaccept.domain import identifiers
from payaccept.domain.money import AmountUnreadable, currency_problem, in_major_units, in_minor_units
from payaccept.domain.payment import PaymentState
from payaccept.wire import messages as m
from payaccept.wire import timestamps
from payaccept.wire.codes import ResultCode

FIELDS: Final = ("state", "operation", "currency", "amount", "from", "until", "store")
MAX_FIELD: Final = 64
MAX_MINOR: Final = 999_999_999_999

_OPERATIONS: Final = get_args(m.Operation)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_RANGE: Final = re.compile(r"\s*(?:\.\.|[-\u2010-\u2015\u2212])\s*")
_PRICED: Final = re.compile(
    r"(?P<before>[A-Za-z]{3}|[€£₹])?\s*(?P<amount>[^A-Za-z€£₹]*?)\s*(?P<after>[A-Za-z]{3}|[€£₹])?", re.ASCII
)
_CODE_BY_SIGN: Final = {"€": "EUR", "£": "GBP", "₹": "INR"}
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)?Z?", re.ASCII)
_ONE_DAY: Final = timedelta(days=1)


class PaymentSearch(Struct, frozen=True, kw_only=True):
    """What is looked for; None stands for any.

    Amounts are minor units of `currency`, which is there when they are, and both ends are included. Of the
    times, `created_until` is the first that is not included any more.
    """

    state: PaymentState | None = None
    operation: m.Operation | None = None
    currency: str | None = None
    least_minor: int | None = None
    most_minor: int | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    store: str | None = None

    @property
    def is_selective(self) -> bool:
        """Whether payments have to be looked at one by one: a span of time alone is found by its ids."""
        return any((self.state, self.operation, self.currency, self.store))

    @property
    def first_id(self) -> str:
        """What no id of a payment looked for is less than."""
        return identifiers.PAYMENT if self.created_from is None else _least(self.created_from)

    @property
    def end_id(self) -> str:
        """What every id of a payment looked for is less than."""
        # A letter behind those of any time.
        return f"{identifiers.PAYMENT}g" if self.created_until is None else _least(self.created_until)

    def to_query(self) -> str:
        """Write it as a query string, which `read` reads as the same search; empty when anything is looked for."""
        return urlencode(self.to_fields())

    def to_fields(self) -> dict[str, str]:
        """Write it as the fields of a form, those left out that stand for any."""
        written = {
            "state": self.state or "",
            "operation": self.operation or "",
            "currency": self.currency or "",
            "amount": self._write_amount(),
            "from": "" if self.created_from is None else _write_time(self.created_from),
            "until": "" if self.created_until is None else _write_time(self.created_until, is_end=True),
            "store": self.store or "",
        }
        return {name: value for name, value in written.items() if value}

    def _write_amount(self) -> str:
        if self.currency is None or (self.least_minor is None and self.most_minor is None):
            return ""
        ends = ["" if end is None else str(in_major_units(self.currency, end)) for end in self._ends]
        return ends[0] if ends[0] == ends[1] else "-".join(ends)

    @property
    def _ends(self) -> tuple[int | None, int | None]:
        return self.least_minor, self.most_minor


class ListedPayment(Struct, frozen=True, kw_only=True):
    """What a list tells of a payment."""

    payment_id: str
    payment_request_id: str
    operation: m.Operation
    state: PaymentState
    failure_code: ResultCode | None
    currency: str
    amount_minor: int
    external_store_id: str | None
    event_id: str | None
    created_at: datetime
    final_at: datetime | None


def read(fields: Mapping[str, str]) -> tuple[PaymentSearch, dict[str, str]]:
    """Read a search as somebody has typed it; returns it with what is wrong, by field.

    A field in which something is wrong is left out of the search.
    """
    errors: dict[str, str] = {}
    given = {name: fields.get(name, "").strip() for name in FIELDS}
    for name, value in given.items():
        if len(value) > MAX_FIELD or _CONTROL.search(value):
            errors[name] = f"At most {MAX_FIELD} characters, on one line."
            given[name] = ""
    search = _read_kinds(given["state"], given["operation"], errors)
    try:
        currency, amount = _read_currency(given["currency"].upper(), given["amount"])
        if currency:
            search["currency"] = currency
        if amount:
            search["least_minor"], search["most_minor"] = _read_range(currency, amount)
    except _Wrong as wrong:
        errors[wrong.field] = str(wrong)
    search |= _read_times(given["from"], given["until"], errors)
    if given["store"]:
        search["store"] = given["store"]
    return PaymentSearch(**search), errors  # type: ignore[arg-type]


class _Wrong(ValueError):
    """Something is wrong in a field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _read_kinds(state: str, operation: str, errors: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    if state in set(PaymentState):
        found["state"] = PaymentState(state)
    elif state:
        errors["state"] = f"A payment is {', '.join(PaymentState)}."
    if operation in _OPERATIONS:
        found["operation"] = cast("m.Operation", operation)
    elif operation:
        errors["operation"] = f"A payment is made by {', '.join(_OPERATIONS)}."
    return found


def _read_currency(currency: str, amount: str) -> tuple[str, str]:
    """Return the currency, which may be named beside the amount (`12.50 EUR`, `€12.50`), and the rest of that."""
    named = ""
    match = _PRICED.fullmatch(amount)
    if match is not None and not (match["before"] and match["after"]):
        sign = match["before"] or match["after"] or ""
        named, amount = _CODE_BY_SIGN.get(sign, sign.upper()), match["amount"]
    if currency and named not in {"", currency}:
        raise _Wrong("amount", f"This is in {named}, and the currency is {currency}.")
    problem = currency_problem(currency or named) if currency or named else None
    if problem is not None:
        raise _Wrong("currency" if currency else "amount", f"{problem}.")
    if amount and not (currency or named):
        raise _Wrong("currency", "An amount needs its currency: 12.50 is 1250 cents, but 12500 fils.")
    return currency or named, amount


def _read_range(currency: str, amount: str) -> tuple[int | None, int | None]:
    """Read an amount, or a range of amounts that may have no beginning, or no end."""
    ends = _RANGE.split(amount)
    if len(ends) > 2 or not any(ends):  # noqa: PLR2004
        raise _Wrong("amount", "Write one amount, like 12.50, or a range, like 10-20 or 100-.")
    try:
        least, most = (in_minor_units(currency, end) if end else None for end in (ends[0], ends[-1]))
    except AmountUnreadable as unreadable:
        raise _Wrong("amount", f"{unreadable}.") from None
    if max(least or 0, most or 0) > MAX_MINOR:
        raise _Wrong(
            "amount", f"No payment is of more than {in_major_units(currency, MAX_MINOR)} {currency}."
        )
    if least is not None and most is not None and least > most:
        raise _Wrong("amount", "The range ends below its beginning.")
    return least, most


def _read_times(since: str, until: str, errors: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for field, name, text in (("created_from", "from", since), ("created_until", "until", until)):
        try:
            if text:
                found[field] = _read_time(text, is_end=name == "until")
        except ValueError:
            errors[name] = "Write a day, 2026-03-01, or a time of it, 2026-03-01 14:30, in UTC."
    begins, ends = found.get("created_from"), found.get("created_until")
    if isinstance(begins, datetime) and isinstance(ends, datetime) and begins >= ends:
        errors["until"] = "It ends before it begins."
    return found


def _read_time(text: str, *, is_end: bool) -> datetime:
    """Read a day, meant to its end when it is an end, or a moment. Raises: ValueError."""
    if _DAY.fullmatch(text):
        day = datetime.fromisoformat(text).replace(tzinfo=UTC)
        try:
            return day + _ONE_DAY if is_end else day
        except OverflowError:
            raise ValueError(text) from None
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day_text, minute, second = match.groups()
    at = timestamps.parse(f"{day_text}T{minute}{second or ':00'}Z")
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _write_time(at: datetime, *, is_end: bool = False) -> str:
    if at.timetz() == time(tzinfo=UTC):
        return f"{(at - _ONE_DAY if is_end else at).date()}"
    return timestamps.write(at) if at.microsecond else timestamps.write_seconds(at)


def _least(at: datetime) -> str:
    return identifiers.least(identifiers.PAYMENT, at)
