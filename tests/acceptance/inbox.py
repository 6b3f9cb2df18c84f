#!/usr/bin/env python3
"""A tiny receiver of webhooks: keeps each as it came, for others to verify.

    inbox.py DIRECTORY

Writes its base URL to DIRECTORY/url; then, of the first webhook at /hook, the headers to
DIRECTORY/1.headers and the body, byte for byte, to DIRECTORY/1.body; and so on. It verifies nothing.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path

DIRECTORY = Path(sys.argv[1])
NUMBERS = count(1)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        number = next(NUMBERS)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (DIRECTORY / f"{number}.body").write_bytes(body)
        partial = DIRECTORY / f"{number}.partial"
        partial.write_text("".join(f"{name}: {value}\n" for name, value in self.headers.items()))
        partial.rename(DIRECTORY / f"{number}.headers")  # last, and at once: now it is there
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


with HTTPServer(("127.0.0.1", 0), Handler) as server:
    partial = DIRECTORY / "url.partial"
    partial.write_text(f"http://127.0.0.1:{server.server_port}")
    partial.rename(DIRECTORY / "url")
    server.serve_forever()
