"""docs/configuration.md says what the code does."""

import re
from pathlib import Path

import pytest

from payaccept import cli
from payaccept.adapters.postgres.embedded import default_data_dir
from payaccept.cli.merchant_options import default_file
from payaccept.cli.sandbox import _sandbox_defaults
from payaccept.config import VARIABLES, Settings, from_environ

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(PAYACCEPT_\w+)` \| ([^|]*) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE)
ROWS = {name: (default.strip(), sandbox.strip()) for name, default, sandbox, _ in ROW.findall(TEXT)}
FOR_COMMANDS = {
    "PAYACCEPT_DATA_DIR",
    "PAYACCEPT_MASTER_KEY",
    "PAYACCEPT_MERCHANT",
    "PAYACCEPT_METRICS",
    "PAYACCEPT_METRICS_DIR",
}
# Known only when the sandbox has chosen its data directory, and told in words.
CHOSEN_LATER = {"PAYACCEPT_DATABASE_URL", "PAYACCEPT_MASTER_KEY_FILE"}
# Empty unless somebody says otherwise.
EMPTY = {"PAYACCEPT_TRUSTED_PROXIES", "PAYACCEPT_SMTP_URL", "PAYACCEPT_MAIL_FROM"}

# By default it follows another setting, which is told in words.
FOLLOWS = {"PAYACCEPT_PROVIDER_KEY_KEEP_S"}

# By default there is none.
NONE = {"PAYACCEPT_EGRESS_PROXY"}


def values(column: int) -> dict[str, str]:
    return {name: cells[column].strip("`") for name, cells in ROWS.items() if cells[column].startswith("`")}


def test_every_setting_has_its_row_in_the_order_of_the_code():
    assert tuple(ROWS) == VARIABLES


def test_the_defaults_are_those_of_the_code():
    assert from_environ(values(0), Settings()) == Settings()
    assert {name for name in ROWS if name not in values(0)} == CHOSEN_LATER | FOLLOWS | NONE | EMPTY


def test_the_sandbox_has_the_defaults_that_are_told_for_it():
    told = {name: value for name, value in values(1).items() if name not in CHOSEN_LATER}
    sandbox = _sandbox_defaults("127.0.0.1", 8081)
    assert from_environ({**values(0), **told}, Settings()) == sandbox


def test_every_variable_of_the_sources_is_told_and_no_other():
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    told = set(re.findall(r"\bPAYACCEPT_\w+", TEXT))
    assert told == set(VARIABLES) | FOR_COMMANDS
    assert set(re.findall(r"\"(PAYACCEPT_\w+)\"", sources)) == told


@pytest.mark.parametrize("name", ["sandbox", "api", "portal", "worker", "migrate"])
def test_every_option_of_a_process_is_told(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    options = set(re.findall(r"^ +(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    [row] = re.findall(rf"^\| `payaccept {name}` \|.*\| (.*) \|$", TEXT, re.MULTILINE)
    assert set(re.findall(r"--[a-z-]+", row)) == options


def test_the_data_directories_are_those_of_the_code(monkeypatch, tmp_path):
    monkeypatch.delenv("PAYACCEPT_DATA_DIR", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_file().parent == default_data_dir()
    told = str(default_data_dir()).replace(str(tmp_path), "~")
    assert f"`{told}`" in TEXT
