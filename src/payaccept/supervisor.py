"""Keep a few child processes running, in order, and end them all: what `sandbox` and `serve` are made of.

It knows nothing of what the children do. A child is a way to start a process, a way to ask whether it is
ready, and the signals that stop it.

Nothing outlives the supervisor, whatever becomes of it:
1. A stop ends the children in reverse order, each with its whole process group.
2. Killed by SIGKILL, on Linux the kernel sends each child its own stop signal (`end_with_parent`).
3. A guard, one small shell that waits on a pipe from us, does the same on every system, and after a while
   kills the process groups of those that hang.
"""

import fcntl
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import FrameType, TracebackType
from typing import BinaryIO, Self

from payaccept.adapters.processes import Guard, end_group, end_with_parent, has_ended, how_it_ended

_FIRST_BACKOFF_S = 0.2
_LAST_BACKOFF_S = 5.0
_HEALTHY_S = 30.0  # after so long the next crash counts as the first
_SECOND_STAGE_S = 5.0  # what a child has after its second stop signal
_POLL_S = 0.05
_IDLE_S = 5.0  # SIGCHLD wakes us; this is the backstop
_ONE_REQUEST_S = 0.5  # a terminal and a wrapper may both pass on the same Ctrl-C
_LOG_TAIL_LINES = 12
_LOG_LIMIT_BYTES = 16 * 1024 * 1024


class SupervisorError(Exception):
    """A child could not be brought up; the message says why and ends with its last log lines."""


class DataDirectoryInUseError(Exception):
    """Another process works on this data directory."""


class Event(StrEnum):
    """What may happen to a child; each comes with a detail for a person."""

    STARTED = "started"  # detail: its process number
    READY = "ready"  # after how long
    EXITED = "exited"  # by itself: how
    RESTARTING = "restarting"  # after which pause
    FAILED = "failed"  # could not be started, or did not become ready: why
    STOPPING = "stopping"  # asked to, by which signal
    KILLED = "killed"  # it did not stop in time
    STOPPED = "stopped"  # because we asked: how it ended


@dataclass(frozen=True, slots=True)
class Child:
    """One child process.

    start: starts it, in a session of its own, and returns it; any exception means that it cannot be started.
        Called from the main thread, once more after each crash. It should not block for long.
    ready: whether it does its work now; None when running is enough. It should answer within a second.
    stop_signals: sent to the process one after the other; the first has `stop_timeout_s`. Then comes SIGKILL.
    log_path: where it writes, to show the last lines of a failure.
    """

    name: str
    start: "Callable[[], subprocess.Popen[bytes]]"
    ready: Callable[[], bool] | None = None
    ready_timeout_s: float = 30.0
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    stop_timeout_s: float = 10.0
    log_path: Path | None = None


def command(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log_path: Path | None = None,
    ready: Callable[[], bool] | None = None,
    ready_timeout_s: float = 30.0,
    stop_signal: signal.Signals = signal.SIGTERM,
    stop_timeout_s: float = 10.0,
) -> Child:
    """Describe a child that is a command; its output is appended to `log_path`, or goes where ours goes.

    env: its whole environment; None is ours.
    """

    def start() -> "subprocess.Popen[bytes]":
        with ExitStack() as opened:
            log = opened.enter_context(_open_log(log_path)) if log_path is not None else None
            return subprocess.Popen(
                list(argv),
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if log is None else subprocess.STDOUT,
                start_new_session=True,  # a terminal's Ctrl-C is ours alone to pass on
                preexec_fn=end_with_parent(stop_signal),  # noqa: PLW1509 - one system call, see there
            )

    return Child(
        name,
        start,
        ready=ready,
        ready_timeout_s=ready_timeout_s,
        stop_signals=(stop_signal,),
        stop_timeout_s=stop_timeout_s,
        log_path=log_path,
    )


def _open_log(path: Path) -> BinaryIO:
    with suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_LIMIT_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


@dataclass(slots=True)
class _Slot:
    """A child and its present process. Instants are of the monotonic clock, in seconds."""

    child: Child
    process: "subprocess.Popen[bytes] | None" = None
    begun: float = 0.0
    ready_since: float | None = None
    restart_due: float | None = None
    backoff_s: float = _FIRST_BACKOFF_S
    log_offset: int = 0


