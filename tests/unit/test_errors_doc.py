"""docs/errors.md has the whole table of result codes, and says what the code says."""

import re
from pathlib import Path

import pytest

from payaccept.wire.codes import PAYMENT_FAILURES, TABLE, ResultCode, ResultStatus

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")


def rows(marker: str) -> list[list[str]]:
    """The cells of the table below `<!-- table: marker -->`, without its head."""
    found = re.search(rf"<!-- table: {re.escape(marker)} -->\n((?:\|.*\|\n)+)", PAGE)
    assert found is not None, marker
    lines = found[1].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_table_is_the_table_of_the_code():
    told = [(code.strip("`"), status, int(http)) for code, status, http, _, _ in rows("result codes")]
    known = [(code.value, meaning.status.value, meaning.http) for code, meaning in TABLE.items()]
    assert told == known


@pytest.mark.parametrize("row", rows("result codes"), ids=lambda row: row[0].strip("`"))
def test_every_row_tells_a_meaning_and_what_to_do(row: list[str]):
    _, _, _, meaning, action = row
    for sentence in (meaning, action):
        assert sentence.endswith(".")
        assert sentence[0].isupper() or sentence.startswith("retailPay")


def test_every_result_status_is_explained():
    explained = re.findall(r"^\| `([A-Z])` \|", PAGE, re.MULTILINE)
    assert sorted(explained) == sorted(status.value for status in ResultStatus)


def test_codes_that_are_named_exist():
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", PAGE)) | set(re.findall(r"\b([A-Z]+_[A-Z_]+)\b", PAGE))
    assert named == {code.value for code in ResultCode if "_" in code.value}


def test_what_a_payment_fails_with_is_f_with_200():
    told = {
        code.strip("`") for code, status, http, _, _ in rows("result codes") if (status, http) == ("F", "200")
    }
    assert told == {code.value for code in PAYMENT_FAILURES}


def test_links_lead_to_pages_and_headings():
    headings = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    }
    links = re.findall(r"\]\(([^)]+)\)", PAGE)
    assert links
    for link in links:
        if link.startswith("#"):
            assert link[1:] in headings, link
        else:
            assert (Path(__file__).parents[2] / "docs" / link.partition("#")[0]).is_file(), link
