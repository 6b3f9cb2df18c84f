"""`payaccept sandbox` as its user meets it: started, started again, refused, stopped."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import psycopg
import pytest

from payaccept.adapters.postgres.embedded import EmbeddedPostgres
from processes import Sandbox, environment, free_port, one_line, payaccept, wait_until
from traffic import Till


def start_in_vain(data_dir: Path, *options: object, code: int = 1) -> str:
    """Start a sandbox that cannot be started; returns its one line."""
    ports = ("--portal-port", free_port())
    if "--api-port" not in options:
        ports += ("--api-port", free_port())
    done = payaccept("sandbox", "--data-dir", data_dir, *ports, *options)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    return one_line(done.stderr)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_first_start_makes_everything_and_a_second_goes_on_with_it(directory: Path) -> None:
    data_dir = directory / "new" / "data"
    data_dir.parent.mkdir()
    with Sandbox(data_dir) as sandbox:
        told = json.loads((data_dir / "demo-merchant.json").read_bytes())
        assert told == {
            "baseUrl": sandbox.base_url,
            "clientId": told["clientId"],
            "keyVersion": 1,
            "privateKeyFile": str(data_dir / "demo-merchant-key.pem"),
            "portalUser": "demo@merchant.example",
            "portalPassword": told["portalPassword"],
            "webhookKeysUrl": f"{sandbox.base_url}/.well-known/payaccept/webhook-keys",
            "portalUrl": f"http://127.0.0.1:{sandbox.portal_port}",
        }
        assert len(told["portalPassword"]) == 20
        assert told["clientId"].startswith("sandbox_")
        assert mode(data_dir) == 0o700
        for secret in ("demo-merchant-key.pem", "demo-merchant.json", "master.key"):
            assert mode(data_dir / secret) == 0o600
        for closed in ("postgres", "run", "logs"):
            assert mode(data_dir / closed) == 0o700
        async with Till(sandbox.base_url, sandbox.demo_merchant()) as till:
            paid = await till.create("retailPay")
        said = sandbox.output.read_text()
        for part in (
            sandbox.base_url,
            told["clientId"],
            told["portalUrl"],
            told["portalPassword"],
            "payaccept pay qr",
        ):
            assert part in said

        in_use = start_in_vain(data_dir)
        assert "another payaccept is running" in in_use
        assert str(data_dir) in in_use
        port_taken = start_in_vain(directory / "other", "--api-port", sandbox.api_port)
        assert f"port {sandbox.api_port}" in port_taken
        assert "--api-port" in port_taken

        assert sandbox.stop(signal.SIGTERM) == 0
        assert sandbox.left_running() == []
    assert "Stopped." in sandbox.output.read_text()
    assert list((data_dir / "run").iterdir()) == []

    with Sandbox(data_dir) as again:  # on other ports
        assert again.base_url != sandbox.base_url
        changed = json.loads((data_dir / "demo-merchant.json").read_bytes())
        assert changed["baseUrl"] == again.base_url
        assert changed["clientId"] == told["clientId"]
        assert changed["privateKeyFile"] == told["privateKeyFile"]
        async with Till(again.base_url, again.demo_merchant()) as till:
            found = await till.inquire(paymentRequestId=paid.value["paymentRequestId"])
        assert found.value["paymentId"] == paid.value["paymentId"]
        assert again.stop(signal.SIGINT) == 0
        assert again.left_running() == []

    refuses_a_newer_schema(data_dir)


def refuses_a_newer_schema(data_dir: Path) -> None:
    with (
        EmbeddedPostgres(data_dir) as postgres,
        psycopg.connect(postgres.url(), autocommit=True) as connection,
    ):
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'of_the_future', now())")
    assert "upgrade payaccept" in start_in_vain(data_dir)
    assert not (data_dir / "postgres" / "postmaster.pid").exists()


def test_the_data_of_a_newer_version_is_not_touched(directory: Path) -> None:
    for layout in ("2\n", "2026\n", "of the future\n"):
        (directory / "layout").write_text(layout)
        assert "newer version" in start_in_vain(directory)
        assert sorted(path.name for path in directory.iterdir()) == ["layout", "lock", "logs"]


@pytest.mark.parametrize("place", ["under-a-file", "not-writable", "a-file", "of-another-postgresql"])
def test_a_data_directory_that_cannot_be_used_is_told_in_one_line(place: str, directory: Path) -> None:
    data_dir = directory / "data"
    if place == "under-a-file":
        data_dir.touch()
        data_dir = data_dir / "below"
    elif place == "not-writable":
        data_dir = Path("/proc/payaccept") if os.geteuid() == 0 else data_dir
        directory.chmod(0o500)
    elif place == "a-file":
        data_dir.touch()
    else:
        (data_dir / "postgres").mkdir(parents=True)
        (data_dir / "postgres" / "PG_VERSION").write_text("9\n")
        if os.geteuid() == 0:
            os.chown(data_dir / "postgres", 65534, 65534)
    try:
        assert str(data_dir) in start_in_vain(data_dir)
    finally:
        directory.chmod(0o700)


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--settle-delay", "soon", "PAYACCEPT_SETTLE_DELAY_S"),
        ("--settle-delay", "-1", "PAYACCEPT_SETTLE_DELAY_S"),
        ("--order-expiry", "nan", "PAYACCEPT_ORDER_EXPIRY_S"),
        ("--retry-schedule", "5,x", "PAYACCEPT_RETRY_SCHEDULE_S"),
        ("--webhook-timeout", "", "PAYACCEPT_WEBHOOK_TIMEOUT_S"),
        ("--api-port", "0", "--api-port"),
        ("--api-workers", "0", "--api-workers"),
    ],
)
def test_an_option_that_makes_no_sense_is_told_in_one_line(
    option: str, value: str, named: str, directory: Path
) -> None:
    assert named in start_in_vain(directory / "data", option, value, code=2)
    assert not (directory / "data").exists()


def test_a_database_that_is_not_there_and_a_host_that_is_not_ours_are_told_in_one_line(
    directory: Path,
) -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    assert "database" in start_in_vain(directory / "data", "--database-url", url)
    assert "192.0.2.1" in start_in_vain(directory / "data", "--host", "192.0.2.1")
    assert "no-such-host.invalid" in start_in_vain(directory / "data", "--host", "no-such-host.invalid")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_first_start_may_be_cut_short_at_any_point_and_the_next_one_completes_it(
    number: signal.Signals, directory: Path
) -> None:
    data_dir = directory / "data"
    for made in ("lock", "postgres/postmaster.pid", "demo-merchant-key.pem"):
        (data_dir / "lock").unlink(missing_ok=True)
        sandbox = Sandbox(data_dir)
        with sandbox.output.open("wb") as output:
            sandbox.process = subprocess.Popen(
                sandbox.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
        try:
            wait_until((data_dir / made).exists, f"{made} is there", 30)
            if number is not signal.SIGKILL:
                assert sandbox.stop(number) == 0, sandbox.output.read_text()
                assert sandbox.left_running() == []
        finally:
            sandbox.kill_everything()
        assert "Traceback" not in sandbox.output.read_text()
    with Sandbox(data_dir) as complete:
        told = json.loads((data_dir / "demo-merchant.json").read_bytes())
        assert told["clientId"] in [merchant["clientId"] for merchant in complete.cli("merchant", "list")]
