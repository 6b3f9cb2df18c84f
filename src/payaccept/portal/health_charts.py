"""The charts of the operator's overview: what is drawn of the figures that the processes write."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct

from payaccept.domain.delivery import AttemptKind
from payaccept.domain.health import BEYOND, Figure, Span, quantile
from payaccept.domain.payment import PaymentState
from payaccept.portal.sparklines import Series, Sparkline, draw
from payaccept.portal.webhook_views import duration
from payaccept.wire.codes import ResultCode, ResultStatus

_GOOD, _BAD, _WARN, _PLAIN, _SECOND = "good", "bad", "warn", "tint0", "tint1"
_OURS: Final = {code for code in ResultCode if code.meaning.status is ResultStatus.U}
_MS: Final = 1000
_SHARES: Final = "half of them, and 99 of 100"
_AT_MOST: Final = "at most at a time"

Reading = Callable[[Span], float | None]
Written = Callable[[float], str]


class _Plan(Struct, frozen=True):
    """A chart to be drawn: its title, what its hint says, how its values are written, and its series."""

    title: str
    hint: str
    written: Written
    series: tuple[tuple[str, str, Reading], ...]


def charts_of(spans: Sequence[Span], step_min: int) -> list[Sparkline]:
    """Return all charts of whole spans, each of so many minutes."""
    plans = [*_of_requests(step_min), *_of_webhooks(step_min), *_of_what_is_left(step_min)]
    return [_drawn(plan, spans) for plan in plans]


def _of_requests(step_min: int) -> list[_Plan]:
    def rate(figure: Figure, wanted: Callable[[str], bool]) -> Reading:
        return _per_minute(figure, step_min, wanted)

    return [
        _Plan(
            "Requests",
            "in a minute",
            _rate,
            (
                ("Accepted", _GOOD, rate(Figure.REQUESTS, _is_accepted)),
                ("Refused", _WARN, rate(Figure.REQUESTS, _is_refusal)),
                ("Our faults", _BAD, rate(Figure.REQUESTS, lambda code: code in _OURS)),
            ),
        ),
        _Plan("Request to answer", _SHARES, _time, _shares(Figure.REQUEST_TIMES)),
        _Plan(
            "Payments made final",
            "in a minute",
            _rate,
            (
                ("Paid", _GOOD, rate(Figure.SETTLED, lambda result: result == PaymentState.SUCCESS)),
                ("Failed", _WARN, rate(Figure.SETTLED, lambda result: result != PaymentState.SUCCESS)),
            ),
        ),
    ]


def _of_webhooks(step_min: int) -> list[_Plan]:
    def rate(kind: AttemptKind) -> Reading:
        return _per_minute(Figure.ATTEMPTS, step_min, lambda label: label == kind)

    return [
        _Plan(
            "Webhook attempts",
            "in a minute",
            _rate,
            (
                ("Acknowledged", _GOOD, rate(AttemptKind.ACKNOWLEDGED)),
                ("Refused", _WARN, rate(AttemptKind.REFUSED)),
                ("No answer", _BAD, rate(AttemptKind.UNREACHABLE)),
            ),
        ),
        _Plan("Commit to first attempt", _SHARES, _time, _shares(Figure.FIRST_ATTEMPTS)),
        _Plan("Commit to acknowledged", _SHARES, _time, _shares(Figure.ACKNOWLEDGED)),
    ]


def _of_what_is_left(step_min: int) -> list[_Plan]:
    deliveries, lanes, oldest = Figure.DELIVERIES, Figure.LANES, Figure.OLDEST_DUE
    return [
        _Plan(
            "Deliveries to be made",
            _AT_MOST,
            _count,
            (
                ("Due", _PLAIN, _state(deliveries, "due")),
                ("Leased", _GOOD, _state(deliveries, "leased")),
                ("Waiting", _SECOND, _state(deliveries, "waiting")),
            ),
        ),
        _Plan(
            "Oldest delivery that is due",
            "by whether its destination answers",
            _time,
            (("Answers", _PLAIN, _age(oldest, "closed")), ("Failing", _BAD, _age(oldest, "open"))),
        ),
        _Plan(
            "Failing destinations",
            _AT_MOST,
            _count,
            (("Failing", _WARN, _state(lanes, "failing")), ("Breaker open", _BAD, _state(lanes, "open"))),
        ),
        _Plan(
            "Dead deliveries",
            "there are, and died in a minute",
            _count,
            (
                ("There are", _PLAIN, _state(deliveries, "dead")),
                ("Died", _BAD, _per_minute(Figure.DIED, step_min)),
            ),
        ),
        _Plan("Events without a number", _AT_MOST, _count, (("Waiting", _PLAIN, _state(Figure.UNNUMBERED)),)),
        _Plan(
            "Payment due the longest",
            "to be completed, or to expire",
            _time,
            (("Overdue", _PLAIN, _age(Figure.OVERDUE)),),
        ),
    ]


def _per_minute(figure: Figure, step_min: int, wanted: Callable[[str], bool] = lambda _: True) -> Reading:
    return lambda span: _sum(span.figures.get(figure, {}), wanted) / step_min


def _state(figure: Figure, label: str = "") -> Reading:
    return lambda span: float(span.of(figure, label))


def _age(figure: Figure, label: str = "") -> Reading:
    return lambda span: span.of(figure, label) / _MS


def _shares(figure: Figure) -> tuple[tuple[str, str, Reading], ...]:
    def share(part: float) -> Reading:
        return lambda span: quantile(span.figures.get(figure, {}), part)

    return (("50 %", _PLAIN, share(0.5)), ("99 %", _SECOND, share(0.99)))


def _drawn(plan: _Plan, spans: Sequence[Span]) -> Sparkline:
    made = []
    greatest = None
    for label, tint, reading in plan.series:
        values = [reading(span) for span in spans]
        most = max((value for value in values if value is not None), default=None)
        if most is not None:
            greatest = most if greatest is None else max(greatest, most)
        latest = _said(values[-1] if values else None, plan.written)
        made.append(
            Series(label=label, tint=tint, values=values, latest=latest, most=_said(most, plan.written))
        )
    return draw(plan.title, plan.hint, made, _said(greatest, plan.written))


def results_of(spans: Sequence[Span]) -> list[tuple[str, int, str]]:
    """Return how many requests had each result, the most frequent first, and how good that is."""
    totals: dict[str, int] = {}
    for span in spans:
        for code, count in span.figures.get(Figure.REQUESTS, {}).items():
            totals[code] = totals.get(code, 0) + count
    return [
        (code, count, "bad" if code in _OURS else "warn" if _is_refusal(code) else "good")
        for code, count in sorted(totals.items(), key=lambda item: -item[1])
    ]


def quantiles_of(spans: Sequence[Span], figure: Figure) -> tuple[str, str] | None:
    """Return what half and 99 of 100 took over all spans; None where nothing was counted."""
    together: dict[str, int] = {}
    for span in spans:
        for label, count in span.figures.get(figure, {}).items():
            together[label] = together.get(label, 0) + count
    half, most = quantile(together, 0.5), quantile(together, 0.99)
    return None if half is None or most is None else (_time(half), _time(most))


def share_within(spans: Sequence[Span], figure: Figure, seconds: float) -> float | None:
    """Return which part lay within a bound of the distribution's; None where nothing was counted."""
    total = sum(span.total(figure) for span in spans)
    within = sum(
        count
        for span in spans
        for label, count in span.figures.get(figure, {}).items()
        if label != BEYOND and float(label) <= seconds
    )
    return within / total if total else None


def _sum(counts: Mapping[str, int], wanted: Callable[[str], bool]) -> float:
    return float(sum(count for label, count in counts.items() if wanted(label)))


def _is_accepted(code: str) -> bool:
    return not _is_refusal(code) and code not in _OURS


def _is_refusal(code: str) -> bool:
    known = ResultCode(code) if code in set(ResultCode) else None
    return known is not None and known.meaning.http >= 400 and known not in _OURS  # noqa: PLR2004


def _said(value: float | None, written: Written) -> str:
    return "none" if value is None else written(value)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"  # noqa: PLR2004


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _time(seconds: float) -> str:
    return duration(timedelta(seconds=seconds))
