"""Small charts as attributes of SVG."""

import re

import pytest

from deployment import NOW
from payaccept.domain.health import Figure, Span
from payaccept.operations.health import WEEK
from payaccept.portal.health_charts import charts_of, quantiles_of, results_of, share_within
from payaccept.portal.sparklines import HEIGHT, WIDTH, Series, draw


def line_of(*values):
    series = Series(label="x", tint="tint0", values=values, latest="", most="")
    return draw("", "", [series], "").lines[0]


def points(path):
    return [tuple(map(float, pair.split())) for pair in re.findall(r"[\d.]+ [\d.]+", path)]


def test_a_line_goes_from_edge_to_edge_and_its_greatest_value_to_the_top():
    assert points(line_of(0, 5, 10).path) == [(0, HEIGHT - 2), (WIDTH / 2, HEIGHT / 2), (WIDTH, 2)]


def test_where_nothing_is_known_the_line_is_broken():
    assert line_of(1, 1, None, 1, 1).path.count("M") == 2
    assert line_of(None, None).path == ""


def test_a_lone_value_is_a_dash():
    assert line_of(None, 3, None).path.endswith("h3")


@pytest.mark.parametrize("values", [(), (0,), (0, 0), (None,), (1e12, 0.1)])
def test_nothing_leaves_the_chart(values):
    for x, y in points(line_of(*values).path):
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


def test_series_share_one_scale():
    low = Series(label="low", tint="good", values=[1, 1], latest="1", most="1")
    high = Series(label="high", tint="bad", values=[2, 2], latest="2", most="2")
    drawn = draw("Both", "", [low, high], "2")
    assert points(drawn.lines[0].path)[0][1] == HEIGHT / 2
    assert drawn.told == "Both. low: 1 lately, at most 1, high: 2 lately, at most 2."


LABELS = (
    *("SUCCESS", "PARAM_ILLEGAL", "SYSTEM_BUSY", "ACKNOWLEDGED", "REFUSED", "UNREACHABLE", "due", "leased"),
    *("waiting", "dead", "failing", "open", "closed", ""),
)
TIMES = ("0.1", "0.5", "10.0", "inf")
DISTRIBUTIONS = (Figure.REQUEST_TIMES, Figure.FIRST_ATTEMPTS, Figure.ACKNOWLEDGED)
SPANS = [
    Span(
        NOW, {Figure.REQUESTS: {"SUCCESS": 60, "PARAM_ILLEGAL": 30, "SYSTEM_BUSY": 15, "USER_REJECTED": 15}}
    ),
    Span(
        NOW, {Figure.ACKNOWLEDGED: {"0.1": 50, "0.5": 40, "inf": 10}, Figure.OLDEST_DUE: {"closed": 90_000}}
    ),
]


def test_requests_are_told_apart_by_whose_fault_they_were():
    chart = charts_of(SPANS[:1], 15)[0]
    assert [(line.label, line.latest) for line in chart.lines] == [
        ("Accepted", "5"),
        ("Refused", "2"),
        ("Our faults", "1"),
    ]
    assert results_of(SPANS)[0] == ("SUCCESS", 60, "good")
    assert {code: kind for code, _, kind in results_of(SPANS)} == {
        "SUCCESS": "good",
        "USER_REJECTED": "good",
        "PARAM_ILLEGAL": "warn",
        "SYSTEM_BUSY": "bad",
    }


def test_times_are_told_over_the_whole():
    assert quantiles_of(SPANS, Figure.ACKNOWLEDGED) == ("100 ms", "500 ms")
    assert share_within(SPANS, Figure.ACKNOWLEDGED, 0.25) == 0.5
    assert quantiles_of(SPANS[:1], Figure.ACKNOWLEDGED) is None
    assert share_within(SPANS[:1], Figure.ACKNOWLEDGED, 0.25) is None
    oldest = next(chart for chart in charts_of(SPANS, 1) if chart.title == "Oldest delivery that is due")
    assert oldest.lines[0].latest == "2 min"


def test_a_week_full_of_figures_fits_on_a_page():
    spans = [
        Span(
            NOW,
            {
                figure: {
                    label: (n * 7919 + place * 31) % 100_000
                    for place, label in enumerate(TIMES if figure in DISTRIBUTIONS else LABELS)
                }
                for figure in Figure
            },
        )
        for n in range(WEEK.minutes // WEEK.step_min)
    ]
    drawn = [line.path + line.area for chart in charts_of(spans, 120) for line in chart.lines]
    assert sum(map(len, drawn)) < 40 * 1024


def test_of_nothing_all_charts_are_drawn_empty():
    for chart in charts_of([Span(NOW, {})] * 3, 1):
        assert chart.told
        assert all(
            set(points(line.path)) <= {(0.0, 70.0), (300.0, 70.0), (600.0, 70.0)} for line in chart.lines
        )
