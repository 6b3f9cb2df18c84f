"""The OpenAPI description of the API, generated from the wire types."""

import json
from functools import cache


@cache
def document() -> bytes:
    """Return the description as JSON."""
    return json.dumps({"openapi": "3.1.0"}).encode()
