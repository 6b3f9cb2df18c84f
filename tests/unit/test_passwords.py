"""Which passwords are taken."""

import pytest

from payaccept.domain import passwords

EMAIL = "anna.schmidt@corner-shop.example"


@pytest.mark.parametrize(
    "password",
    [
        "seven green lamps hum",
        "Tr0ub4dor&3-and-more",
        "gülümseyen üç küçük köpek",
        "correct horse battery staple six",
        "x" * 11 + "yzabcd",
        "p" + "aßwort-reicht-nicht-aus",
        "a b c d e f g h i j",
        "seven green lamps hum" * 6,
    ],
)
def test_a_long_password_that_nobody_guesses_first_is_taken(password):
    assert passwords.problem(password, EMAIL, "Anna Schmidt") is None


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("", "Enter a password"),
        ("short-enough", None),
        ("short-enoug", "at least 12"),
        ("ab" * 65, "at most 128"),
        ("password1234", "common"),
        ("Password!!!!!", "common"),
        ("P4$$w0rd2024", "common"),
        ("  welcome 2026!", "common"),
        ("Correct Horse Battery Staple", "common"),
        ("123456789012", "a row"),
        ("qwertyuiopas", "a row"),
        ("zyxwvutsrqpo", "a row"),
        ("aaaaaaaaaaaa", "repetition"),
        ("abc1abc1abc1", "repetition"),
        (EMAIL, "your address"),
        (EMAIL.upper(), "your address"),
        ("schmidt-2026!", "your name"),
        ("payaccept2026", "your address"),
    ],
)
def test_what_is_guessed_first_is_refused_with_its_reason(password, why):
    problem = passwords.problem(password, EMAIL, "Anna Schmidt")
    assert (problem is None) == (why is None)
    assert why is None or why in problem


def test_a_password_is_the_same_however_its_letters_were_composed():
    assert passwords.normalised("cafe\u0301") == passwords.normalised("caf\u00e9")


def test_the_length_counts_characters_as_people_see_them():
    assert passwords.problem("e\u0301" * 11, EMAIL) is not None
