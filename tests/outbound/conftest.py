"""These tests run on both event loops: the one the worker runs on, and the one of the standard library.

A module says `pytestmark = pytest.mark.asyncio(loop_scope="module")`: of the session's loop there is only one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

from certificates import Authority


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever an endpoint does, it is no error of ours, and gets no stack trace into the log."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
