"""CSV that every reader reads alike, and that no spreadsheet runs."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.csv_lines import defused, write_lines


def test_lines_end_with_cr_lf_and_only_what_needs_it_is_quoted():
    rows = [("a", 'say "yes"', "x,y"), ("two\nlines", None, 1999), ("é ✓", "", 0)]
    assert write_lines(rows) == ('a,"say ""yes""","x,y"\r\n"two\nlines",,1999\r\né ✓,,0\r\n'.encode())
    assert write_lines([]) == b""


@pytest.mark.parametrize(
    "text", ["=1+1", "+49", "-5", "@SUM(A1)", "\tx", "\rx", "\n=x", "=cmd|' /C calc'!A0", "\uff1d1"]
)
def test_what_a_spreadsheet_takes_for_a_formula_is_defused(text):
    assert defused(text) == "'" + text
    assert next(csv.reader(io.StringIO(write_lines([(text,)]).decode(), newline=""))) == ["'" + text]


@pytest.mark.parametrize("text", ["", "order-1", "a=b", "'=x", "1-2", " =x", "é"])
def test_other_texts_stay_as_they_are(text):
    assert defused(text) == text


def test_numbers_are_no_formulas():
    assert write_lines([(-5, 0)]) == b"-5,0\r\n"


@given(st.lists(st.lists(st.text(), min_size=2, max_size=4), max_size=5))
def test_what_was_written_is_read_again(rows):
    read = (
        list(csv.reader(io.StringIO(write_lines(rows).decode("utf-8", "surrogatepass"), newline="")))
        if (all(cell.isprintable() for row in rows for cell in row))
        else None
    )
    if read is not None:
        assert read == [[defused(cell) for cell in row] for row in rows]
