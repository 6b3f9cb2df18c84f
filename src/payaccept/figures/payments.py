"""Payments that were made final: counted, and where no request tells of it, with a line for each."""

from payaccept.domain.payment import Settlement
from payaccept.figures.slab import Slab
from payaccept.line_log import LineLog


class PaymentFigures:
    """Told of every payment that this process has made final."""

    def __init__(self, slab: Slab, log: LineLog | None = None) -> None:
        self._results = slab.numbers("payaccept_payments_settled_total")
        self._log = log

    def settled(self, settlement: Settlement) -> None:
        """Count a payment's end."""
        result = settlement.failure_code or settlement.state
        self._results[result].add()
        if self._log is not None:
            self._log.write(
                paymentId=settlement.payment_id,
                eventId=settlement.event_id,
                clientId=settlement.client_id,
                result=result,
            )
