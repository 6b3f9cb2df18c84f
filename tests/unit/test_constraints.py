"""The pins: complete, hashed, without addresses, and up to date with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIN = re.compile(
    r"^([a-z0-9.-]+)==(\S+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
SERVER = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["server"], "hatchling", "pip"]
DEV = [*SERVER, *PROJECT["optional-dependencies"]["dev"]]


def text_of(name: str) -> str:
    return (ROOT / "constraints" / f"{name}.txt").read_text(encoding="utf-8")


def pins_of(name: str) -> dict[str, str]:
    return {package: version for package, version, _ in PIN.findall(text_of(name))}


@pytest.mark.parametrize("name", ["server", "dev"])
def test_every_line_is_a_pin_with_hashes_so_there_is_no_address(name):
    rest = PIN.sub("", text_of(name))
    assert [line for line in rest.splitlines() if not line.startswith("#")] == []


@pytest.mark.parametrize(("name", "wanted"), [("server", SERVER), ("dev", DEV)])
def test_what_the_project_asks_for_is_pinned_at_a_version_it_allows(name, wanted):
    pins = pins_of(name)
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_tests_run_on_the_versions_that_the_service_runs_on():
    assert pins_of("server").items() <= pins_of("dev").items()