@dataclass(slots=True)
class Supervisor:
    """Runs children until it is told to stop by SIGINT, SIGTERM or SIGHUP. For the main thread only.

    on_event: called with the child's name, the event and a detail. It prints; the supervisor never does.
    orphan_patience_s: what the children have to end in when the supervisor was killed by SIGKILL.
    """

    children: Sequence[Child]
    on_event: Callable[[str, Event, str], None] = lambda _name, _event, _detail: None
    orphan_patience_s: float = 10.0
    _slots: list[_Slot] = field(init=False, default_factory=list)
    _guard: Guard = field(init=False)
    _stop_requests: int = field(init=False, default=0)
    _last_request: float = field(init=False, default=0.0)

    def run(self, on_all_ready: Callable[[], None] | None = None) -> None:
        """Start the children one after the other, keep them running, stop them when a signal asks for it.

        on_all_ready: called once, when every child has become ready.
        Returns when all are stopped. A second signal hastens that: each further one skips a stop signal.
        Raises: SupervisorError when a child fails at its first start; by then all others are stopped.
        """
        self._slots = [_Slot(child) for child in self.children]
        self._stop_requests = 0
        self._guard = Guard(self.orphan_patience_s)
        with _Signals(self._on_stop_signal) as signals:
            try:
                self._watch()
                for index in range(len(self._slots)):
                    self._bring_up(index, signals)
                if on_all_ready is not None and not self._stop_requests:
                    on_all_ready()
                while not self._stop_requests:
                    signals.wait(self._tend(self._slots))
            finally:
                for slot in reversed(self._slots):
                    self._stop(slot, signals)
                self._guard.dismiss()

    def _tell(self, name: str, event: Event, detail: str) -> None:
        with suppress(OSError):  # a terminal that is gone must not keep us from stopping the rest
            self.on_event(name, event, detail)

    def _watch(self) -> None:
        self._guard.watch(
            [(slot.child.stop_signals[0], slot.process.pid) for slot in self._slots if slot.process]
        )

    def _on_stop_signal(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self._stop_requests or now - self._last_request > _ONE_REQUEST_S:
            self._stop_requests += 1
            self._last_request = now

    def _bring_up(self, index: int, signals: "_Signals") -> None:
        """Start a child for the first time and wait until it is ready, tending those before it."""
        slot = self._slots[index]
        name = slot.child.name
        if self._stop_requests:
            return
        try:
            process = self._launch(slot)
        except Exception as error:
            raise SupervisorError(f"{name} cannot be started: {error}") from error
        while not self._stop_requests:
            self._tend(self._slots[:index])
            if has_ended(process):
                end_group(process)
                how = how_it_ended(process)
                raise SupervisorError(f"{name} ended before it was ready ({how}){_log_tail(slot)}")
            if self._has_become_ready(slot):
                return
            if time.monotonic() - slot.begun > slot.child.ready_timeout_s:
                limit = f"{slot.child.ready_timeout_s:g} s"
                raise SupervisorError(f"{name} was not ready within {limit}{_log_tail(slot)}")
            signals.wait(_POLL_S)

    def _launch(self, slot: _Slot) -> "subprocess.Popen[bytes]":
        with suppress(OSError):
            slot.log_offset = 0 if slot.child.log_path is None else slot.child.log_path.stat().st_size
        slot.restart_due = None
        slot.ready_since = None
        slot.begun = time.monotonic()
        slot.process = slot.child.start()
        self._watch()
        self._tell(slot.child.name, Event.STARTED, f"process {slot.process.pid}")
        return slot.process

    def _has_become_ready(self, slot: _Slot) -> bool:
        if slot.child.ready is not None and not slot.child.ready():
            return False
        slot.ready_since = time.monotonic()
        self._tell(slot.child.name, Event.READY, f"after {slot.ready_since - slot.begun:.2f} s")
        return True

    def _tend(self, slots: Sequence[_Slot]) -> float:
        """Look after every child once.

        Returns: after how many seconds to look again.
        """
        return min((self._tend_one(slot) for slot in slots), default=_IDLE_S)

    def _tend_one(self, slot: _Slot) -> float:
        name = slot.child.name
        if slot.process is None:
            left = (slot.restart_due or 0.0) - time.monotonic()
            if left > 0:
                return left
            try:
                self._launch(slot)
            except Exception as error:  # noqa: BLE001 - a start is free to fail as it likes; it is told and retried
                self._tell(name, Event.FAILED, str(error))
                return self._restart_later(slot)
        elif has_ended(slot.process):
            end_group(slot.process)
            self._tell(name, Event.EXITED, how_it_ended(slot.process))
            return self._restart_later(slot)
        elif slot.ready_since is None and not self._has_become_ready(slot):
            if time.monotonic() - slot.begun > slot.child.ready_timeout_s:
                end_group(slot.process)
                self._tell(name, Event.FAILED, f"was not ready within {slot.child.ready_timeout_s:g} s")
                return self._restart_later(slot)
            return _POLL_S
        return _IDLE_S if slot.ready_since is not None else _POLL_S

    def _restart_later(self, slot: _Slot) -> float:
        now = time.monotonic()
        if slot.ready_since is not None and now - slot.ready_since >= _HEALTHY_S:
            slot.backoff_s = _FIRST_BACKOFF_S
        pause_s = slot.backoff_s
        slot.backoff_s = min(pause_s * 2, _LAST_BACKOFF_S)
        slot.process = None
        slot.restart_due = now + pause_s
        self._watch()
        self._tell(slot.child.name, Event.RESTARTING, f"in {pause_s:g} s")
        return pause_s

    def _stop(self, slot: _Slot, signals: "_Signals") -> None:
        process = slot.process
        if process is None:
            return
        for stage, number in enumerate(slot.child.stop_signals):
            if has_ended(process) or self._stop_requests - 1 > stage:
                continue
            self._tell(slot.child.name, Event.STOPPING, number.name)
            process.send_signal(number)
            deadline = time.monotonic() + (_SECOND_STAGE_S if stage else slot.child.stop_timeout_s)
            while not has_ended(process) and self._stop_requests - 1 <= stage:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                signals.wait(left)
        if not has_ended(process):
            self._tell(slot.child.name, Event.KILLED, "it did not stop in time")
        end_group(process)
        self._tell(slot.child.name, Event.STOPPED, how_it_ended(process))
        slot.process = None
        self._watch()


class _Signals:
    """Takes SIGINT, SIGTERM, SIGHUP and SIGCHLD in the supervisor's place; it sleeps until one comes."""

    def __init__(self, on_stop: Callable[[int, FrameType | None], None]) -> None:
        self._on_stop = on_stop
        self._opened = ExitStack()
        self._wake: socket.socket | None = None

    def __enter__(self) -> Self:
        ours, pythons = socket.socketpair()
        for end in (ours, pythons):
            end.settimeout(0)
            self._opened.callback(end.close)
        previous = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        self._opened.callback(signal.set_wakeup_fd, previous)
        handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), self._on_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it stays ignored
            handlers[signal.SIGHUP] = self._on_stop
        handlers[signal.SIGCHLD] = lambda _number, _frame: None
        for number, handler in handlers.items():
            self._opened.callback(signal.signal, number, signal.signal(number, handler))
        self._wake = ours
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def wait(self, timeout_s: float) -> None:
        """Sleep until a signal comes, at most so long. A signal that came before is not missed."""
        if self._wake is None or not select.select([self._wake], [], [], timeout_s)[0]:
            return
        with suppress(BlockingIOError):
            self._wake.recv(4096)


def _log_tail(slot: _Slot) -> str:
    """Return the last lines written since the child's start, each indented on a line of its own."""
    path = slot.child.log_path
    if path is None:
        return ""
    try:
        with path.open("rb") as log:
            log.seek(max(slot.log_offset, path.stat().st_size - 16 * 1024))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    if not lines:
        return f"; its log {path} is empty"
    return f"; the end of {path}:" + "".join(f"\n    {line}" for line in lines[-_LOG_TAIL_LINES:])


class SingleInstance:
    """A lock on a data directory, held until `release` or the end of this process.

    The directory is made, closed to others, when it is missing.
    Raises: DataDirectoryInUseError; OSError when the directory cannot be used.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, at once or not at all."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 20).decode(errors="replace").strip()
            os.close(lock)
            by = f" (process {holder})" if holder else ""
            raise DataDirectoryInUseError(f"another payaccept is running on {self.data_dir}{by}") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would race with the next taker."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
