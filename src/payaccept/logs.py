"""Structured logs: one JSON object a line, on standard error. Never a body, a key or an auth code."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

_encode = msgspec.json.Encoder(enc_hook=str).encode


def _render(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> str:
    return _encode(event).decode()


def configure(process: str, level: int = logging.INFO) -> None:
    """Send everything that is logged in this process to standard error as JSON."""
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _render,
        ],
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            lambda _logger, _name, event: {**event, "process": process},
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Libraries tell of every connection at INFO.
    for name in ("psycopg", "aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
