"""Child processes as the operating system offers them: how they end, and how they end with their parent."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, prctl(2)
_GROUP_S = 0.5  # orphans are reaped by process 1, which takes its time or never does it

# Each line from the pipe is the whole present list of SIGNAL:PID. When the pipe ends, our parent is dead.
_GUARD = """
trap '' HUP INT QUIT TERM
children=
while read -r line; do children=$line; done
for child in $children; do kill -s "${child%%:*}" "${child##*:}"; done 2>/dev/null
tries=0
while [ "$tries" -lt "$1" ]; do
  left=
  for child in $children; do kill -s 0 -- "-${child##*:}" 2>/dev/null && left=yes; done
  [ -n "$left" ] || exit 0
  sleep 0.1
  tries=$((tries + 1))
done
for child in $children; do kill -s KILL -- "-${child##*:}"; done 2>/dev/null
"""


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Make a `preexec_fn` that has Linux signal the child when the thread that starts it ends.

    It must run after the child's change of user, which would undo it; `subprocess` sees to that order.
    Returns None where there is no such thing (macOS).
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)  # loaded now: as little as possible may happen between fork and exec
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(number))
        if os.getppid() != parent:  # it ended before we could ask
            os._exit(1)

    return ask


def has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether a child has ended, without reaping it where that is possible (macOS: from Python 3.13)."""
    if process.returncode is None and hasattr(os, "waitid"):
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True
    return process.poll() is not None


def how_it_ended(process: "subprocess.Popen[bytes]") -> str:
    """`exit status 1`, `killed by SIGKILL`; `still running` before that."""
    code = process.poll()
    if code is None:
        return "still running"
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the process group that a child leads, and reap the child.

    In this order: as long as the child is not reaped, its number cannot belong to another group.
    """
    with suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies is "not permitted"
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + _GROUP_S
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.005)


class Guard:
    """A small shell that ends our children when we are gone without having done so.

    It sends each child its signal; the process groups still there after `patience_s` it kills.
    """

    def __init__(self, patience_s: float = 10.0) -> None:
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def watch(self, children: Sequence[tuple[signal.Signals, int]]) -> None:
        """Say who is to be ended: the stop signal and the number of each process group's leader."""
        entries = (f"{number.name.removeprefix('SIG')}:{pid}" for number, pid in children)
        line = (" ".join(entries) + "\n").encode()
        if self._process is None:
            self._begin()
        try:
            os.write(self._pipe, line)
        except BrokenPipeError:  # somebody killed it
            self.dismiss()
            self._begin()
            os.write(self._pipe, line)

    def dismiss(self) -> None:
        """End the guard; nobody may be left to watch."""
        if self._process is not None:
            os.close(self._pipe)
            self._process.wait()
            self._process = None

    def _begin(self) -> None:
        theirs, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "payaccept-guard", str(round(self._patience_s * 10))],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(theirs)
