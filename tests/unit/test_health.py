"""How a deployment is: shares of a distribution, and when a process counts as silent."""

from datetime import UTC, datetime, timedelta

import pytest

from payaccept.domain.health import BEYOND, SILENT_AFTER, Figure, Process, Span, quantile

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("counts", "share", "bound"),
    [
        ({"0.1": 10}, 0.5, 0.05),
        ({"0.1": 10, "1.0": 10}, 0.5, 0.1),
        ({"0.1": 10, "1.0": 10}, 0.75, 0.55),
        ({"1.0": 10, "0.1": 10}, 1.0, 1.0),
        ({"0.1": 1, "5.0": 0, "10.0": 1}, 0.99, 9.9),
        ({"0.1": 1, BEYOND: 99}, 0.99, 0.1),
    ],
)
def test_a_share_of_a_distribution_is_found_between_its_bounds(counts, share, bound):
    assert quantile(counts, share) == pytest.approx(bound)


@pytest.mark.parametrize("counts", [{}, {"0.1": 0}])
def test_of_nothing_there_is_no_share(counts):
    assert quantile(counts, 0.5) is None


def test_a_process_is_silent_after_three_beats():
    process = Process(
        process_id="prc_1",
        kind="api",
        host="a",
        pid=1,
        version="1",
        started_at=NOW,
        seen_at=NOW,
        cpu_permille=0,
        memory_bytes=0,
    )
    assert not process.is_silent(NOW + SILENT_AFTER)
    assert process.is_silent(NOW + SILENT_AFTER + timedelta(microseconds=1))


def test_what_a_span_does_not_know_of_was_nothing():
    span = Span(NOW, {Figure.REQUESTS: {"SUCCESS": 2, "PARAM_ILLEGAL": 3}})
    assert (span.of(Figure.REQUESTS, "SUCCESS"), span.of(Figure.LANES, "open")) == (2, 0)
    assert (span.total(Figure.REQUESTS), span.total(Figure.DIED)) == (5, 0)
