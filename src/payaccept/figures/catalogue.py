"""Every figure there is. `docs/operations.md` tells the same for people, and a test compares them.

Names follow Prometheus: `payaccept_…`, units last, `_total` for counters. No figure is about one merchant: the
logs are for that.
"""

from typing import Final

from payaccept.adapters.postgres.tallies import BATCH_BOUNDS, SECONDS_BOUNDS
from payaccept.domain.delivery import AttemptKind
from payaccept.domain.payment import PaymentState
from payaccept.figures.metric import Across, Kind, Layout, Metric
from payaccept.wire.codes import PAYMENT_FAILURES, ResultCode
from payaccept.wire.messages import REQUESTS

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

DOCUMENT: Final = "document"
OTHER: Final = "other"
OPERATIONS: Final = (*REQUESTS, DOCUMENT, OTHER)
METHODS: Final = ("create", "settle", "inquire", "find", "credentials", "rate", "outcome", OTHER)
RESULTS: Final = (str(PaymentState.SUCCESS), *sorted(PAYMENT_FAILURES))
OUTCOMES: Final = tuple(map(str, AttemptKind))

_REQUEST_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ATTEMPT_BOUNDS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Close together where the promises are (50 and 250 ms), then one for each step of the retries' schedule.
_DELIVERY_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 300.0, 1800.0, 7200.0, 21600.0, 86400.0, 345600.0),
)

_OF_BOTH: Final = (
    Metric(
        name="payaccept_payments_settled_total",
        kind=_COUNTER,
        meaning="Payments made final, by their state or the code of their failure.",
        labels=(("result", RESULTS),),
    ),
    Metric(
        name="payaccept_group_commit_batch_size",
        kind=_HISTOGRAM,
        meaning="How many calls went to the database together, by store method.",
        labels=(("method", METHODS),),
        bounds=BATCH_BOUNDS,
    ),
    Metric(
        name="payaccept_group_commit_seconds",
        kind=_HISTOGRAM,
        meaning="How long the database took for one batch, its commit included, by store method.",
        labels=(("method", METHODS),),
        bounds=SECONDS_BOUNDS,
    ),
    Metric(
        name="payaccept_group_commit_waiting",
        kind=_GAUGE,
        meaning="Calls that wait for a connection to come free, by store method.",
        labels=(("method", METHODS),),
    ),
    Metric(
        name="payaccept_database_lines_open",
        kind=_GAUGE,
        meaning="Connections to the database that are open.",
    ),
    Metric(
        name="payaccept_database_connects_total",
        kind=_COUNTER,
        meaning="Connections to the database that were opened, and attempts that failed.",
        labels=(("outcome", ("opened", "failed")),),
    ),
    Metric(
        name="payaccept_log_lines_lost_total",
        kind=_COUNTER,
        meaning="Lines of the request or attempt log that were dropped because nobody took them in time.",
    ),
    Metric(
        name="payaccept_cpu_seconds_total",
        kind=_COUNTER,
        meaning="Processor time used, of user and system together.",
    ),
    Metric(
        name="payaccept_resident_memory_bytes",
        kind=_GAUGE,
        meaning="Physical memory in use; what processes share is counted for each.",
    ),
    Metric(
        name="payaccept_heartbeat_timestamp_seconds",
        kind=_GAUGE,
        meaning="When the process that has been silent for longest last said that it runs, in seconds since 1970;"
        " each says so every second.",
        across=Across.LEAST,
    ),
)

API: Final = Layout(
    (
        Metric(
            name="payaccept_requests_total",
            kind=_COUNTER,
            meaning="Requests answered, by operation and result code.",
            labels=(("operation", OPERATIONS), ("code", tuple(map(str, ResultCode)))),
        ),
        Metric(
            name="payaccept_request_seconds",
            kind=_HISTOGRAM,
            meaning="From a request's headers to its answer, by operation.",
            labels=(("operation", OPERATIONS),),
            bounds=_REQUEST_BOUNDS,
        ),
        *_OF_BOTH,
    )
)

WORKER: Final = Layout(
    (
        Metric(
            name="payaccept_delivery_first_attempt_seconds",
            kind=_HISTOGRAM,
            meaning="From a payment's being final to the start of its notification's first attempt.",
            bounds=_DELIVERY_BOUNDS,
        ),
        Metric(
            name="payaccept_delivery_acknowledged_seconds",
            kind=_HISTOGRAM,
            meaning="From a payment's being final to the merchant's acknowledgement of its notification.",
            bounds=_DELIVERY_BOUNDS,
        ),
        Metric(
            name="payaccept_delivery_attempts_total",
            kind=_COUNTER,
            meaning="Attempts to deliver a notification, by outcome.",
            labels=(("outcome", OUTCOMES),),
        ),
        Metric(
            name="payaccept_delivery_attempt_seconds",
            kind=_HISTOGRAM,
            meaning="How long an attempt took, from looking the host up to the answer, by outcome.",
            labels=(("outcome", OUTCOMES),),
            bounds=_ATTEMPT_BOUNDS,
        ),
        Metric(
            name="payaccept_deliveries_died_total",
            kind=_COUNTER,
            meaning="Notifications given up after their last attempt.",
        ),
        Metric(
            name="payaccept_delivery_attempts_unrecorded_total",
            kind=_COUNTER,
            meaning="Attempts whose outcome was not written: the lease had ended, or the database was away.",
        ),
        Metric(
            name="payaccept_deliveries_in_flight",
            kind=_GAUGE,
            meaning="Attempts under way in this worker.",
        ),
        Metric(
            name="payaccept_signer_key_version",
            kind=_GAUGE,
            meaning="The version of the provider key that signs notifications; 0 before the first is known.",
        ),
        *_OF_BOTH,
        Metric(
            name="payaccept_deliveries",
            kind=_GAUGE,
            meaning="Deliveries in the database by state; leased ones are among the due.",
            labels=(("state", ("due", "leased", "waiting", "dead")),),
        ),
        Metric(
            name="payaccept_deliveries_oldest_due_seconds",
            kind=_GAUGE,
            meaning="How long the oldest delivery that is due and not under way has been due,"
            " in lanes whose breaker is closed, and in those where it is open.",
            labels=(("breaker", ("closed", "open")),),
        ),
        Metric(
            name="payaccept_lanes",
            kind=_GAUGE,
            meaning="Destinations with something due, those of them where it has been for a minute though their"
            " breaker is closed, those that are failing, and those whose breaker is open.",
            labels=(("state", ("due", "late", "failing", "open")),),
        ),
        Metric(
            name="payaccept_events_unnumbered",
            kind=_GAUGE,
            meaning="Events that have no sequence number yet.",
        ),
        Metric(
            name="payaccept_payments_overdue_seconds",
            kind=_GAUGE,
            meaning="How long the payment that has waited longest has been due for the worker.",
        ),
        Metric(
            name="payaccept_backlog_read_timestamp_seconds",
            kind=_GAUGE,
            meaning="When the figures of the database were last read, in seconds since 1970.",
        ),
        Metric(
            name="payaccept_backlog_read_seconds",
            kind=_GAUGE,
            meaning="How long reading them took.",
        ),
    )
)
