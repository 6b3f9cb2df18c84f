"""The directories of tests are named one by one; none may be forgotten."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_directory_with_tests_is_run():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    there = {file.parent.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(settings["ini_options"]["testpaths"]) == sorted(there)
