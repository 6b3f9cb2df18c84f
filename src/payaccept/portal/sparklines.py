"""Small charts of how something went over time, as attributes of SVG: the policy of the pages allows no style."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

WIDTH: Final = 600
HEIGHT: Final = 72
_MARGIN: Final = 2
"""So that the line at the top and the one on the ground are drawn whole."""

Values = Sequence[float | None]
"""One for each span of time, in order; None where nothing is known."""


class Series(Struct, frozen=True, kw_only=True):
    """What is drawn as one line. `latest` and `most` are its values as people read them."""

    label: str
    tint: str
    values: Values
    latest: str
    most: str


class Line(Struct, frozen=True, kw_only=True):
    """A series as it is drawn: `d` of the path, and of the area beneath the first one."""

    label: str
    tint: str
    path: str
    area: str
    latest: str
    most: str


class Sparkline(Struct, frozen=True, kw_only=True):
    """A chart. `peak` is the value at its top, as people read it; `told` what somebody hears who does not see it."""

    title: str
    hint: str
    lines: tuple[Line, ...]
    peak: str
    told: str
    width: int = WIDTH
    height: int = HEIGHT


def draw(title: str, hint: str, series: Sequence[Series], peak: str) -> Sparkline:
    """Draw series over each other, on one scale from nothing to the greatest value of all."""
    top = max((value for one in series for value in one.values if value is not None), default=0.0)
    lines = tuple(
        Line(
            label=one.label,
            tint=one.tint,
            path=_path(one.values, top),
            area="" if place else _area(one.values, top),
            latest=one.latest,
            most=one.most,
        )
        for place, one in enumerate(series)
    )
    told = ", ".join(f"{one.label}: {one.latest} lately, at most {one.most}" for one in series)
    return Sparkline(title=title, hint=hint, lines=lines, peak=peak, told=f"{title}. {told}.")


def _path(values: Values, top: float) -> str:
    """Return the line; where nothing is known it is broken, and a lone value is a short dash."""
    return "".join(_strokes(run, len(values), top) for run in _runs(values))


def _area(values: Values, top: float) -> str:
    ground = HEIGHT - _MARGIN
    pieces = []
    for run in _runs(values):
        if len(run) > 1:
            first, last = _x(run[0][0], len(values)), _x(run[-1][0], len(values))
            pieces.append(f"{_strokes(run, len(values), top)}L{last} {ground}L{first} {ground}Z")
    return "".join(pieces)


def _strokes(run: Sequence[tuple[int, float]], count: int, top: float) -> str:
    points = [f"{_x(place, count)} {_y(value, top)}" for place, value in run]
    return f"M{points[0]}" + (f"L{'L'.join(points[1:])}" if len(points) > 1 else "h3")


def _runs(values: Values) -> list[list[tuple[int, float]]]:
    """Return what is known, in pieces between which nothing is."""
    runs: list[list[tuple[int, float]]] = []
    known_before = False
    for place, value in enumerate(values):
        if value is not None:
            if not known_before:
                runs.append([])
            runs[-1].append((place, value))
        known_before = value is not None
    return runs


def _x(place: int, count: int) -> int:
    return round(WIDTH * place / max(1, count - 1))


def _y(value: float, top: float) -> float:
    room = HEIGHT - 2 * _MARGIN
    return round(HEIGHT - _MARGIN - (room * value / top if top else 0), 1)
