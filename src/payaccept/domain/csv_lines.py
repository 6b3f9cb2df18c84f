"""Lines of CSV as RFC 4180 has them, for spreadsheets that take what comes from outside for formulas."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

Cell = str | int | None

# What spreadsheets take for the beginning of a formula, after OWASP's "CSV Injection"; also in full width.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_lines(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Write rows, each ended by CR LF, in UTF-8; an empty cell for None."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def defused(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: with an apostrophe before it when one might."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return defused(cell)
    return "" if cell is None else str(cell)
