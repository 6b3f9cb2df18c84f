"""Charts as SVG in a page, without a style, a script or a text of their own: geometry for `charts.html`.

One column of 10 units for each period. The panels stand above each other, a rem for 16 units, and are stretched to the
width there is; what is written beside them is HTML, so that it stays readable at any width.
"""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from msgspec import Struct

from payaccept.domain.totals import Period

COLUMN: Final = 10
BAR: Final = 8
HEAD: Final = 28
PLOT: Final = 80
GAP: Final = 12
_NICE_TENTHS: Final = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
_FLOORS: Final = (0.9, 0.8, 0.5, 0.0)

WriteAmount = Callable[[int], str]
"""Writes an amount of the chart's currency, given in minor units."""


class Panel(Struct, frozen=True, kw_only=True):
    """One chart. `paths` are (class, outline); `scale` is what its upper line stands for."""

    title: str
    scale: str
    legend: tuple[tuple[str, str], ...]
    paths: tuple[tuple[str, str], ...]
    line: float
    ground: float


class Column(Struct, frozen=True):
    """What is told of one period when somebody points at it."""

    x: int
    told: str


class Chart(Struct, frozen=True, kw_only=True):
    """Panels over the same periods, and the days that stand below them."""

    width: int
    height: int
    panels: tuple[Panel, ...]
    columns: tuple[Column, ...]
    days: tuple[str, ...]


def chart_of(periods: Sequence[Period], write_amount: WriteAmount) -> Chart:
    """Return the chart of what was captured, how many payments there were, and their success rate."""
    panels = (
        _captured(periods, 0, write_amount),
        _payments(periods, 1),
        _success_rate(periods, 2),
    )
    last = len(periods) - 1
    marked = sorted({round(part * last / 4) for part in range(5)}) if last > 4 else range(last + 1)  # noqa: PLR2004
    return Chart(
        width=len(periods) * COLUMN - (COLUMN - BAR),
        height=len(panels) * (HEAD + PLOT + GAP),
        panels=panels,
        columns=tuple(
            Column(place * COLUMN, _told(period, write_amount)) for place, period in enumerate(periods)
        ),
        days=tuple(short(periods[place].first) for place in marked),
    )


def nice_top(greatest: int) -> int:
    """Return the least round number that is not less, and not 0."""
    size: int = 10 ** (len(str(max(greatest, 1))) - 1)
    tops = (step * size // 10 for step in _NICE_TENTHS if step * size % 10 == 0)
    return next(top for top in tops if top >= greatest)


def short(day: date) -> str:
    """Write a day as it stands below a chart."""
    return f"{day.day} {day:%b}"


def write_day(day: date) -> str:
    """Write a day for people."""
    return f"{short(day)} {day.year}"


def called(period: Period) -> str:
    """Say which day a period is, or which days."""
    last = write_day(period.last)
    return last if period.first == period.last else f"{short(period.first)} to {last}"


def percent(rate: float | None) -> str:
    """Write a rate for people: whole when it is, and never 100 % when something is missing."""
    if rate is None:
        return "none"
    tenths = int(rate * 1000)
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{tenths / 10:.1f} %"


def _captured(periods: Sequence[Period], place: int, write_amount: WriteAmount) -> Panel:
    top = nice_top(max(period.captured_minor for period in periods))
    ground = _ground(place)
    bars = _bars([(ground, period.captured_minor / top) for period in periods])
    return _panel("Captured", write_amount(top), place, (("captured", bars),))


def _payments(periods: Sequence[Period], place: int) -> Panel:
    top = nice_top(max(period.payments for period in periods))
    ground = _ground(place)
    captured = _bars([(ground, period.succeeded / top) for period in periods])
    failed = _bars([(ground - period.succeeded / top * PLOT, period.failed / top) for period in periods])
    legend = (("succeeded", "captured"), ("failed", "failed"))
    return _panel("Payments", f"{top:,}", place, (("succeeded", captured), ("failed", failed)), legend)


def _success_rate(periods: Sequence[Period], place: int) -> Panel:
    """Draw a line through the days that have payments; one between days without any is a point.

    From as far below 100 % as it takes: a rate that falls from 98 to 95 % shall be seen to fall.
    """
    rates = [period.success_rate for period in periods]
    least = min((rate for rate in rates if rate is not None), default=0.0)
    floor = next(floor for floor in _FLOORS if least >= floor)
    ground = _ground(place)
    line: list[str] = []
    points: list[str] = []
    for column, rate in enumerate(rates):
        if rate is None:
            continue
        at = f"{column * COLUMN + BAR // 2} {ground - (rate - floor) / (1 - floor) * PLOT:.4g}"
        follows = column > 0 and rates[column - 1] is not None
        goes_on = column + 1 < len(rates) and rates[column + 1] is not None
        if follows or goes_on:
            line.append(f"{'L' if follows else 'M'}{at}")
        else:
            points.append(f"M{at}h0")
    scale = f"{round(100 * floor)} to 100 %"
    return _panel("Success rate", scale, place, (("rate", "".join(line)), ("rate point", "".join(points))))


def _panel(
    title: str,
    scale: str,
    place: int,
    paths: tuple[tuple[str, str], ...],
    legend: tuple[tuple[str, str], ...] = (),
) -> Panel:
    ground = _ground(place)
    return Panel(title=title, scale=scale, legend=legend, paths=paths, line=ground - PLOT, ground=ground)


def _ground(place: int) -> float:
    return place * (HEAD + PLOT + GAP) + HEAD + PLOT


def _bars(bars: Sequence[tuple[float, float]]) -> str:
    """Return the outline of bars, each from its ground up to a share of the height; what is there can be seen."""
    return "".join(
        f"M{place * COLUMN} {ground:.4g}h{BAR}v-{max(share * PLOT, 1):.4g}h-{BAR}z"
        for place, (ground, share) in enumerate(bars)
        if share
    )


def _told(period: Period, write_amount: WriteAmount) -> str:
    if not period.payments:
        return f"{called(period)}: no payment"
    return (
        f"{called(period)}: {write_amount(period.captured_minor)}, {period.succeeded:,} of {period.payments:,}"
        f" captured ({percent(period.success_rate)})"
    )
