"""The geometry of charts: round scales, bars that can be seen, and lines that do not lie."""

import re
from collections import Counter
from datetime import date, timedelta

import pytest

from payaccept.domain.totals import Period
from payaccept.portal.charts import HEAD, PLOT, called, chart_of, nice_top, percent

DAY = date(2026, 2, 27)


def period(number: int, succeeded: int, failed: int = 0) -> Period:
    day = DAY + timedelta(days=number)
    return Period(
        first=day,
        last=day,
        captured_minor=100 * succeeded,
        succeeded=succeeded,
        failures=Counter({"RISK_REJECT": failed} if failed else {}),
    )


@pytest.mark.parametrize(
    ("greatest", "top"),
    [
        (0, 1),
        (1, 1),
        (7, 8),
        (9, 10),
        (11, 12),
        (110, 120),
        (121, 150),
        (999, 1000),
        (10**25 + 1, 12 * 10**24),
    ],
)
def test_a_scale_ends_at_a_round_number(greatest, top):
    assert nice_top(greatest) == top


@pytest.mark.parametrize(
    ("rate", "written"),
    [(None, "none"), (0.0, "0 %"), (1.0, "100 %"), (0.9999, "99.9 %"), (0.5, "50 %"), (1 / 3, "33.3 %")],
)
def test_a_rate_is_never_rounded_up_to_all(rate, written):
    assert percent(rate) == written


def test_bars_stand_on_the_ground_failed_ones_on_the_captured():
    chart = chart_of([period(0, 5, 5), period(1, 0), period(2, 0, 1)], str)
    captured, payments, _ = chart.panels
    ground = HEAD + PLOT
    assert captured.paths == (("captured", f"M0 {ground}h8v-80h-8z"),)
    assert captured.scale == "500"
    assert payments.scale == "10"
    bars = dict(payments.paths)
    assert bars["succeeded"] == f"M0 {payments.ground}h8v-40h-8z"
    assert bars["failed"] == f"M0 {payments.ground - 40}h8v-40h-8zM20 {payments.ground}h8v-8h-8z"


def test_one_payment_among_very_many_can_be_seen():
    [bars] = [dict(panel.paths) for panel in chart_of([period(0, 10**6), period(1, 1)], str).panels][1:2]
    assert bars["succeeded"].endswith("v-1h-8z")


def test_days_without_payments_part_the_line_and_a_day_between_such_is_a_point():
    rates = [period(0, 9, 1), period(1, 1), period(2, 0), period(3, 19, 1), period(4, 0)]
    line = chart_of(rates, str).panels[2]
    assert line.scale == "90 to 100 %"
    assert [name for name, _ in line.paths] == ["rate", "rate point"]
    assert [outline[0] + str(outline.count("L")) for _, outline in line.paths] == ["M1", "M0"]
    assert chart_of([period(0, 1, 3)], str).panels[2].scale == "0 to 100 %"


def test_who_points_at_a_day_is_told_what_it_came_to():
    chart = chart_of([period(0, 1200, 300), period(2, 0)], lambda minor: f"€{minor / 100:,.2f}")
    assert [column.told for column in chart.columns] == [
        "27 Feb 2026: €1,200.00, 1,200 of 1,500 captured (80 %)",
        "1 Mar 2026: no payment",
    ]
    assert chart.days == ("27 Feb", "1 Mar")
    week = Period(first=DAY, last=DAY + timedelta(days=6), failures=Counter())
    assert called(week) == "27 Feb to 5 Mar 2026"


def test_ninety_days_have_five_dates_below_them_and_stay_within_their_width():
    chart = chart_of([period(number, 1 + number) for number in range(90)], str)
    assert len(chart.days) == 5
    assert (chart.days[0], chart.days[-1]) == ("27 Feb", "27 May")
    xs = [
        int(x) for panel in chart.panels for _, path in panel.paths for x in re.findall(r"[ML](\d+) ", path)
    ]
    assert max(xs) + 8 <= chart.width + 4
