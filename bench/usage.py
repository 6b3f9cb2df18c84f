"""What processes have used: processor time and memory, as Linux counts them."""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Return the seconds of processor time that all threads of a process have used, user and system."""
    user, system, _, _ = _times(pid)
    return user + system


def tree_processor_s(pid: int) -> float:
    """Return the same for a process, its children, and those of its children that have ended."""
    total = sum(_times(pid))
    for child in children(pid):
        try:
            total += sum(_times(child)[:2])
        except OSError:  # it has just ended
            continue
    return total


def resident_mib(pid: int) -> float:
    """Return a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no resident memory")


def has_ended(pid: int) -> bool:
    """Tell whether a child process has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def children(pid: int) -> list[int]:
    """Return the process numbers of a process's children."""
    listed = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted(int(child) for child in " ".join(listed).split())


def _times(pid: int) -> list[float]:
    """Return user, system, and both of the children that have ended, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) / _TICKS_PER_S for field in fields[11:15]]
