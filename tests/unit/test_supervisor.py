"""The supervisor, with real but tiny children."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from payaccept.adapters import processes
from payaccept.supervisor import (
    Child,
    DataDirectoryInUseError,
    Event,
    SingleInstance,
    Supervisor,
    SupervisorError,
    command,
)

PYTHON = (sys.executable, "-I", "-S", "-c")
WAITS = "import time; time.sleep(60)"
# Ends in an orderly way when asked, and says so.
POLITE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
print("up", flush=True)
while True: signal.pause()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True: signal.pause()
"""
# Leaves a process of its own behind, and tells its number.
WITH_OFFSPRING = """
import signal, subprocess, sys
inner = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
print(subprocess.Popen([sys.executable, "-I", "-S", "-c", inner]).pid, flush=True)
signal.pause()
"""


class Recorder:
    """Remembers what happened, and stops the supervisor when a condition holds."""

    def __init__(self, stop_when: Callable[["Recorder"], bool]) -> None:
        self.events: list[tuple[str, Event, str]] = []
        self.pids: list[int] = []
        self._stop_when = stop_when
        self._asked = False

    def __call__(self, name: str, event: Event, detail: str) -> None:
        self.events.append((name, event, detail))
        if event is Event.STARTED:
            self.pids.append(int(detail.removeprefix("process ")))
        if not self._asked and self._stop_when(self):
            self._asked = True
            os.kill(os.getpid(), signal.SIGTERM)

    def of(self, event: Event) -> list[str]:
        return [name for name, happened, _detail in self.events if happened is event]


def child(tmp_path: Path, code: str, name: str = "one", **options: object) -> Child:
    log = tmp_path / f"{name}.log"
    options.setdefault("ready", lambda: log.exists() and log.stat().st_size > 0)
    return command(name, [*PYTHON, code], log_path=log, **options)  # type: ignore[arg-type]


def is_running(pid: int) -> bool:
    """Zombies that nobody reaps yet do not run."""
    answer = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True
    )
    return bool(answer.stdout.strip()) and not answer.stdout.startswith("Z")


