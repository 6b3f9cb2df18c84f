"""The worker's attempts: a line for each, and its counts."""

from typing import Any, Final

from payaccept.domain.delivery import Dead
from payaccept.figures.slab import Slab
from payaccept.line_log import LineLog

_DEAD: Final = Dead.__name__


class AttemptFigures(LineLog):
    """The log of attempts, which counts what it is told."""

    def __init__(self, slab: Slab) -> None:
        super().__init__("delivery attempt")
        self._attempts = slab.numbers("payaccept_delivery_attempts_total")
        self._durations = slab.histograms("payaccept_delivery_attempt_seconds")
        self._first = slab.histogram("payaccept_delivery_first_attempt_seconds")
        self._acknowledged = slab.histogram("payaccept_delivery_acknowledged_seconds")
        self._died = slab.number("payaccept_deliveries_died_total")
        self._unrecorded = slab.number("payaccept_delivery_attempts_unrecorded_total")

    def write(self, **members: Any) -> None:
        """Keep a line, and count it."""
        self.keep(members)
        kind = members["kind"]
        self._attempts[kind].add()
        self._durations[kind].observe(members["durationMs"] / 1000)
        if "firstAttemptAfterMs" in members:
            self._first.observe(members["firstAttemptAfterMs"] / 1000)
        if not members["recorded"]:
            self._unrecorded.add()
        elif "acknowledgedAfterMs" in members:
            self._acknowledged.observe(members["acknowledgedAfterMs"] / 1000)
        elif members["decision"] == _DEAD:
            self._died.add()
