"""Signing strings, the Signature header, sign and verify."""

import base64
import re

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from hypothesis import given, settings
from hypothesis import strategies as st

from payaccept.wire import signing
from vectors import golden

GOOD = golden.signature_text(golden.REQUESTS[0])
SIGNATURE = base64.urlsafe_b64decode(GOOD + "==")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# `golden.REQUESTS[0]`'s signature has no need of them; these hold each special character for sure.
WITH_BOTH = signing.encode_signature(b"\xfb\xff\xbf" * 85 + b"\xff")

visible = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)


def header(**changed: str) -> str:
    members = {"algorithm": "SHA256withRSA", "keyVersion": "3", "signature": GOOD} | changed
    return ", ".join(f"{name}={content}" for name, content in members.items())


# --- signing strings -------------------------------------------------------------------------------------


def test_a_request_is_signed_over_two_lines_with_the_client_id():
    string = signing.request_string(
        "POST", "/v1/payments/retailPay", "sandbox_1", "2026-03-01T09:30:00Z", b"{}"
    )
    assert string == b"POST /v1/payments/retailPay\nsandbox_1.2026-03-01T09:30:00Z.{}"


def test_an_empty_body_is_the_empty_string():
    assert signing.request_string("POST", "/p", "c", "t", b"") == b"POST /p\nc.t."


def test_a_notification_is_signed_without_a_client_id():
    assert signing.notification_string("/hook", "2026-03-01T09:30:00Z", b"{}") == (
        b"POST /hook\n2026-03-01T09:30:00Z.{}"
    )


@given(body=st.binary(max_size=200))
def test_the_body_enters_the_string_byte_for_byte(body):
    assert signing.request_string("POST", "/p", "c", "t", body) == b"POST /p\nc.t." + body
    assert signing.notification_string("/p", "t", body) == b"POST /p\nt." + body


# --- sign and verify -------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(path=visible, client_id=visible, body=st.binary(max_size=300))
def test_what_is_signed_verifies(path, client_id, body):
    string = signing.request_string("POST", path, client_id, "2026-03-01T09:30:00Z", body)
    signature = signing.sign(golden.private_key(), string)
    written = signing.write_header(12, signature)
    parsed = signing.parse_header(written)
    assert (parsed.key_version, parsed.signature) == (12, signature)
    signing.verify(golden.public_key(), parsed.signature, string)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_signing_string_with_any_byte_changed_does_not_verify(data):
    vector = data.draw(st.sampled_from(golden.REQUESTS + golden.NOTIFICATIONS))
    string = bytearray(golden.signed(vector))
    at = data.draw(st.integers(0, len(string) - 1))
    string[at] ^= data.draw(st.integers(1, 255))
    golden_signature = signing.parse_header(vector["signatureHeader"]).signature
    with pytest.raises(signing.SignatureMismatch):
        signing.verify(golden.public_key(), golden_signature, bytes(string))


@pytest.mark.parametrize("part", ["method", "path", "clientId", "requestTime", "bodyBase64"])
def test_a_flipped_bit_anywhere_in_a_part_of_the_request_fails(part):
    vector = golden.REQUESTS[0]
    original = golden.body(vector) if part == "bodyBase64" else vector[part].encode()
    signature = signing.parse_header(vector["signatureHeader"]).signature
    for position in range(len(original)):
        flipped = bytearray(original)
        flipped[position] ^= 1
        parts = dict(vector)
        body = golden.body(vector)
        if part == "bodyBase64":
            body = bytes(flipped)
        else:
            parts[part] = flipped.decode("latin-1")
        members = (parts["method"], parts["path"], parts["clientId"], parts["requestTime"])
        with pytest.raises(signing.SignatureMismatch):
            signing.verify(golden.public_key(), signature, signing.request_string(*members, body))


def test_a_signature_with_any_byte_changed_does_not_verify():
    string = golden.signed(golden.REQUESTS[0])
    for position in range(len(SIGNATURE)):
        for mask in (0x01, 0x80):
            flipped = bytearray(SIGNATURE)
            flipped[position] ^= mask
            with pytest.raises(signing.SignatureMismatch):
                signing.verify(golden.public_key(), bytes(flipped), string)


@pytest.mark.parametrize("length", [0, 1, 255, 257, 512])
def test_a_signature_of_another_length_does_not_verify(length):
    with pytest.raises(signing.SignatureMismatch):
        signing.verify(golden.public_key(), bytes(length), b"x")


def test_another_key_a_notification_and_another_scheme_do_not_verify():
    vector = golden.REQUESTS[0]
    string = golden.signed(vector)
    key = golden.private_key()
    wrong = {
        "another key": signing.sign(golden.another_private_key(), string),
        "without Client-Id": signing.sign(
            key, signing.notification_string(vector["path"], vector["requestTime"], golden.body(vector))
        ),
        "SHA-1": key.sign(string, padding.PKCS1v15(), SHA1()),  # noqa: S303
        "PSS": key.sign(string, padding.PSS(padding.MGF1(SHA256()), 32), SHA256()),
    }
    for signature in wrong.values():
        with pytest.raises(signing.SignatureMismatch):
            signing.verify(golden.public_key(), signature, string)


