"""docs/security.md names tests: each exists, and each requirement is told once."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)::(\w+)`", TEXT)))
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| \d", line)]


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file, name):
    assert name in names_in(file)


def test_a_row_has_four_cells_and_ends_with_a_test_or_with_none():
    assert len(ROWS) > 100
    for row in ROWS:
        *_, shown, end = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]
        assert row.count("|") == 5, row
        assert end == ""
        assert shown == "—" or re.fullmatch(r"`[a-z_/]+\.py::test_\w+`", shown), row


def test_what_no_test_shows_is_said_to_be_missing_or_left_to_others():
    told = ("*deployment*", "*Deployment*", "**", "](#", "above", "Git", "None")
    for row in ROWS:
        if row.endswith("| — |"):
            assert any(words in row for words in told), row


def test_what_is_not_met_is_gathered_at_the_end():
    _, _, end = TEXT.partition("\n## What is not met\n")
    for row in ROWS:
        if "**Not met" in row or "**Met in part" in row:
            numbers = re.findall(r"\d+\.\d+\.\d+", row.split("|")[1])
            assert any(f"{number}" in end for number in numbers) or "the provider's to write" in row, row
