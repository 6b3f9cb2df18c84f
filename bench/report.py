"""The table that a run prints: what was measured, and whether it reached its goal."""

import os
import sys
from typing import Final

from rich.console import Console
from rich.table import Table

WIDTH: Final = 140  # of what is not a terminal


class Report:
    """Rows of a table; counts those that missed their goal."""

    def __init__(self) -> None:
        self._table = Table(
            "measure", "result", "goal", "reached", title=f"payaccept on {os.cpu_count()} cores"
        )
        self.missed = 0

    def row(self, name: str, result: str, goal: str = "", *, reached: bool | None = None) -> None:
        """Add a row; `reached` is None for what has no goal."""
        self.missed += reached is False
        self._table.add_row(name, result, goal, {True: "yes", False: "NO", None: ""}[reached])

    def show(self) -> int:
        """Print the table; the exit status: 0 when every goal is reached."""
        Console(width=None if sys.stdout.isatty() else WIDTH).print(self._table)
        return 1 if self.missed else 0


def say(text: str) -> None:
    """Tell on stderr what is being done."""
    print(f"… {text}", file=sys.stderr, flush=True)
