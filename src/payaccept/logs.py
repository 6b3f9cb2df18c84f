"""Structured logs: one JSON object a line, on standard error. Never a body, a key or an auth code."""

import logging
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Any, Final

import msgspec
import structlog

from payaccept import trace

_CHAIN: Final = 5  # of an exception's causes so many are told, and of a stack so many frames
_FRAMES: Final = 20

# What these say is about our code or the system. Other messages may quote what they failed on.
_ABOUT_CODE: Final = (
    OSError,
    TypeError,
    AttributeError,
    NameError,
    ImportError,
    AssertionError,
    RuntimeError,
    MemoryError,
)
_encode = msgspec.json.Encoder(enc_hook=str).encode


def _render(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> str:
    return _encode(event).decode()


def _add_trace(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Say which request is being served, and which payment that is about."""
    traced = trace.current()
    if traced is not None:
        event["requestId"] = traced.request_id
        if traced.payment_id:
            event.setdefault("paymentId", traced.payment_id)
    return event


def _write_exception(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Write where an exception was raised, and of its message what cannot be a part of a request."""
    _, error, _ = event.pop("exc_info", None) or (None, None, None)
    if error is not None:
        event["exception"] = "".join(_lines(error, _CHAIN))
    return event


def _shorten_others(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Keep the first line of what libraries say: asyncio and psycopg put an exception's message below it."""
    if not event["logger"].startswith("payaccept"):
        event["event"] = event["event"].partition("\n")[0]
    return event


def _lines(error: BaseException, more: int) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and more:
        yield from _lines(before, more - 1)
        yield "which led to:\n"
    yield from traceback.format_tb(_last_frames(error.__traceback__))
    yield f"{type(error).__module__}.{type(error).__qualname__}: {_message(error)}\n"
    if isinstance(error, BaseExceptionGroup) and more:
        for one in error.exceptions:
            yield from _lines(one, more - 1)


def _last_frames(stack: TracebackType | None) -> TracebackType | None:
    depth = sum(1 for _ in traceback.walk_tb(stack))
    while stack is not None and depth > _FRAMES:
        stack = stack.tb_next
        depth -= 1
    return stack


def _message(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    if state is not None:  # PostgreSQL repeats values, and in a DETAIL whole rows
        constraint = getattr(getattr(error, "diag", None), "constraint_name", None)
        return f"SQLSTATE {state}" + (f", constraint {constraint}" if constraint else "")
    if isinstance(error, _ABOUT_CODE) or type(error).__module__.startswith("payaccept."):
        return str(error)
    return "(its message is left out: it may quote a request)"


def configure(process: str, level: int = logging.INFO) -> None:
    """Send everything that is logged in this process to standard error as JSON."""
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _write_exception,
            _render,
        ],
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            _shorten_others,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_trace,
            lambda _logger, _name, event: {**event, "process": process},
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Libraries tell of every connection at INFO.
    for name in ("psycopg", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
