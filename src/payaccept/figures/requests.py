"""The API's requests: a line for each, and its counts."""

from collections.abc import Collection
from typing import Any

from payaccept.figures import catalogue
from payaccept.figures.slab import Slab
from payaccept.line_log import LineLog
from payaccept.wire.codes import ResultCode
from payaccept.wire.messages import PATH_PREFIX, REQUESTS


class _Operation:
    """The counts of one operation."""

    __slots__ = ("_codes", "_seconds")

    def __init__(self, slab: Slab, operation: str) -> None:
        self._codes = {code: slab.number("payaccept_requests_total", operation, code) for code in ResultCode}
        self._seconds = slab.histogram("payaccept_request_seconds", operation)

    def count(self, code: Any, duration_ms: Any) -> None:
        self._codes[code].add()
        self._seconds.observe(duration_ms / 1000)


class RequestFigures(LineLog):
    """The request log, which counts what it is told. Every request passes here, so it does little."""

    def __init__(self, slab: Slab, documents: Collection[str]) -> None:
        super().__init__("request")
        self._other = _Operation(slab, catalogue.OTHER)
        self._by_path = {PATH_PREFIX + operation: _Operation(slab, operation) for operation in REQUESTS}
        self._by_path.update(dict.fromkeys(documents, _Operation(slab, catalogue.DOCUMENT)))

    def write(self, **members: object) -> None:
        """Keep a line, and count it."""
        self.keep(members)
        self._by_path.get(str(members["path"]), self._other).count(
            members["resultCode"], members["durationMs"]
        )