def test_verify_returns_no_verdict_that_could_be_misread():
    assert signing.verify(golden.public_key(), SIGNATURE, golden.signed(golden.REQUESTS[0])) is None


# --- base64url -------------------------------------------------------------------------------------------


@given(signature=st.binary(min_size=256, max_size=256))
def test_every_signature_is_342_characters_that_decode_to_it(signature):
    text = signing.encode_signature(signature)
    assert re.fullmatch(r"[A-Za-z0-9_-]{342}", text)
    assert signing.decode_signature(text) == signature


@given(text=st.text(st.sampled_from(ALPHABET), min_size=342, max_size=342))
def test_text_of_the_alphabet_decodes_only_when_encoding_gives_it_back(text):
    canonical = signing.encode_signature(base64.urlsafe_b64decode(text + "==")) == text
    if canonical:
        assert signing.encode_signature(signing.decode_signature(text)) == text
    else:
        with pytest.raises(signing.SignatureHeaderMalformed, match="canonical"):
            signing.decode_signature(text)


def test_of_the_64_last_characters_four_are_canonical():
    accepted = []
    for last in ALPHABET:
        try:
            signing.parse_header(header(signature=GOOD[:-1] + last))
        except signing.SignatureHeaderMalformed:
            continue
        accepted.append(last)
    assert accepted == ["A", "Q", "g", "w"]


LENIENT_BASE64_TRAPS = {
    "padded": (GOOD + "==", "padded"),
    "padded once": (GOOD + "=", "padded"),
    "padding within": (GOOD[:100] + "==" + GOOD[100:-2], "canonical"),
    "standard alphabet": (WITH_BOTH.replace("-", "+").replace("_", "/"), "standard base64"),
    "a plus": ("+" + GOOD[1:], "standard base64"),
    "a slash": (GOOD[:-2] + "/A", "standard base64"),
    "a blank within": (GOOD[:100] + " " + GOOD[101:], "canonical"),
    "a tab within": (GOOD[:100] + "\t" + GOOD[101:], "canonical"),
    "a line break within": (GOOD[:76] + "\n" + GOOD[76:], "343 characters"),
    "a line break for a character": (GOOD[:76] + "\n" + GOOD[77:], "canonical"),
    "a line break after it": (GOOD + "\n", "343 characters"),
    "a line break for the last": (GOOD[:-1] + "\n", "canonical"),
    "a character that decoders skip": (GOOD[:10] + "!" + GOOD[11:], "canonical"),
    "an added character that decoders skip": (GOOD + "!", "343 characters"),
    "a full stop": (GOOD[:10] + "." + GOOD[11:], "canonical"),
    "NUL": (GOOD[:-1] + "\0", "canonical"),
    "a non-ASCII letter": ("é" + GOOD[1:], "canonical"),
    "a full-width letter": ("\uff21" + GOOD[1:], "canonical"),
    "an Arabic digit": ("\u0661" + GOOD[1:], "canonical"),
    "one short": (GOOD[:-1], "341 characters"),
    "one long": (GOOD + "A", "343 characters"),
    "empty": ("", "0 characters"),
    "hexadecimal": (SIGNATURE.hex(), "512 characters"),
    "a 4096-bit key": (base64.urlsafe_b64encode(bytes(512)).rstrip(b"=").decode(), "683 characters"),
}


@pytest.mark.parametrize(("text", "why"), LENIENT_BASE64_TRAPS.values(), ids=LENIENT_BASE64_TRAPS)
def test_what_lenient_base64_decoders_accept_is_refused(text, why):
    with pytest.raises(signing.SignatureHeaderMalformed, match=re.escape(why)):
        signing.decode_signature(text)
    with pytest.raises(signing.SignatureHeaderMalformed):
        signing.parse_header(header(signature=text))


# --- the header ------------------------------------------------------------------------------------------

A, K, S = "algorithm=SHA256withRSA", "keyVersion=3", f"signature={GOOD}"
ACCEPTED_HEADERS = [
    *(", ".join(order) for order in [(A, K, S), (A, S, K), (K, A, S), (K, S, A), (S, A, K), (S, K, A)]),
    f"{A},{K},{S}",
    f"{A},  {K},\t{S}",
    f"{A} , {K} , {S}",
    f"  {A}, {K}, {S}\t",
    f"algorithm = SHA256withRSA, keyVersion =3, signature= {GOOD}",
]


@pytest.mark.parametrize("value", ACCEPTED_HEADERS)
def test_members_in_any_order_and_with_optional_blanks_are_accepted(value):
    assert signing.parse_header(value) == signing.SignatureHeader(3, SIGNATURE)


