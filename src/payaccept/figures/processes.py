"""All that a process counts and logs of its work, put together: one object for each kind of process."""

from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path

from payaccept.adapters.postgres.backlog import PostgresBacklog
from payaccept.adapters.postgres.health import PostgresPulse
from payaccept.figures import catalogue
from payaccept.figures.backlog import BacklogFigures
from payaccept.figures.deliveries import AttemptFigures
from payaccept.figures.payments import PaymentFigures
from payaccept.figures.pulse import Pulse
from payaccept.figures.requests import RequestFigures
from payaccept.figures.sampling import Sampling
from payaccept.figures.slab import Slab
from payaccept.line_log import LineLog


class ApiFigures:
    """Of one process of the API. `directory` is where it counts for others to sum; None: for itself."""

    def __init__(
        self,
        documents: Collection[str],
        directory: Path | None,
        pulse: PostgresPulse,
        clock: Callable[[], datetime],
    ) -> None:
        self.slab = Slab(catalogue.API, directory)
        self.requests = RequestFigures(self.slab, documents)
        self.payments = PaymentFigures(self.slab)
        self._sampling = Sampling(self.slab, [self.requests])
        self._pulse = Pulse("api", pulse, clock, self.slab)

    def start(self) -> None:
        """Start in the running loop."""
        self.requests.start()
        self._sampling.start()
        self._pulse.start()

    async def close(self) -> None:
        """Write the last lines and figures."""
        await self.requests.close()
        await self._sampling.close()
        await self._pulse.close()
        self.slab.close()


class WorkerFigures:
    """Of one worker. `in_flight` tells how many attempts are under way."""

    def __init__(
        self,
        backlog: PostgresBacklog,
        pulse: PostgresPulse,
        in_flight: Callable[[], int],
        clock: Callable[[], datetime],
    ) -> None:
        self.slab = Slab(catalogue.WORKER)
        self.attempts = AttemptFigures(self.slab)
        self._payment_log = LineLog("payment final")
        self.payments = PaymentFigures(self.slab, self._payment_log)
        self.key_version = self.slab.number("payaccept_signer_key_version")
        self._backlog = BacklogFigures(self.slab, backlog, clock)
        under_way = self.slab.number("payaccept_deliveries_in_flight")
        self._sampling = Sampling(
            self.slab, [self.attempts, self._payment_log], lambda: under_way.set(in_flight())
        )
        self._pulse = Pulse("worker", pulse, clock, self.slab)

    def start(self) -> None:
        """Start in the running loop."""
        self.attempts.start()
        self._payment_log.start()
        self._backlog.start()
        self._sampling.start()
        self._pulse.start()

    async def close(self) -> None:
        """Write the last lines and figures."""
        await self._backlog.close()
        await self.attempts.close()
        await self._payment_log.close()
        await self._sampling.close()
        await self._pulse.close()
