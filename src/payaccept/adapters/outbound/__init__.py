"""Posting notifications: resolve once, check every address, dial a checked one, one deadline for everything.

client: one post from URL to outcome. pool: kept connections. dialling: from a name to an open connection, or through
proxy. resolver: names to addresses. connection: one request and its answer at a time. answer: bytes to an answer.
"""

from payaccept.adapters.outbound.client import Outbound

__all__ = ["Outbound"]
