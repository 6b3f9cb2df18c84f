"""The charts of the operator's overview: what is drawn of the figures that the processes write."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from payaccept.domain.delivery import AttemptKind
from payaccept.domain.health import BEYOND, Figure, Span, quantile
from payaccept.domain.payment import PaymentState
from payaccept.portal.sparklines import Series, Sparkline, draw
from payaccept.portal.webhook_views import duration
from payaccept.wire.codes import ResultCode, ResultStatus

_GOOD, _BAD, _WARN, _PLAIN, _SECOND = "good", "bad", "warn", "tint0", "tint1"
_OURS: Final = {code for code in ResultCode if code.meaning.status is ResultStatus.U}
_MS: Final = 1000

Reading = Callable[[Span], float | None]
Written = Callable[[float], str]


def charts_of(spans: Sequence[Span], step_min: int) -> list[Sparkline]:
    """Return all charts of whole spans, each of so many minutes."""

    def per_minute(figure: Figure, wanted: Callable[[str], bool] = lambda _: True) -> Reading:
        return lambda span: _sum(span.figures.get(figure, {}), wanted) / step_min

    def state(figure: Figure, label: str = "") -> Reading:
        return lambda span: float(span.of(figure, label))

    def age(figure: Figure, label: str = "") -> Reading:
        return lambda span: span.of(figure, label) / _MS

    def share(figure: Figure, part: float) -> Reading:
        return lambda span: quantile(span.figures.get(figure, {}), part)

    charts = [
        (
            "Requests",
            "in a minute",
            _rate,
            [
                ("Accepted", _GOOD, per_minute(Figure.REQUESTS, _is_accepted)),
                ("Refused", _WARN, per_minute(Figure.REQUESTS, _is_refusal)),
                ("Our faults", _BAD, per_minute(Figure.REQUESTS, lambda code: code in _OURS)),
            ],
        ),
        (
            "Request to answer",
            "half of them, and 99 of 100",
            _time,
            [
                ("50 %", _PLAIN, share(Figure.REQUEST_TIMES, 0.5)),
                ("99 %", _SECOND, share(Figure.REQUEST_TIMES, 0.99)),
            ],
        ),
        (
            "Payments made final",
            "in a minute",
            _rate,
            [
                ("Paid", _GOOD, per_minute(Figure.SETTLED, lambda result: result == PaymentState.SUCCESS)),
                ("Failed", _WARN, per_minute(Figure.SETTLED, lambda result: result != PaymentState.SUCCESS)),
            ],
        ),
        (
            "Webhook attempts",
            "in a minute",
            _rate,
            [
                ("Acknowledged", _GOOD, per_minute(Figure.ATTEMPTS, _is(AttemptKind.ACKNOWLEDGED))),
                ("Refused", _WARN, per_minute(Figure.ATTEMPTS, _is(AttemptKind.REFUSED))),
                ("No answer", _BAD, per_minute(Figure.ATTEMPTS, _is(AttemptKind.UNREACHABLE))),
            ],
        ),
        (
            "Commit to first attempt",
            "half of them, and 99 of 100",
            _time,
            [
                ("50 %", _PLAIN, share(Figure.FIRST_ATTEMPTS, 0.5)),
                ("99 %", _SECOND, share(Figure.FIRST_ATTEMPTS, 0.99)),
            ],
        ),
        (
            "Commit to acknowledged",
            "half of them, and 99 of 100",
            _time,
            [
                ("50 %", _PLAIN, share(Figure.ACKNOWLEDGED, 0.5)),
                ("99 %", _SECOND, share(Figure.ACKNOWLEDGED, 0.99)),
            ],
        ),
        (
            "Deliveries to be made",
            "at most at a time",
            _count,
            [
                ("Due", _PLAIN, state(Figure.DELIVERIES, "due")),
                ("Leased", _GOOD, state(Figure.DELIVERIES, "leased")),
                ("Waiting", _SECOND, state(Figure.DELIVERIES, "waiting")),
            ],
        ),
        (
            "Oldest delivery that is due",
            "by the breaker of its destination",
            _time,
            [
                ("Answers", _PLAIN, age(Figure.OLDEST_DUE, "closed")),
                ("Failing", _BAD, age(Figure.OLDEST_DUE, "open")),
            ],
        ),
        (
            "Failing destinations",
            "at most at a time",
            _count,
            [
                ("Failing", _WARN, state(Figure.LANES, "failing")),
                ("Not sent to", _BAD, state(Figure.LANES, "open")),
            ],
        ),
        (
            "Dead deliveries",
            "there are, and died in a minute",
            _count,
            [
                ("There are", _PLAIN, state(Figure.DELIVERIES, "dead")),
                ("Died", _BAD, per_minute(Figure.DIED)),
            ],
        ),
    ]
    return [_drawn(title, hint, written, series, spans) for title, hint, written, series in charts]


def _drawn(
    title: str,
    hint: str,
    written: Written,
    series: Sequence[tuple[str, str, Reading]],
    spans: Sequence[Span],
) -> Sparkline:
    made = []
    greatest = None
    for label, tint, reading in series:
        values = [reading(span) for span in spans]
        known = [value for value in values if value is not None]
        most = max(known, default=None)
        greatest = most if greatest is None else max(greatest, most or 0.0)
        latest = values[-1] if values else None
        made.append(
            Series(
                label=label,
                tint=tint,
                values=values,
                latest=_said(latest, written),
                most=_said(most, written),
            )
        )
    return draw(title, hint, made, _said(greatest, written))


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


def _is(kind: AttemptKind) -> Callable[[str], bool]:
    return lambda label: label == kind


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