def wait_until(holds: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_children_start_in_order_and_stop_in_reverse(tmp_path):
    recorder = Recorder(lambda seen: len(seen.of(Event.READY)) == 3)
    children = [child(tmp_path, POLITE, name) for name in ("first", "second", "third")]
    all_ready = []
    Supervisor(children, recorder).run(lambda: all_ready.append(True))
    assert [name for name, event, _ in recorder.events if event in (Event.STARTED, Event.READY)] == [
        "first", "first", "second", "second", "third", "third",
    ]  # fmt: skip
    assert recorder.of(Event.STOPPED) == ["third", "second", "first"]
    assert {detail for _, event, detail in recorder.events if event is Event.STOPPED} == {"exit status 0"}
    assert not any(map(is_running, recorder.pids))
    assert (tmp_path / "first.log").read_text() == "up\nbye\n"


def test_a_crashed_child_is_restarted_with_growing_pauses_and_the_others_are_left_alone(tmp_path):
    def crash_twice(seen: Recorder) -> bool:
        ready = seen.of(Event.READY)
        if seen.events[-1][:2] == ("two", Event.READY) and ready.count("two") < 3:
            os.kill(seen.pids[-1], signal.SIGKILL)
        return ready.count("two") == 3

    recorder = Recorder(crash_twice)
    Supervisor([child(tmp_path, POLITE, "one"), child(tmp_path, POLITE, "two")], recorder).run()
    assert recorder.of(Event.STARTED) == ["one", "two", "two", "two"]
    details = [detail for _, event, detail in recorder.events if event in (Event.EXITED, Event.RESTARTING)]
    assert details == ["killed by SIGKILL", "in 0.2 s", "killed by SIGKILL", "in 0.4 s"]


def test_a_child_that_ends_before_it_is_ready_stops_all_and_shows_its_last_words(tmp_path):
    recorder = Recorder(lambda _seen: False)
    children = [
        child(tmp_path, POLITE, "one"),
        child(tmp_path, "print('port 80 is taken'); raise SystemExit(3)", "two", ready=lambda: False),
    ]
    with pytest.raises(
        SupervisorError, match=r"(?s)two ended before it was ready \(exit status 3\).*port 80"
    ):
        Supervisor(children, recorder).run()
    assert not any(map(is_running, recorder.pids))


def test_a_child_that_never_becomes_ready_stops_all(tmp_path):
    recorder = Recorder(lambda _seen: False)
    hopeless = child(tmp_path, WAITS, ready=lambda: False, ready_timeout_s=0.2)
    with pytest.raises(SupervisorError, match=r"one was not ready within 0\.2 s"):
        Supervisor([hopeless], recorder).run()
    assert not any(map(is_running, recorder.pids))


def test_a_child_that_cannot_be_started_is_told_in_one_line(tmp_path):
    with pytest.raises(SupervisorError, match=r"one cannot be started: .*no-such-program"):
        Supervisor([command("one", [str(tmp_path / "no-such-program")])]).run()


def test_a_start_that_fails_later_is_tried_again(tmp_path):
    good = child(tmp_path, POLITE)
    attempts = []

    def start() -> "subprocess.Popen[bytes]":
        attempts.append(1)
        if len(attempts) == 2:
            raise RuntimeError("not just now")
        return good.start()

    def crash_once(seen: Recorder) -> bool:
        if seen.of(Event.READY) == ["one"] and seen.events[-1][1] is Event.READY:
            os.kill(seen.pids[-1], signal.SIGKILL)
        return len(seen.of(Event.READY)) == 2

    recorder = Recorder(crash_once)
    Supervisor([Child("one", start, ready=good.ready)], recorder).run()
    assert ("one", Event.FAILED, "not just now") in recorder.events
    assert len(attempts) == 3


def test_a_child_that_does_not_stop_is_killed_after_its_time(tmp_path):
    recorder = Recorder(lambda seen: bool(seen.of(Event.READY)))
    begun = time.monotonic()
    Supervisor([child(tmp_path, STUBBORN, stop_timeout_s=0.3)], recorder).run()
    assert recorder.of(Event.KILLED) == ["one"]
    assert time.monotonic() - begun < 5
    assert not any(map(is_running, recorder.pids))


def test_a_second_signal_hastens_the_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("payaccept.supervisor._ONE_REQUEST_S", 0.0)

    recorder = Recorder(lambda seen: bool(seen.of(Event.READY)))

    def stop_again(name: str, event: Event, detail: str) -> None:
        recorder(name, event, detail)
        if event is Event.STOPPING:
            os.kill(os.getpid(), signal.SIGINT)

    begun = time.monotonic()
    Supervisor([child(tmp_path, STUBBORN, stop_timeout_s=60)], stop_again).run()
    assert recorder.of(Event.KILLED) == ["one"]
    assert time.monotonic() - begun < 5


def test_stop_signals_are_sent_one_after_the_other(tmp_path):
    gentle = child(tmp_path, STUBBORN, stop_timeout_s=0.2)
    both = Child(
        "one", gentle.start, gentle.ready, stop_signals=(signal.SIGTERM, signal.SIGQUIT), stop_timeout_s=0.2
    )
    recorder = Recorder(lambda seen: bool(seen.of(Event.READY)))
    Supervisor([both], recorder).run()
    assert [detail for _, event, detail in recorder.events if event is Event.STOPPING] == [
        "SIGTERM",
        "SIGQUIT",
    ]
    assert recorder.events[-1] == ("one", Event.STOPPED, "killed by SIGQUIT")


@pytest.mark.parametrize("crashes", [False, True], ids=["stopped", "crashed"])
def test_the_whole_process_group_of_a_child_ends_with_it(tmp_path, crashes):
    def act(seen: Recorder) -> bool:
        if crashes and seen.events[-1][1] is Event.READY:
            os.kill(seen.pids[-1], signal.SIGKILL)
        return Event.EXITED in {event for _, event, _ in seen.events} or not crashes

    recorder = Recorder(lambda seen: bool(seen.of(Event.READY)) and act(seen))
    Supervisor([child(tmp_path, WITH_OFFSPRING)], recorder).run()
    offspring = int((tmp_path / "one.log").read_text().split()[0])
    assert not is_running(offspring)


SUPERVISES = """
import sys
from pathlib import Path
from payaccept.supervisor import Supervisor, command
logs = Path(sys.argv[1])
children = [
    command(f"c{number}", [sys.executable, "-I", "-S", "-c", code], log_path=logs / f"c{number}.log")
    for number, code in enumerate(sys.argv[2:])
]
supervisor = Supervisor(children, lambda *event: print(*event, flush=True), orphan_patience_s=0.3)
supervisor.run(lambda: print("all ready", flush=True))
"""


def test_a_supervisor_killed_by_sigkill_leaves_nothing_behind(tmp_path):
    children = [POLITE, WITH_OFFSPRING]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISES, str(tmp_path), *children], stdout=subprocess.PIPE, text=True
    )
    pids = []
    with supervisor:
        assert supervisor.stdout is not None
        for line in supervisor.stdout:
            if line.startswith("all ready"):
                break
            if " started process " in line:
                pids.append(int(line.split()[-1]))
        wait_until(lambda: "\n" in (tmp_path / "c1.log").read_text())
        pids.append(int((tmp_path / "c1.log").read_text()))
        assert all(map(is_running, pids))
        supervisor.kill()
    wait_until(lambda: not any(map(is_running, pids[:2])), timeout_s=3)
    # What a dead child left in its group, deaf to SIGTERM, is the guard's to end.
    wait_until(lambda: not is_running(pids[2]), timeout_s=5)
    assert (tmp_path / "c0.log").read_text() == "up\nbye\n"


def test_a_guard_that_was_killed_is_replaced(tmp_path):
    guard = processes.Guard()
    guard.watch([])
    assert guard._process is not None
    guard._process.kill()
    guard._process.wait()
    guard.watch([])
    assert guard._process.poll() is None
    guard.dismiss()


def test_the_handlers_of_signals_are_put_back(tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    Supervisor([child(tmp_path, POLITE)], Recorder(lambda seen: bool(seen.of(Event.READY)))).run()
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_data_directory_is_held_by_one_at_a_time(tmp_path):
    data_dir = tmp_path / "data"
    with SingleInstance(data_dir):
        assert data_dir.stat().st_mode & 0o777 == 0o700
        with pytest.raises(DataDirectoryInUseError, match=rf"running on .*data \(process {os.getpid()}\)"):
            SingleInstance(data_dir).acquire()
    with SingleInstance(data_dir):
        pass
