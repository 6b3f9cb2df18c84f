"""Merchants who have nothing of ours: one of openssl and curl, one of Node's crypto."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from processes import Sandbox, environment

HERE = Path(__file__).parent
PAID = ("paid by QR code: pay_", "paid at the till: pay_", "paid by link: acq_")


def run(sandbox: Sandbox, *command: str) -> str:
    for program in ("bash", "curl", "openssl", "python3") if command[0] == "bash" else command[:1]:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    done = subprocess.run(
        [*command, sandbox.data_dir / "demo-merchant.json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def shows_everything(said: str) -> None:
    for line in PAID:
        assert line in said
    verified = re.findall(r"webhook verified: payment\.succeeded (\w+)", said)
    assert sorted(verified) == ["link", "qr", "retail"]
    assert "an altered webhook is rejected" in said


def test_a_merchant_of_openssl_and_curl_takes_every_kind_of_payment_and_verifies_webhooks(
    sandbox: Sandbox,
) -> None:
    said = run(sandbox, "bash", str(HERE / "merchant.sh"))
    shows_everything(said)
    assert "a repeated request is refused" in said


def test_a_merchant_of_nodes_crypto_takes_every_kind_of_payment_and_verifies_webhooks(
    sandbox: Sandbox,
) -> None:
    shows_everything(run(sandbox, "node", str(HERE / "merchant.mjs")))
