"""The named statements in `sql/*.sql`: `-- name: insert_payments` starts one."""

import re
from functools import cache
from importlib import resources
from typing import Final, LiteralString, cast

_NAME: Final = re.compile(r"^-- name: (?P<name>[a-z_]+)$", re.MULTILINE)


@cache
def load(file_name: str) -> dict[str, LiteralString]:
    """Return the statements of one file by name."""
    text = (resources.files(__package__) / "sql" / file_name).read_text(encoding="utf-8")
    pieces = _NAME.split(text)
    # The files are part of the program, never of anybody's input.
    return {
        name: cast("LiteralString", body.strip())
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }
