"""One deadline for every request, kept by one timer for all of them.

Like `asyncio.timeout`, whose timer of its own for each request costs a twentieth of what a request costs.
"""

import asyncio
from typing import Any


class Deadline:
    """Cancels the tasks that take longer than `after_s` seconds."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        # Every task has the same time, so the order they began in is the order they are due in.
        self._due: dict[asyncio.Task[Any], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._missed: set[asyncio.Task[Any]] = set()

    def begin(self) -> "asyncio.Task[Any]":
        """Start the time of the running task; to be ended whatever happens."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a deadline is for a task")
        self._due[task] = loop.time() + self._after_s
        if self._timer is None:
            self._timer = loop.call_later(self._after_s, self._look, loop)
        return task

    def end(self, task: "asyncio.Task[Any]") -> None:
        """Stop the time of a task."""
        self._due.pop(task, None)
        self._missed.discard(task)

    def is_missed(self, task: "asyncio.Task[Any]") -> bool:
        """Tell whether this deadline is what cancelled the task, which is told to go on."""
        if task not in self._missed:
            return False
        self._missed.discard(task)
        return task.uncancel() == 0

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._due:
            task, due = next(iter(self._due.items()))
            if due > now:
                self._timer = loop.call_at(due, self._look, loop)
                return
            del self._due[task]
            self._missed.add(task)
            task.cancel()
