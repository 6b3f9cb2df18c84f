"""Worker processes that start quickly and can be killed: they come from a process that has imported everything."""

import asyncio
import multiprocessing
import os
import signal
from multiprocessing.context import ForkServerProcess

from payaccept.config import Settings
from payaccept.worker_wiring import WorkerProcess


def work(settings: Settings) -> None:
    """What a worker process does until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its log, a line for each attempt
    asyncio.run(WorkerProcess(settings).run())


class Workers:
    """Two worker processes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, "payaccept.adapters.outbound"])
        self.running = [self._start(), self._start()]

    def _start(self) -> ForkServerProcess:
        process = self._context.Process(target=work, args=(self._settings,), daemon=True)
        process.start()
        return process

    def kill(self, which: int) -> None:
        """Kill one, without a warning."""
        self.running[which].kill()
        self.running[which].join()

    def start(self, which: int) -> None:
        """Start one in its place."""
        self.running[which] = self._start()

    def stop(self) -> None:
        """Kill both."""
        for which in range(2):
            self.kill(which)
