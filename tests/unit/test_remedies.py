"""Every code that refuses a request has a title and a way to mend it."""

import pytest

from payaccept.domain.remedies import REFUSING, remedy_of, rule_of


@pytest.mark.parametrize("code", REFUSING)
def test_every_refusal_can_be_mended(code):
    remedy = remedy_of(code)
    assert remedy.title[0].isupper()
    assert remedy.title != code
    assert remedy.mend.endswith(".")


def test_a_code_of_another_version_is_shown_as_it_is():
    assert remedy_of("SOMETHING_NEW").title == "SOMETHING_NEW"


@pytest.mark.parametrize(
    ("message", "rule", "rest"),
    [
        ("trailing-newline: The key signed more.", "trailing-newline", "The key signed more."),
        ("padded-base64+sorted-keys: Two: things.", "padded-base64+sorted-keys", "Two: things."),
        ("keyVersion 2 is retired", "", "keyVersion 2 is retired"),
        ("the signature does not verify", "", "the signature does not verify"),
    ],
)
def test_the_rule_of_a_signature_is_told_apart_from_its_explanation(message, rule, rest):
    assert rule_of("INVALID_SIGNATURE", message) == (rule, rest)


def test_the_message_of_another_code_begins_with_no_rule():
    assert rule_of("PARAM_ILLEGAL", "json: is what it says") == ("", "json: is what it says")
