"""A merchant's reports: what its days came to, and files for its bookkeeping."""

from collections.abc import AsyncIterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.response import Stream
from msgspec import Struct

from payaccept.domain import payment_search
from payaccept.domain.totals import (
    BY_DAY_UNTIL_DAYS,
    LONGEST_DAYS,
    SETTLED_AFTER,
    CurrencyReport,
    DayMalformed,
    DaySpan,
    day_of,
    is_complete,
    last_days,
    parse_day,
)
from payaccept.domain.user import Membership, Permission
from payaccept.operations.reports import export
from payaccept.portal import charts
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.amounts import write_amount
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, go, page
from payaccept.portal.services import Services
from payaccept.wire.codes import ResultCode

SPANS: Final = (7, 30, 90)
USUAL_SPAN: Final = 30
FILES_SHOWN: Final = 7
REASONS_SHOWN: Final = 6
OPERATIONS: Final = {"createQROrder": "QR orders", "retailPay": "At the till", "linkPayCreate": "By link"}
_CSV: Final = "text/csv"
_DAY: Final = "A day is written like 2026-01-31."


class Reason(Struct, frozen=True):
    """Why payments failed: the code, what it means, how many, and which part of all that failed, percent."""

    code: str
    meaning: str
    payments: int
    share: float


class File(Struct, frozen=True):
    """A day whose reconciliation file can be had."""

    day: date
    is_complete: bool
    sums: tuple[str, ...]


@get("/m/{client_id:str}/reports", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Page:
    """Show what a span of days came to, in one currency."""
    return await _show(request, services, membership)


@get("/m/{client_id:str}/reports/payments", guards=[member(Permission.VIEW)])
async def payments_file(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Send the payments of a search as CSV."""
    search, errors = payment_search.read(request.query_params)
    if errors:  # the list says what is wrong
        return go(
            request,
            f"/m/{membership.client_id}/payments?{urlencode(list(request.query_params.multi_items()))}",
        )
    now = services.clock()
    first = "" if search.created_from is None else f"-from-{day_of(search.created_from)}"
    last = day_of(now)
    if search.created_until is not None:  # which is not included itself
        last = min(last, day_of(search.created_until - timedelta(microseconds=1)))
    name = f"payments-{membership.client_id}{first}-until-{last}.csv"
    return await _file(export(services.payment_lists, membership.client_id, search), name)


@get("/m/{client_id:str}/reports/reconciliation", guards=[member(Permission.VIEW)])
async def reconciliation_file(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Send what was captured on a day as CSV; of a day that is not complete, what there is."""
    now = services.clock()
    try:
        day = parse_day(request.query_params.get("day", ""))
    except DayMalformed:
        return await _show(request, services, membership, day_problem=_DAY)
    if day > day_of(now):
        return await _show(request, services, membership, day_problem="That day has not begun.")
    merchant = await services.merchants.get(membership.client_id)
    rest = "" if is_complete(day, now) else "-so-far"
    name = f"reconciliation-{membership.client_id}-{day}{rest}.csv"
    return await _file(services.reports.reconcile(merchant, day, now, so_far=True), name)


async def _show(
    request: PortalRequest, services: Services, membership: Membership, *, day_problem: str | None = None
) -> Page:
    now = services.clock()
    asked = request.query_params
    span, form, days = _span(asked, now)
    form.values["day"] = asked.get("day", "")[:10]
    form.check("day", day_problem)
    reports = await services.reports.report(membership.client_id, span)
    shown = next((one for one in reports if one.currency == asked.get("currency")), None)
    shown = shown or next(iter(reports), None)
    recent = await services.reports.report(membership.client_id, last_days(FILES_SHOWN, now))
    return page(
        request,
        "reports/reports.html",
        form=form,
        status=200 if form.is_valid else 422,
        span=span,
        days=days,
        spans=SPANS,
        reports=reports,
        shown=shown,
        chart=None if shown is None else charts.chart_of(shown.periods, _writer(shown.currency)),
        amount=write,
        percent=charts.percent,
        called=charts.called,
        write_day=charts.write_day,
        by="day" if span.days <= BY_DAY_UNTIL_DAYS else "week",
        operations=OPERATIONS,
        reasons=[] if shown is None else _reasons(shown),
        files=_files(recent, now),
        settled_minutes=SETTLED_AFTER // timedelta(minutes=1),
    )


async def _file(pieces: AsyncIterator[bytes], name: str) -> Stream:
    """Send a file as it is made. What goes wrong before its first piece is told by a page."""
    first = await anext(pieces)

    async def all_of_it() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return Stream(
        all_of_it(), media_type=_CSV, headers={"content-disposition": f'attachment; filename="{name}"'}
    )


def write(currency: str, amount_minor: int) -> str:
    """Write an amount as these pages do, which are in English."""
    return write_amount(currency, amount_minor, "en")


def _writer(currency: str) -> charts.WriteAmount:
    return lambda amount_minor: write(currency, amount_minor)


def _span(asked: Mapping[str, str], now: datetime) -> tuple[DaySpan, Form, int | None]:
    """Return the span that is asked for; when it is one of those that are offered, how many days it has."""
    form = Form({name: asked.get(name, "") for name in ("from", "until")})
    usual = last_days(USUAL_SPAN, now)
    if not any(form.values.values()):
        days = next((count for count in SPANS if str(count) == asked.get("days")), USUAL_SPAN)
        span = last_days(days, now)
        form.values |= {"from": str(span.first), "until": str(span.last)}
        return span, form, days
    last = _read_day(form, "until", usual.last)
    first = _read_day(form, "from", date.fromordinal(max(1, last.toordinal() - USUAL_SPAN + 1)))
    if form.is_valid:
        span = DaySpan(first, last)
        if span.days < 1:
            form.fail("until", "It ends before it begins.")
        elif span.days > LONGEST_DAYS:
            form.fail("from", f"At most {LONGEST_DAYS} days at a time.")
        else:
            return span, form, None
    return usual, form, None


def _read_day(form: Form, name: str, usual: date) -> date:
    text = form.text(name, max_length=10)
    try:
        return parse_day(text) if text else usual
    except DayMalformed:
        form.fail(name, _DAY)
        return usual


def _reasons(report: CurrencyReport) -> list[Reason]:
    failed = report.whole.failed
    return [
        Reason(code, _meaning(code), payments, round(100 * payments / failed, 1))
        for code, payments in report.whole.failures.most_common(REASONS_SHOWN)
    ]


def _meaning(code: str) -> str:
    return ResultCode(code).meaning.message if code in set(ResultCode) else ""


def _files(recent: list[CurrencyReport], now: datetime) -> list[File]:
    """Return the last days, the latest first."""
    days = [day_of(now) - timedelta(days=back) for back in range(FILES_SHOWN)]
    return [
        File(
            day=day,
            is_complete=is_complete(day, now),
            sums=tuple(
                write(report.currency, period.captured_minor)
                for report in recent
                for period in report.periods
                if period.first == day and period.succeeded
            ),
        )
        for day in days
    ]


routes = (show, payments_file, reconciliation_file)
