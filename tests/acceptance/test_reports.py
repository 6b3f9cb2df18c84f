"""The reconciliation file from the command line: of days that are over, whole or not at all."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from event_rows import insert_events
from processes import Sandbox, one_line, payaccept


@pytest.fixture
async def client_id(sandbox: Sandbox) -> str:
    made = await sandbox.acli("merchant", "create", "--name", "Corner shop")
    return str(made["clientId"])


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_a_day_that_is_over_is_written_whole_and_the_same_each_time(
    sandbox: Sandbox, client_id: str, tmp_path: Path
) -> None:
    at = datetime.now(UTC) - timedelta(days=3)
    insert_events(sandbox.database_url, client_id, [at, at])
    command = ("report", "reconciliation", client_id, "--day", f"{at.date()}", "--data-dir", sandbox.data_dir)
    printed = payaccept(*command)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["rowType", "PAYMENT", "PAYMENT", "TOTAL", "END"]
    for name in ("one.csv", "two.csv"):
        assert payaccept(*command, "-o", tmp_path / name).returncode == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert (tmp_path / "one.csv").read_bytes().count(b"\r\n") == len(lines)
    assert names(tmp_path) == ["one.csv", "two.csv"]


async def test_what_cannot_be_written_is_said_in_a_line_and_leaves_no_file(
    sandbox: Sandbox, client_id: str, tmp_path: Path
) -> None:
    today = f"{datetime.now(UTC).date()}"
    file = tmp_path / "day.csv"
    where = ("-o", file, "--data-dir", sandbox.data_dir)
    early = payaccept("report", "reconciliation", client_id, "--day", today, *where)
    assert early.returncode == 1
    assert "not complete yet" in one_line(early.stderr)
    assert names(tmp_path) == []
    assert (
        payaccept("report", "reconciliation", client_id, "--day", today, "--so-far", *where).returncode == 0
    )
    assert file.read_text().splitlines()[-1] == f"END,{today},,,,,,,,,,0,,"
    wrong = payaccept("report", "reconciliation", client_id, "--day", "1.3.2026", *where)
    assert wrong.returncode == 2
    assert "2026-01-31" in one_line(wrong.stderr)
    unknown = payaccept("report", "reconciliation", "sandbox_none", "--day", "2026-03-01", *where)
    assert unknown.returncode == 1
    nowhere = ("-o", tmp_path / "none" / "x.csv", "--data-dir", sandbox.data_dir)
    lost = payaccept("report", "reconciliation", client_id, "--day", "2026-03-01", *nowhere)
    assert lost.returncode == 1
    assert "No such file" in one_line(lost.stderr)
