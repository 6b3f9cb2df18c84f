"""Codes of authenticator apps, and the codes for when there is no app."""

from datetime import UTC, datetime, timedelta

import pytest

from payaccept.domain import totp

# RFC 6238, appendix B, with SHA-1 and the last six digits of each value.
RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
RFC = [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (2000000000, "279037")]
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def step_at(at: datetime) -> int:
    return int(at.timestamp()) // totp.STEP_S


@pytest.mark.parametrize(("seconds", "code"), RFC)
def test_codes_are_those_of_the_standard(seconds, code):
    assert totp.code_at(RFC_SECRET, datetime.fromtimestamp(seconds, UTC)) == code


@pytest.mark.parametrize("seconds", [-30, 0, 30])
def test_a_clock_may_be_off_by_a_step(seconds):
    at = NOW + timedelta(seconds=seconds)
    assert totp.matching_step(SECRET, totp.code_at(SECRET, at), NOW, 0) == step_at(at)


@pytest.mark.parametrize("seconds", [-90, -60, 60, 90, 86400])
def test_a_code_of_another_time_is_wrong(seconds):
    assert totp.matching_step(SECRET, totp.code_at(SECRET, NOW + timedelta(seconds=seconds)), NOW, 0) is None


def test_a_code_that_was_used_and_all_before_it_are_wrong():
    step = step_at(NOW)
    assert totp.matching_step(SECRET, totp.code_at(SECRET, NOW), NOW, step) is None
    before = totp.code_at(SECRET, NOW - timedelta(seconds=30))
    assert totp.matching_step(SECRET, before, NOW, step) is None
    after = totp.code_at(SECRET, NOW + timedelta(seconds=30))
    assert totp.matching_step(SECRET, after, NOW, step) == step + 1


@pytest.mark.parametrize("typed", ["", "12345", "1234567", "abcdef", "\uff11" * 6, "12345\n", "-12345"])
def test_what_is_no_code_is_wrong(typed):
    assert totp.matching_step(SECRET, typed, NOW, 0) is None


def test_a_code_may_be_typed_in_two_groups():
    code = totp.code_at(SECRET, NOW)
    assert totp.matching_step(SECRET, f"{code[:3]} {code[3:]}", NOW, 0) is not None


def test_a_new_secret_has_160_bits_and_its_address_names_account_and_issuer():
    secret = totp.new_secret()
    assert len(secret) == 32
    assert secret != totp.new_secret()
    uri = totp.provisioning_uri(secret, "anna@shop.example", "payaccept sandbox")
    assert uri.startswith("otpauth://totp/payaccept%20sandbox:anna%40shop.example?")
    assert f"secret={secret}" in uri
    assert "issuer=payaccept%20sandbox" in uri


def test_recovery_codes_are_ten_different_ones_without_signs_that_are_taken_for_others():
    codes = totp.new_recovery_codes()
    assert len(set(codes)) == 10
    assert not set("".join(codes)) & set("01IOL")
    assert all(totp.recovery_code(code) == code for code in codes)


def test_a_recovery_code_may_be_typed_as_it_was_shown_or_in_small_letters():
    [code, *_] = totp.new_recovery_codes()
    for typed in (totp.shown(code), code.lower(), f" {code[:3]} {code[3:]} "):
        assert totp.recovery_code(typed) == code


@pytest.mark.parametrize("typed", ["", "123456", "ABCDEFGHJ", "ABCDEFGHJKM", "ABCDEFGHJ0"])
def test_what_is_no_recovery_code_is_none(typed):
    assert totp.recovery_code(typed) is None
