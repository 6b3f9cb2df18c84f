"""A merchant's endpoint that acknowledges everything, and tells on stdout how many different events it has had."""

import asyncio
import sys
import time
from typing import Any, Final

from granian.constants import Interfaces
from granian.server.embed import Server

TOLD_EVERY_S: Final = 0.05


class Receiver:
    """Counts events by Event-Id; `last_at` is when the last new one came."""

    def __init__(self) -> None:
        self.events: set[str] = set()
        self.last_at = 0.0

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Acknowledge one notification."""
        await protocol()
        event_id = scope.headers.get("event-id")
        if event_id not in self.events:
            self.events.add(event_id)
            self.last_at = time.time()
        protocol.response_bytes(200, [("content-type", "application/json")], b"{}")


async def _tell(receiver: Receiver) -> None:
    while True:
        await asyncio.sleep(TOLD_EVERY_S)
        print(len(receiver.events), receiver.last_at, flush=True)


async def _main(port: int) -> None:
    receiver = Receiver()
    server = Server(receiver, port=port, interface=Interfaces.RSGI, websockets=False, log_enabled=False)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_tell(receiver))
        tasks.create_task(server.serve())


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
