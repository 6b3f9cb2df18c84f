"""What the request being served is called, and which payment it is about: so that every log line can say so.

It travels with the task that serves the request, as a context variable, and with the tasks and threads that
one starts. Where no request is served there is no trace, and naming a payment does nothing.
"""

from contextvars import ContextVar
from typing import Final

from msgspec import Struct


class Trace(Struct):
    """One request. The payment and its event are empty until they are known."""

    request_id: str
    payment_id: str = ""
    event_id: str = ""


_current: Final[ContextVar[Trace | None]] = ContextVar("trace", default=None)


def begin(request_id: str) -> Trace:
    """Start the trace of the request that this task serves from now on."""
    trace = Trace(request_id)
    _current.set(trace)
    return trace


def current() -> Trace | None:
    """Return the trace of the request that is being served, if one is."""
    return _current.get()


def name_payment(payment_id: str, event_id: str | None = None) -> None:
    """Say which payment the request is about, and which event its end has made."""
    trace = _current.get()
    if trace is not None:
        trace.payment_id = payment_id
        trace.event_id = event_id or ""
