"""What goes to the log: JSON, with the ids of what is under way, and no word of a request in it."""

import asyncio
import io
import json
import logging
import sys
from typing import Any

import psycopg
import pytest

from payaccept import logs, trace
from payaccept.domain.errors import StoreUnavailable
from payaccept.line_log import LineLog

QUOTED = "281012020262467128"


@pytest.fixture
def written(monkeypatch) -> Any:
    """A function that returns what was logged since, one object a line."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure("test")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)


log = logging.getLogger("payaccept.test")


def fail(error: BaseException) -> None:
    raise error


def log_raised(error: BaseException) -> None:
    try:
        fail(error)
    except BaseException:
        log.exception("it failed", extra={"eventId": "evt_1"})


def test_a_line_says_who_says_it_and_when(written):
    log.info("done", extra={"eventId": "evt_1"})
    [line] = written()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "done",
        "eventId": "evt_1",
        "level": "info",
        "logger": "payaccept.test",
        "process": "test",
    }


async def test_while_a_request_is_served_every_line_names_it_and_its_payment(written):
    async def serve(number: int) -> None:
        trace.begin(f"req_{number}")
        log.info("begun")
        await asyncio.sleep(0)
        trace.name_payment(f"pay_{number}")
        await asyncio.to_thread(log.info, "in a thread")

    await asyncio.gather(*(asyncio.create_task(serve(number)) for number in range(3)))
    log.info("nobody's")
    lines = written()
    assert [line["requestId"] for line in lines[:3]] == ["req_0", "req_1", "req_2"]
    assert all("paymentId" not in line for line in lines[:3])
    later = sorted((line["requestId"], line["paymentId"]) for line in lines[3:6])
    assert later == [("req_0", "pay_0"), ("req_1", "pay_1"), ("req_2", "pay_2")]
    assert "requestId" not in lines[6]


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"invalid literal for int() with base 10: '{QUOTED}'"),
        KeyError(QUOTED),
        UnicodeEncodeError("ascii", QUOTED, 0, 1, QUOTED),
        json.JSONDecodeError(QUOTED, QUOTED, 0),
        psycopg.DataError(f"cannot dump {QUOTED}"),
        psycopg.errors.CheckViolation(f"DETAIL: Failing row contains ({QUOTED})"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_an_exception_quotes_is_left_out(written, error):
    log_raised(error)
    [line] = written()
    assert QUOTED not in json.dumps(line)
    assert type(error).__name__ in line["exception"]
    assert "in log_raised" in line["exception"]
    assert line["eventId"] == "evt_1"


@pytest.mark.parametrize(
    "error",
    [
        TypeError("unsupported operand"),
        ConnectionResetError(104, "Connection reset by peer"),
        StoreUnavailable("the database is away"),
        AttributeError("no attribute"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_about_the_code_or_the_system_stays(written, error):
    log_raised(error)
    [line] = written()
    assert str(error) in line["exception"]


def test_of_a_chain_and_of_a_group_each_is_told(written):
    try:
        try:
            fail(ValueError(QUOTED))
        except ValueError as first:
            raise ExceptionGroup("several", [TypeError("the second"), KeyError(QUOTED)]) from first
    except ExceptionGroup:
        log.exception("it failed")
    [line] = written()
    told = line["exception"]
    assert QUOTED not in told
    assert told.index("ValueError") < told.index("which led to") < told.index("TypeError: the second")
    assert "KeyError" in told


def test_an_endless_recursion_is_told_in_short(written):
    def again() -> None:
        again()

    try:
        again()
    except RecursionError:
        log.exception("it failed")
    [line] = written()
    assert 0 < line["exception"].count("in again") <= 20


async def test_a_task_that_nobody_waited_for_does_not_quote_either(written):
    async def serve() -> None:
        fail(ValueError(QUOTED))

    task = asyncio.create_task(serve())
    await asyncio.wait([task])
    context = {"message": "Task exception was never retrieved", "exception": task.exception(), "future": task}
    asyncio.get_running_loop().default_exception_handler(context)
    [line] = written()
    assert line["event"] == "Task exception was never retrieved"
    assert QUOTED not in json.dumps(line)


async def test_lines_that_nobody_takes_are_counted(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        lines = LineLog("request", file.fileno())
        for number in range(20_003):
            lines.write(number=number)
        assert lines.lost_total == 3
        await lines.close()
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(written) == 20_001
    assert written[-1] == {"event": "request lines lost", "count": 3}
    assert lines.lost_total == 3