@pytest.mark.parametrize("version", [1, 9, 10, 999, 999_999_999])
def test_any_positive_key_version_is_accepted(version):
    for order in (f"{A}, keyVersion={version}, {S}", f"{S}, keyVersion={version}, {A}"):
        assert signing.parse_header(order).key_version == version


NO_KEY_VERSION = ["0", "-1", "+1", "01", "1.0", "1e3", "0x1", "", "one", "v1", "1 2", "1_0", "9999999999"]
NO_KEY_VERSION += ["\u0661", "\u00b2", "\uff11", "1" * 5000]


@pytest.mark.parametrize("version", NO_KEY_VERSION, ids=ascii)
def test_what_is_no_plain_positive_number_is_a_missing_key_version(version):
    with pytest.raises(signing.KeyVersionMissing):
        signing.parse_header(header(keyVersion=version))


def test_an_absent_key_version_is_missing_rather_than_malformed():
    with pytest.raises(signing.KeyVersionMissing):
        signing.parse_header(f"{A}, {S}")


def test_a_bad_signature_is_told_before_a_missing_key_version():
    with pytest.raises(signing.SignatureHeaderMalformed) as caught:
        signing.parse_header(f"{A}, signature={GOOD}==")
    assert not isinstance(caught.value, signing.KeyVersionMissing)


REFUSED_HEADERS = {
    "empty": "",
    "blank": "  ",
    "the signature alone": GOOD,
    "no algorithm": f"{K}, {S}",
    "no signature": f"{A}, {K}",
    "algorithm twice": f"{A}, {A}, {K}, {S}",
    "keyVersion twice": f"{A}, {K}, {K}, {S}",
    "two keyVersions": f"{A}, {K}, keyVersion=4, {S}",
    "signature twice": f"{A}, {K}, {S}, {S}",
    "an unknown member": f"{A}, {K}, {S}, nonce=1",
    "a digit in a member's name": f"{A}, {K}, {S}, x5t=1",
    "a comma at the end": f"{A}, {K}, {S},",
    "a comma at the start": f",{A}, {K}, {S}",
    "two commas": f"{A},, {K}, {S}",
    "semicolons": f"{A}; {K}; {S}",
    "blanks for commas": f"{A} {K} {S}",
    "colons": f"algorithm:SHA256withRSA, keyVersion:3, signature:{GOOD}",
    "quotes around the signature": f'{A}, {K}, signature="{GOOD}"',
    "quotes around all": f'"{A}, {K}, {S}"',
    "names in lower case": f"{A}, keyversion=3, {S}",
    "names in capitals": f"ALGORITHM=SHA256withRSA, {K}, {S}",
    "another algorithm": f"algorithm=SHA512withRSA, {K}, {S}",
    "the algorithm in lower case": f"algorithm=sha256withrsa, {K}, {S}",
    "another name of the algorithm": f"algorithm=RSA256, {K}, {S}",
    "algorithm none": f"algorithm=none, {K}, {S}",
    "no algorithm given": f"algorithm=, {K}, {S}",
    "the header's name within": f"Signature: {A}, {K}, {S}",
    "a line break at the end": f"{A}, {K}, {S}\n",
    "a line break between": f"{A},\n{K}, {S}",
    "a no-break space": f"{A},\u00a0{K}, {S}",
    "percent-encoded": f"algorithm%3DSHA256withRSA, {K}, {S}",
    "a blank in the algorithm": f"algorithm=SHA256 withRSA, {K}, {S}",
    "lone surrogate": f"{A}, {K}, {S[:-1]}\udc80",
}


@pytest.mark.parametrize("value", REFUSED_HEADERS.values(), ids=REFUSED_HEADERS)
def test_every_departure_from_the_grammar_is_refused(value):
    with pytest.raises(signing.SignatureHeaderMalformed) as caught:
        signing.parse_header(value)
    assert str(caught.value)


@given(
    value=st.text(max_size=80) | st.text(st.sampled_from('algorithmkeyVersionsignature=," \t3'), max_size=80)
)
def test_no_text_makes_the_parser_raise_anything_else(value):
    with pytest.raises(signing.SignatureHeaderMalformed):
        signing.parse_header(value)


@settings(max_examples=300)
@given(data=st.data())
def test_a_header_with_a_character_inserted_never_parses_to_other_bytes(data):
    usual = f"{A}, {K}, {S}"
    at = data.draw(st.integers(0, len(usual)))
    inserted = data.draw(st.sampled_from("=, \t\n\"'+/-_Aw0\u0661\0"))
    try:
        parsed = signing.parse_header(usual[:at] + inserted + usual[at:])
    except signing.SignatureHeaderMalformed:
        return
    assert parsed.signature == SIGNATURE


def test_a_hostile_header_is_refused_quickly():
    for value in ("a" * 100_000, "," * 100_000, "a=" * 50_000, "a =" + " " * 100_000, f"{A}," * 20_000):
        with pytest.raises(signing.SignatureHeaderMalformed):
            signing.parse_header(value)
