"""Seals: unreadable, unchangeable, for one purpose, for a while."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from payaccept.adapters.seals import Seals

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEALS = Seals(Fernet.generate_key())


def test_what_is_sealed_is_opened_for_the_same_purpose_only():
    sealed = SEALS.seal("device", "usr_1 ünïcode", NOW)
    assert "usr_1" not in sealed
    assert SEALS.unseal("device", sealed, NOW, 60) == "usr_1 ünïcode"
    assert SEALS.unseal("notice", sealed, NOW, 60) is None
    assert Seals(Fernet.generate_key()).unseal("device", sealed, NOW, 60) is None


@pytest.mark.parametrize(("seconds", "is_open"), [(0, True), (60, True), (61, False)])
def test_a_seal_lasts_as_long_as_it_is_asked_to(seconds, is_open):
    sealed = SEALS.seal("device", "text", NOW)
    assert (SEALS.unseal("device", sealed, NOW + timedelta(seconds=seconds), 60) == "text") is is_open
    assert SEALS.unseal("device", sealed, NOW + timedelta(days=9999)) == "text"


@pytest.mark.parametrize("sealed", ["", "x", "ü", "gAAAA", "\x00" * 80])
def test_nonsense_opens_nothing(sealed):
    assert SEALS.unseal("device", sealed, NOW, 60) is None


def test_a_changed_seal_opens_nothing():
    sealed = SEALS.seal("device", "text", NOW)
    changed = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    assert SEALS.unseal("device", changed, NOW) is None


def test_a_proof_is_another_for_each_purpose_text_and_key():
    proof = SEALS.mac("csrf", "text")
    assert len(proof) == 43
    assert proof == SEALS.mac("csrf", "text")
    others = {
        SEALS.mac("other", "text"),
        SEALS.mac("csrf", "other"),
        Seals(Fernet.generate_key()).mac("csrf", "text"),
    }
    assert proof not in others


def test_nothing_secret_shows():
    assert "key" not in repr(SEALS).replace("Seals", "")
