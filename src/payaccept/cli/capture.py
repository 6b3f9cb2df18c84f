"""Captured requests, read from a file or from standard input."""

import sys
from pathlib import Path
from typing import Final

from payaccept.cli.terminal import Mistake
from payaccept.wire import capture

MAX_CAPTURE_BYTES: Final = 256 * 1024


def read_input(source: str, limit_bytes: int) -> bytes:
    """Read a file, or stdin for `-`, as bytes.

    Raises: Mistake when it cannot be read, or is longer than the limit.
    """
    try:
        if source == "-":
            content = sys.stdin.buffer.read(limit_bytes + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read(limit_bytes + 1)
    except OSError as error:
        raise Mistake(f"{source} cannot be read: {error.strerror}") from None
    if len(content) > limit_bytes:
        raise Mistake(f"{source} is larger than {limit_bytes // 1024} KiB")
    return content


def parse(content: bytes) -> capture.Capture:
    """Read a capture. Raises: Mistake when it is none."""
    try:
        return capture.parse(content)
    except capture.CaptureUnreadable as unreadable:
        raise Mistake(str(unreadable)) from None
