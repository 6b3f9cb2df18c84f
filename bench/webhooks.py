"""Measure how webhooks are delivered.

    python -m bench.webhooks throughput|latency|backlog|held|fairness|all [--full] [options]

Each measure has a database, a worker and a receiver of its own. Without options it is as short as in `make bench`;
with --full it is as long as its goal says: 200,000 overdue deliveries, a transaction held for ten minutes.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bench import draining, service, steady
from bench.report import Report


class Measure(NamedTuple):
    """A measure, with its options for `make bench`, and in full."""

    run: Callable[[Report, Any], None]
    short: Any
    full: list[Any]


MEASURES: Final = {
    "throughput": Measure(draining.throughput, draining.Throughput(), [draining.THROUGHPUT_IN_FULL]),
    "latency": Measure(steady.latency, steady.Latency(), [steady.LATENCY_IN_FULL]),
    "backlog": Measure(draining.backlog, draining.Backlog(), [draining.BACKLOG_IN_FULL]),
    "held": Measure(steady.held, steady.Held(), [steady.HELD_IN_FULL, steady.HELD_IN_ONE_LANE_IN_FULL]),
    "fairness": Measure(draining.fairness, draining.Fairness(), [draining.FAIRNESS_IN_FULL]),
}


def measure_all(report: Report, *, full: bool = False) -> None:
    """Run every measure."""
    for measure in MEASURES.values():
        for options in measure.full if full else [measure.short]:
            measure.run(report, options)


def main() -> int:
    """Run what is asked for; 0 when every goal is reached."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.webhooks", description=(__doc__ or "").split("\n")[0]
    )
    chosen = parser.add_subparsers(dest="measure", required=True)
    everything = chosen.add_parser("all", help="every measure, one after the other")
    everything.add_argument("--full", action="store_true", help="as long as the goals say")
    for name, measure in MEASURES.items():
        words = (measure.run.__doc__ or "").split("\n")[0]
        its = chosen.add_parser(name, help=words, description=type(measure.short).__doc__)
        its.add_argument("--full", action="store_true", help="as long as the goal says")
        for option, default in measure.short._asdict().items():
            its.add_argument(
                f"--{option.replace('_', '-')}", type=type(default), metavar="N", help=f"{default:g}"
            )
    arguments = vars(parser.parse_args())
    service.end_in_order()
    report, name, full = Report(), arguments.pop("measure"), arguments.pop("full")
    if name == "all":
        measure_all(report, full=full)
    else:
        measure = MEASURES[name]
        given = {option: value for option, value in arguments.items() if value is not None}
        wanted = [options._replace(**given) for options in (measure.full if full else [measure.short])]
        for options in dict.fromkeys(wanted):  # those that the given options make the same run once
            measure.run(report, options)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
