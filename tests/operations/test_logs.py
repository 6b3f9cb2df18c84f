"""What is logged of the database's errors."""

import json
import logging

import psycopg
import pytest

from payaccept import logs


def test_a_broken_constraint_is_named_and_its_row_is_not(postgres, capfd):
    body = "a pair of green shoes"
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure("test")
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(
                "CREATE TEMPORARY TABLE t (body text, CONSTRAINT t_body_check CHECK (body = ''))"
            )
            with pytest.raises(psycopg.Error, match=body) as broken:
                connection.execute("INSERT INTO t VALUES (%s)", (body,))
        logging.getLogger("payaccept.test").error("it failed", exc_info=broken.value)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    [line] = capfd.readouterr().err.splitlines()
    assert body not in line
    assert "CheckViolation: SQLSTATE 23514, constraint t_body_check" in json.loads(line)["exception"]
