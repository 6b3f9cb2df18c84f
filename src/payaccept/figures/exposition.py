"""What Prometheus reads: the figures as text, on an HTTP address of their own. Never on the API's.

It runs in a thread beside whatever the process does. For the API that is the parent of the processes that
answer, which does nothing else: reading the figures takes no time of theirs.
"""

import http.server
import os
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from payaccept import __version__
from payaccept.figures.metric import Kind, Layout
from payaccept.figures.metric import Metric as Figure
from payaccept.figures.slab import Source

PATH: Final = "/metrics"
BUILD_INFO: Final = "payaccept_build_info"
PROCESSES: Final = "payaccept_processes"
_REQUEST_TIMEOUT_S: Final = 5.0
_AT_ONCE: Final = 8
_CLOSES_WITHIN_S: Final = 0.1


class Address(Struct, frozen=True):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it as it is given on a command line."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str) -> Address:
    """Read HOST:PORT, an IPv6 address in brackets. Raises: ValueError."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or (":" in host) != text.strip().startswith("["):
        raise ValueError("must be HOST:PORT, for example 127.0.0.1:9464")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError("must end with a port between 1 and 65535")
    return Address(host, int(port))


class Figures(Collector):
    """The figures of one process, or of several, as Prometheus's client library takes them."""

    def __init__(self, process: str, layout: Layout, source: Source) -> None:
        self._process = process
        self._layout = layout
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Read the numbers of now."""
        reading = self._source.read()
        build = GaugeMetricFamily(
            BUILD_INFO, "Which version runs, and what it is.", labels=("version", "process")
        )
        build.add_metric((__version__, self._process), 1)
        yield build
        yield GaugeMetricFamily(
            PROCESSES, "Processes whose figures these are; killed ones stay in the totals.", reading.processes
        )
        for metric in self._layout.metrics:
            yield _family(metric, self._layout, reading.cells)


def _family(metric: Figure, layout: Layout, cells: Any) -> Metric:
    family: Any
    if metric.kind is Kind.HISTOGRAM:
        family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.label_names)
    elif metric.kind is Kind.COUNTER:
        family = CounterMetricFamily(metric.name, metric.meaning, labels=metric.label_names)
    else:
        family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.label_names)
    bounds = [*map(str, metric.bounds), "+Inf"]
    for values in metric.combinations():
        start = layout.start(metric.name, *values)
        if metric.kind is Kind.HISTOGRAM:
            # Prometheus wants each bucket to hold those below it.
            counts = accumulate(cells[start : start + len(bounds)])
            family.add_metric(values, list(zip(bounds, counts, strict=True)), cells[start + len(bounds)])
        else:
            family.add_metric(values, cells[start])
    return family  # type: ignore[no-any-return]


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = _REQUEST_TIMEOUT_S
    server: "_Server"

    def do_GET(self) -> None:
        """Serve the figures in the format the reader asks for."""
        if self.path.partition("?")[0] != PATH:
            self._answer(
                HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"figures are at {PATH}\n".encode()
            )
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        self._answer(HTTPStatus.OK, content_type, encode(self.server.registry))

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Say no more than who answers."""
        return "payaccept"

    def log_message(self, *_: object) -> None:
        """Log nothing: it is read every few seconds."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._free = threading.Semaphore(_AT_ONCE)
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family = found[0][0]
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        """Bind without looking up what this machine is called, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, but only so many at once."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and let another in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of readers that go away."""


class Exposition:
    """Serves the figures from `start` to `close`."""

    def __init__(self, address: Address, figures: Figures) -> None:
        self.address = address
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(figures)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen, and answer in a thread. Raises: OSError."""
        server = self._server = _Server(self.address, self._registry)
        # A process forked from this one would keep the address after our end, and answer nobody.
        os.register_at_fork(after_in_child=server.socket.close)
        self._thread = threading.Thread(
            target=server.serve_forever, args=(_CLOSES_WITHIN_S,), name="figures", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
