"""Diagnosis: each known mistake is named, from real signatures that make it."""

import base64
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils
from hypothesis import given, settings
from hypothesis import strategies as st

from payaccept.wire import signing
from payaccept.wire.diagnosis import CapturedRequest, Finding, diagnose
from vectors import golden

METHOD, PATH, CLIENT, TIME = "POST", "/v1/payments/createQROrder", "sandbox_5f0c9a3e", "2026-03-01T09:30:00Z"
VALUE = {
    "paymentRequestId": "order-1",
    "codeType": "CGCP",
    "paymentAmount": {"currency": "EUR", "value": 1999},
    "order": {"orderDescription": "Crème <brûlée> & Tee", "items": []},
    "paymentNotifyUrl": "https://shop.example/hooks/pay",
}
BODY = json.dumps(VALUE, ensure_ascii=False, separators=(",", ":")).encode()
KEY_LINES = golden.PUBLIC_KEY_FILE.read_text().splitlines() + golden.PRIVATE_KEY_FILE.read_text().splitlines()
PKCS1, SHA256 = padding.PKCS1v15(), hashes.SHA256()


@pytest.fixture(scope="session")
def keys() -> dict[int, rsa.RSAPublicKey]:
    return {3: golden.public_key(), 4: golden.another_private_key().public_key()}


def right(body: bytes = BODY) -> bytes:
    return signing.request_string(METHOD, PATH, CLIENT, TIME, body)


def signature_of(string: bytes) -> bytes:
    return signing.sign(golden.private_key(), string)


def captured(
    signature_header: str, *, path: str = PATH, body: bytes = BODY, time_text: str = TIME
) -> CapturedRequest:
    return CapturedRequest(METHOD, path, CLIENT, time_text, body, signature_header, "shop-api.example")


def finding(request: CapturedRequest, keys: dict[int, rsa.RSAPublicKey]) -> Finding:
    found = diagnose(request, keys)
    assert found is not None
    assert found.explanation.endswith(".")
    assert "\n" not in found.explanation
    # Nothing of the body and nothing of a key shows.
    for secret in ("order-1", "brûlée", "paymentAmount", "BEGIN", *KEY_LINES):
        assert secret not in found.explanation
    return found


def of_string(string: bytes, keys, **request: Any) -> Finding:
    return finding(captured(signing.write_header(3, signature_of(string)), **request), keys)


def test_a_signature_that_verifies_has_no_finding(keys):
    for body in (BODY, b"", b"\xff\x00"):
        header = signing.write_header(3, signature_of(right(body)))
        assert diagnose(captured(header, body=body), keys) is None
        assert diagnose(captured(header, body=body, path=PATH + "?a=b"), keys) is None
    for vector in golden.REQUESTS:
        members = (vector["method"], vector["path"], vector["clientId"], vector["requestTime"])
        request = CapturedRequest(*members, golden.body(vector), vector["signatureHeader"])
        assert diagnose(request, keys) is None


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


HEAD = f"{METHOD} {PATH}\n{CLIENT}.{TIME}."
OTHER_HEADS = {
    "five lines": (f"{METHOD}\n{PATH}\n{CLIENT}\n{TIME}\n", "five-lines"),
    "missing Client-Id": (f"{METHOD} {PATH}\n{TIME}.", "missing-client-id"),
    "five lines without Client-Id": (f"{METHOD}\n{PATH}\n{TIME}\n", "missing-client-id"),
    "time before Client-Id": (f"{METHOD} {PATH}\n{TIME}.{CLIENT}.", "time-before-client-id"),
    "line feeds for stops": (f"{METHOD} {PATH}\n{CLIENT}\n{TIME}\n", "other-separators"),
    "colons for stops": (f"{METHOD} {PATH}\n{CLIENT}:{TIME}:", "other-separators"),
    "no stop before the body": (f"{METHOD} {PATH}\n{CLIENT}.{TIME}", "other-separators"),
    "three lines": (f"{METHOD}\n{PATH}\n{CLIENT}.{TIME}.", "other-separators"),
    "no newline": (f"{METHOD} {PATH}{CLIENT}.{TIME}.", "missing-newline"),
    "a blank for the newline": (f"{METHOD} {PATH} {CLIENT}.{TIME}.", "missing-newline"),
    "missing Request-Time": (f"{METHOD} {PATH}\n{CLIENT}.", "missing-request-time"),
    "missing method": (f"{PATH}\n{CLIENT}.{TIME}.", "missing-method"),
    "missing path": (f"{METHOD}\n{CLIENT}.{TIME}.", "missing-path"),
    "second line alone": (f"{CLIENT}.{TIME}.", "missing-first-line"),
    "body alone": ("", "body-only"),
    "an empty line": (f"{METHOD} {PATH}\n\n{CLIENT}.{TIME}.", "blank-line"),
    "lower-case method": (HEAD.replace("POST", "post"), "lower-case-method"),
    "mixed-case method": (HEAD.replace("POST", "Post"), "lower-case-method"),
    "GET": (HEAD.replace("POST", "GET"), "other-method"),
    "full URL": (HEAD.replace(PATH, "https://shop-api.example" + PATH), "full-url"),
    "full URL of a local sandbox": (HEAD.replace(PATH, "http://127.0.0.1:8080" + PATH), "full-url"),
    "host and path": (HEAD.replace(PATH, "shop-api.example" + PATH), "full-url"),
    "path with a slash after it": (HEAD.replace(PATH, PATH + "/"), "other-path"),
    "path without its first slash": (HEAD.replace(PATH, PATH[1:]), "other-path"),
    "last part of the path": (HEAD.replace(PATH, "createQROrder"), "other-path"),
    "CRLF": (HEAD.replace("\n", "\r\n"), "crlf"),
    "CR": (HEAD.replace("\n", "\r"), "cr"),
    "literal backslash n": (HEAD.replace("\n", "\\n"), "literal-backslash-n"),
    "time with milliseconds": (HEAD.replace(TIME, "2026-03-01T09:30:00.000Z"), "other-time-format"),
    "time with an offset": (HEAD.replace(TIME, "2026-03-01T09:30:00+00:00"), "other-time-format"),
    "time without Z": (HEAD.replace(TIME, "2026-03-01T09:30:00"), "other-time-format"),
    "epoch milliseconds": (HEAD.replace(TIME, "1772357400000"), "other-time-format"),
    "a second earlier": (HEAD.replace(TIME, "2026-03-01T09:29:59Z"), "other-request-time"),
}


@pytest.mark.parametrize(("head", "rule"), OTHER_HEADS.values(), ids=OTHER_HEADS)
def test_a_signing_string_with_another_head_is_recognised(head, rule, keys):
    assert of_string(head.encode() + BODY, keys).rule == rule


@pytest.mark.parametrize(("head", "rule"), OTHER_HEADS.values(), ids=OTHER_HEADS)
def test_it_is_recognised_with_an_empty_body_too(head, rule, keys):
    if head:
        assert of_string(head.encode(), keys, body=b"").rule == rule


def test_a_query_in_the_path_is_recognised(keys):
    target = PATH + "?lang=de"
    query = of_string(HEAD.replace(PATH, target).encode() + BODY, keys, path=target)
    assert query.rule == "query-in-path"
    url = HEAD.replace(PATH, "https://shop-api.example" + target)
    assert of_string(url.encode() + BODY, keys, path=target).rule == "full-url"


def dumped(**style: Any) -> bytes:
    return json.dumps(VALUE, **style).encode()


COMPACT = {"separators": (",", ":")}
OTHER_BODIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty-body"),
    "Python's default": (dumped(), "reserialised-json"),
    "Python's default, not escaped": (dumped(ensure_ascii=False), "reserialised-json"),
    "compact, escaped": (dumped(**COMPACT), "reserialised-json"),
    "indented by 2": (dumped(ensure_ascii=False, indent=2), "reserialised-json"),
    "indented by 2, escaped": (dumped(indent=2), "reserialised-json"),
    "indented by 4": (dumped(ensure_ascii=False, indent=4), "reserialised-json"),
    "indented by 4, escaped": (dumped(indent=4), "reserialised-json"),
    "indented by tabs": (dumped(ensure_ascii=False, indent="\t"), "reserialised-json"),
    "sorted": (dumped(ensure_ascii=False, sort_keys=True, **COMPACT), "reserialised-json"),
    "sorted, escaped, indented": (dumped(sort_keys=True, indent=4), "reserialised-json"),
    "PHP's": (dumped(**COMPACT).replace(b"/", b"\\/"), "reserialised-json"),
    "Go's": (
        BODY.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026"),
        "reserialised-json",
    ),
    "hash in hexadecimal": (sha(BODY).hex().encode(), "body-hash"),
    "hash in capital hexadecimal": (sha(BODY).hex().upper().encode(), "body-hash"),
    "hash in base64": (base64.b64encode(sha(BODY)), "body-hash"),
    "hash in base64url": (base64.urlsafe_b64encode(sha(BODY)).rstrip(b"="), "body-hash"),
    "hash as bytes": (sha(BODY), "body-hash"),
    "line feed after it": (BODY + b"\n", "trailing-newline"),
    "CR LF after it": (BODY + b"\r\n", "trailing-newline"),
    "byte order mark before it": (b"\xef\xbb\xbf" + BODY, "byte-order-mark"),
    "in base64": (base64.b64encode(BODY), "encoded-body"),
    "as a JSON string": (json.dumps(BODY.decode(), ensure_ascii=False).encode(), "quoted-body"),
}


@pytest.mark.parametrize(("body", "rule"), OTHER_BODIES.values(), ids=OTHER_BODIES)
def test_a_body_written_in_another_way_is_recognised(body, rule, keys):
    assert of_string(right(body), keys).rule == rule


# From sorted members nobody can tell in which order they were before.
UNSORTED = [
    name for name, (_, rule) in OTHER_BODIES.items() if rule == "reserialised-json" and "sorted" not in name
]


@pytest.mark.parametrize("name", UNSORTED)
def test_the_pretty_body_sent_and_the_compact_one_signed_is_recognised_too(name, keys):
    sent = OTHER_BODIES[name][0]
    assert of_string(right(BODY), keys, body=sent).rule == "reserialised-json"


def test_the_explanation_says_how_the_json_was_written(keys):
    explained = of_string(right(dumped(indent=2)), keys).explanation
    assert "non-ASCII characters escaped, indented by 2" in explained
    assert "sign and send those same bytes" in explained


@pytest.mark.parametrize(
    ("sent", "signed", "rule"),
    [
        (BODY + b"\n", BODY, "trailing-newline-sent"),
        (BODY + b"\r\n", BODY, "trailing-newline-sent"),
        (b"  " + BODY + b" ", BODY, "reserialised-json"),
        (b"not json\r\nat all", b"not json\nat all", "crlf-in-body"),
        (b"not json\nat all", b"not json\r\nat all", "crlf-in-body"),
        (b"not json\nat all", b"not jsonat all", "newlines-removed"),
        (b"\xef\xbb\xbf" + BODY, BODY, "byte-order-mark"),
        (b" not json ", b"not json", "blanks-around-body"),
    ],
)
def test_a_body_that_got_more_bytes_on_its_way_is_recognised(sent, signed, rule, keys):
    rules = of_string(right(signed), keys, body=sent).rule
    # A line feed after JSON is also another way to write the same value; either name helps.
    assert rules in {rule, "reserialised-json"}


FINISHES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "hashed first": (sha, "hashed-twice"),
    "hashed to hexadecimal first": (lambda s: sha(s).hex().encode(), "hashed-twice"),
    "hashed to base64 first": (lambda s: base64.b64encode(sha(s)), "hashed-twice"),
    "UTF-16": (lambda s: s.decode().encode("utf-16-le"), "other-encoding"),
    "UTF-16 with mark": (lambda s: s.decode().encode("utf-16"), "other-encoding"),
    "UTF-16, big end first": (lambda s: s.decode().encode("utf-16-be"), "other-encoding"),
    "Latin-1": (lambda s: s.decode().encode("latin-1"), "other-encoding"),
    "UTF-8 twice": (lambda s: s.decode("latin-1").encode(), "other-encoding"),
    "byte order mark": (lambda s: b"\xef\xbb\xbf" + s, "byte-order-mark"),
    "base64": (base64.b64encode, "encoded-string"),
}


@pytest.mark.parametrize(("finish", "rule"), FINISHES.values(), ids=FINISHES)
def test_what_was_done_to_the_whole_string_is_recognised(finish, rule, keys):
    assert of_string(finish(right()), keys).rule == rule


SIGNATURE = signature_of(right())
TEXT = signing.encode_signature(SIGNATURE)
STANDARD = base64.b64encode(SIGNATURE).decode()
BAD_SIGNATURE_TEXTS = {
    "padded": (TEXT + "==", "padded-base64"),
    "standard and padded": (STANDARD, "standard-base64"),
    "standard": (STANDARD.rstrip("="), "standard-base64"),
    "plus turned into a blank": (
        STANDARD.rstrip("=").replace("+", " ").replace("/", "_"),
        "blanks-in-signature",
    ),
    "wrapped": (TEXT[:76] + " " + TEXT[76:], "blanks-in-signature"),
    "hexadecimal": (SIGNATURE.hex(), "hex-signature"),
    "capital hexadecimal": (SIGNATURE.hex().upper(), "hex-signature"),
    "hexadecimal in base64": (base64.b64encode(SIGNATURE.hex().encode()).decode(), "encoded-twice"),
    "base64 in base64": (base64.b64encode(STANDARD.encode()).decode(), "encoded-twice"),
    "quoted": (f'"{TEXT}"', "quoted"),
    "percent-encoded": (
        STANDARD.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
        "percent-encoded+standard-base64",
    ),
    "not canonical": (TEXT[:-1] + {"A": "B", "Q": "R", "g": "h", "w": "x"}[TEXT[-1]], "non-canonical-base64"),
}


@pytest.mark.parametrize(("text", "rule"), BAD_SIGNATURE_TEXTS.values(), ids=BAD_SIGNATURE_TEXTS)
def test_a_signature_written_wrongly_is_decoded_and_found_right_apart_from_that(text, rule, keys):
    header = f"algorithm=SHA256withRSA, keyVersion=3, signature={text}"
    found = finding(captured(header), keys)
    assert found.rule == rule
    assert "Everything else is right." in found.explanation


def test_a_signature_written_wrongly_over_a_wrong_string_has_both_told(keys):
    wrong = base64.b64encode(signature_of(f"{METHOD} {PATH}\n{TIME}.".encode() + BODY)).decode()
    found = finding(captured(f"algorithm=SHA256withRSA, keyVersion=3, signature={wrong}"), keys)
    assert found.rule == "standard-base64+missing-client-id"


BAD_HEADERS = {
    "empty": ("", "missing-signature"),
    "blank": (" \t", "missing-signature"),
    "the signature alone": (TEXT, "header-grammar"),
    "the signature alone, standard": (STANDARD, "header-grammar+standard-base64"),
    "quotes around all": (f'"algorithm=SHA256withRSA, keyVersion=3, signature={TEXT}"', "quoted"),
    "all percent-encoded": (
        f"algorithm%3DSHA256withRSA%2C%20keyVersion%3D3%2C%20signature%3D{TEXT}",
        "percent-encoded",
    ),
    "no keyVersion": (f"algorithm=SHA256withRSA, signature={TEXT}", "missing-key-version"),
    "keyVersion v3": (f"algorithm=SHA256withRSA, keyVersion=v3, signature={TEXT}", "missing-key-version"),
    "keyVersion 03": (f"algorithm=SHA256withRSA, keyVersion=03, signature={TEXT}", "missing-key-version"),
    "no algorithm": (f"keyVersion=3, signature={TEXT}", "other-algorithm-name"),
    "RSA256": (f"algorithm=RSA256, keyVersion=3, signature={TEXT}", "other-algorithm-name"),
    "no signature": ("algorithm=SHA256withRSA, keyVersion=3", "missing-signature"),
    "an empty signature": ("algorithm=SHA256withRSA, keyVersion=3, signature=", "missing-signature"),
    "semicolons": (f"algorithm=SHA256withRSA; keyVersion=3; signature={TEXT}", "header-grammar"),
    "an unknown member": (
        f"algorithm=SHA256withRSA, keyVersion=3, nonce=1, signature={TEXT}",
        "header-grammar",
    ),
    "a member twice": (
        f"algorithm=SHA256withRSA, keyVersion=3, keyVersion=3, signature={TEXT}",
        "header-grammar",
    ),
    "other capitals": (f"Algorithm=SHA256withRSA, keyversion=3, signature={TEXT}", "header-grammar"),
    "pasted with its name": (
        f"Signature: algorithm=SHA256withRSA, keyVersion=3, signature={TEXT}",
        "header-grammar",
    ),
    "rubbish": ("Bearer abc.def", "missing-signature+other-algorithm-name+missing-key-version"),
    "a signature with rubbish": ("algorithm=SHA256withRSA, keyVersion=3, signature=a!b", "header-grammar"),
    "cut short": (f"algorithm=SHA256withRSA, keyVersion=3, signature={TEXT[:200]}", "signature-length"),
    "a 4096-bit key": (
        "algorithm=SHA256withRSA, keyVersion=3, signature="
        + base64.urlsafe_b64encode(bytes(512)).decode()[:-1],
        "signature-length",
    ),
}


@pytest.mark.parametrize(("header", "rule"), BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_malformed_header_is_told(header, rule, keys):
    assert finding(captured(header), keys).rule == rule


def header_of(signature: bytes, version: int = 3) -> str:
    return signing.write_header(version, signature)


def test_another_registered_key_version_is_told(keys):
    found = finding(captured(header_of(SIGNATURE, 4)), keys)
    assert found.rule == "other-key-version"
    assert "names keyVersion 4" in found.explanation
    assert "keyVersion 3 signed" in found.explanation
    assert finding(captured(header_of(SIGNATURE, 99)), keys).rule == "other-key-version"


def test_another_key_version_over_a_wrong_string_has_both_told(keys):
    crlf = signing.sign(golden.another_private_key(), right().replace(b"\n", b"\r\n"))
    assert finding(captured(header_of(crlf)), keys).rule == "other-key-version+crlf"


@pytest.mark.parametrize("salt", [0, 20, 32, padding.PSS.MAX_LENGTH])
@pytest.mark.parametrize("mask", [hashes.SHA256(), hashes.SHA1()])  # noqa: S303
def test_pss_padding_is_told_whatever_its_salt(salt, mask, keys):
    pss = padding.PSS(padding.MGF1(mask), salt)
    key = golden.private_key()
    assert finding(captured(header_of(key.sign(right(), pss, SHA256))), keys).rule == "pss-padding"
    wrong = f"{METHOD} {PATH}\n{TIME}.".encode() + BODY
    found = finding(captured(header_of(key.sign(wrong, pss, SHA256))), keys)
    assert found.rule == "pss-padding+missing-client-id"


def test_pss_over_unknown_bytes_is_still_told_from_an_unregistered_key(keys):
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    found = finding(captured(header_of(golden.private_key().sign(b"else", pss, SHA256))), keys)
    assert found.rule == "pss-padding+unexplained"
    assert "keyVersion 3 made this signature" in found.explanation


def test_pss_with_the_longest_salt_over_unknown_bytes_cannot_be_told_from_chance(keys):
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
    found = finding(captured(header_of(golden.private_key().sign(b"else", pss, SHA256))), keys)
    assert found.rule == "unregistered-key"
    assert "unless it has PSS padding" in found.explanation


@pytest.mark.parametrize("algorithm", [hashes.SHA1(), hashes.SHA384(), hashes.SHA512(), hashes.MD5()])  # noqa: S303
def test_another_hash_is_told(algorithm, keys):
    signature = golden.private_key().sign(right(), PKCS1, algorithm)
    found = finding(captured(header_of(signature)), keys)
    assert found.rule == "other-hash"
    assert "SHA-256 is required" in found.explanation
    five = golden.private_key().sign(
        f"{METHOD}\n{PATH}\n{CLIENT}\n{TIME}\n".encode() + BODY, PKCS1, algorithm
    )
    assert finding(captured(header_of(five)), keys).rule == "other-hash+five-lines"


def encrypted_with_the_private_key(data: bytes) -> bytes:
    numbers = golden.private_key().private_numbers()
    block = b"\0\1" + b"\xff" * (256 - 3 - len(data)) + b"\0" + data
    return pow(int.from_bytes(block, "big"), numbers.d, numbers.public_numbers.n).to_bytes(256, "big")


def test_a_digest_encrypted_without_its_digest_info_is_told(keys):
    assert (
        encrypted_with_the_private_key(bytes.fromhex("3031300d060960864801650304020105000420") + sha(right()))
        == SIGNATURE
    ), "the block is built as PKCS#1 v1.5 wants it"
    for data, rule in (
        (sha(right()), "missing-digest-info"),
        (sha(right()).hex().encode(), "missing-digest-info+hashed-twice"),
        (HEAD.encode(), "missing-digest-info+empty-body"),
    ):
        assert finding(captured(header_of(encrypted_with_the_private_key(data))), keys).rule == rule


COMBINED = {
    "missing Client-Id and CRLF": (
        f"{METHOD} {PATH}\r\n{TIME}.".encode() + BODY,
        {"missing-client-id", "crlf"},
    ),
    "five lines over pretty JSON": (
        f"{METHOD}\n{PATH}\n{CLIENT}\n{TIME}\n".encode() + dumped(indent=2),
        {"five-lines", "reserialised-json"},
    ),
    "five lines, CRLF, Python's JSON": (
        f"{METHOD}\r\n{PATH}\r\n{CLIENT}\r\n{TIME}\r\n".encode() + dumped(),
        {"five-lines", "crlf", "reserialised-json"},
    ),
    "full URL, five lines, body hash": (
        f"{METHOD}\nhttps://shop-api.example{PATH}\n{CLIENT}\n{TIME}\n".encode() + sha(BODY).hex().encode(),
        {"full-url", "five-lines", "body-hash"},
    ),
    "query and trailing newline": (
        f"{METHOD} {PATH}?q=1\n{CLIENT}.{TIME}.".encode() + BODY + b"\n",
        {"query-in-path", "trailing-newline"},
    ),
    "four at once": (
        f"post\nhttps://shop-api.example{PATH}\n{CLIENT}\n{TIME}\n".encode() + dumped(),
        {"lower-case-method", "full-url", "five-lines", "reserialised-json"},
    ),
    "lower-case method in UTF-16": (
        f"post {PATH}\n{CLIENT}.{TIME}.".encode("utf-16-le") + BODY.decode().encode("utf-16-le"),
        {"lower-case-method", "other-encoding"},
    ),
}


@pytest.mark.parametrize(("string", "rules"), COMBINED.values(), ids=COMBINED)
def test_mistakes_made_together_are_all_told(string, rules, keys):
    assert set(of_string(string, keys, path=PATH + "?q=1").rule.split("+")) == rules


def test_a_clock_read_twice_is_told_to_the_millisecond(keys):
    sent, signed = "2026-03-01T09:30:00.123Z", "2026-03-01T09:30:00.119Z"
    string = signing.request_string(METHOD, PATH, CLIENT, signed, BODY)
    assert of_string(string, keys, time_text=sent).rule == "other-request-time"


# --- what cannot be explained ----------------------------------------------------------------------------


def test_the_right_key_over_other_bytes_is_told_from_a_key_that_is_not_registered(keys):
    altered = of_string(right(BODY.replace(b"1999", b"1")), keys)
    assert altered.rule == "unexplained"
    assert "The private key of keyVersion 3 made this signature, but over other bytes" in altered.explanation

    stranger = signing.sign(rsa.generate_private_key(65537, 2048), right())
    unregistered = finding(captured(header_of(stranger)), keys)
    assert unregistered.rule == "unregistered-key"
    assert "No key registered for this merchant" in unregistered.explanation


def test_both_give_the_measures_of_the_expected_string(keys):
    expected = f"{len(right())} bytes with SHA-256 {sha(right()).hex()}"
    altered = of_string(right(b"else"), keys).explanation
    assert expected in altered
    assert f"what was signed has SHA-256 {sha(right(b'else')).hex()}" in altered
    assert expected in finding(captured(header_of(bytes(256))), keys).explanation


def test_a_merchant_without_keys_is_told_so():
    assert finding(captured(header_of(SIGNATURE)), {}).rule == "no-registered-key"


def test_a_damaged_signature_is_an_unregistered_key(keys):
    damaged = bytes([SIGNATURE[0]]) + bytes([SIGNATURE[1] ^ 1]) + SIGNATURE[2:]
    for signature in (damaged, bytes(256), b"\xff" * 256, SIGNATURE[::-1]):
        assert finding(captured(header_of(signature)), keys).rule == "unregistered-key"


# --- bounds ----------------------------------------------------------------------------------------------

MANY = json.dumps(
    {"items": [{"name": f"é{n}", "price": n} for n in range(1800)]}, ensure_ascii=False
).encode()


@pytest.mark.parametrize(
    "body",
    [MANY, b"\n" * 65_536, b"{" * 65_536, b"\xff" * 65_536, b'{"a":"' + b"</&>\\u00e9" * 5000 + b'"}', BODY],
    ids=["many members", "line feeds", "brackets", "no UTF-8", "escapes", "usual"],
)
def test_the_cost_is_bounded_when_nothing_explains_the_signature(body, keys):
    header = header_of(signature_of(b"something else"))
    started = time.process_time()
    assert (
        finding(captured(header, body=body, time_text="2026-03-01T09:30:00.123Z"), keys).rule == "unexplained"
    )
    assert time.process_time() - started < 0.5


def test_a_large_body_still_has_its_single_mistakes_found(keys):
    body = MANY[:-1] + b',"pad":"' + b"x" * (65_536 - len(MANY) - 10) + b'"}'
    assert len(body) <= 65_536
    for string, rule in (
        (HEAD.replace("\n", "\r\n").encode() + body, "crlf"),
        (f"{METHOD}\n{PATH}\n{CLIENT}\n{TIME}\n".encode() + body, "five-lines"),
        (right(json.dumps(json.loads(body), indent=2).encode()), "reserialised-json"),
        (right(sha(body).hex().encode()), "body-hash"),
    ):
        assert of_string(string, keys, body=body).rule == rule


def test_only_so_many_keys_are_looked_at(keys):
    many = dict.fromkeys(range(10, 2000), golden.another_private_key().public_key())
    assert diagnose(captured(header_of(SIGNATURE)), many | {3: golden.public_key()}) is None
    assert finding(captured(header_of(SIGNATURE)), many).rule == "unregistered-key"


hostile_text = st.text(max_size=30) | st.text(st.characters(categories=["Cs", "Cc", "Zs", "Nd"]), max_size=10)
hostile_header = st.one_of(
    hostile_text,
    st.lists(
        st.sampled_from(
            ["algorithm", "keyVersion", "signature", "=", ",", " ", "%", "%3D", '"', "\n", TEXT, STANDARD]
        )
        | st.sampled_from(
            ["1", "3", "\u0663", "SHA256withRSA", SIGNATURE.hex(), "\udc80", "{method}", "0x", "=="]
        ),
        max_size=10,
    ).map("".join),
    st.binary(min_size=256, max_size=256).map(header_of),
)


@settings(max_examples=150, deadline=None)
@given(
    parts=st.tuples(hostile_text, hostile_text | st.just("http://[::1/?{}"), hostile_text, hostile_text),
    body=st.binary(max_size=50)
    | st.sampled_from([b'{"a":' * 40, b"\xef\xbb\xbf{}", b'{"a":1e999}', b'"\\ud800"']),
    header=hostile_header,
    host=hostile_text,
)
def test_no_input_makes_it_raise(parts, body, header, host):
    keys = {3: golden.public_key()}
    request = CapturedRequest(*parts, body, header, host)
    found = diagnose(request, keys)
    assert found is None or (found.rule and found.explanation)


@settings(max_examples=15, deadline=None)
@given(parts=st.tuples(hostile_text, hostile_text, hostile_text, hostile_text), body=st.binary(max_size=50))
def test_no_input_makes_the_search_raise(parts, body):
    request = CapturedRequest(*parts, body, header_of(signature_of(b"\0")), "{client}")
    found = diagnose(request, {3: golden.public_key()})
    assert found is not None


@pytest.mark.parametrize(
    "time_text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00.001Z"]
)
def test_the_ends_of_time_do_no_harm(time_text, keys):
    assert of_string(b"else", keys, time_text=time_text).rule == "unexplained"


def test_keys_of_other_sizes_do_no_harm():
    small = rsa.generate_private_key(65537, 1024).public_key()  # noqa: S505
    large = rsa.generate_private_key(65537, 3072).public_key()
    assert finding(captured(header_of(SIGNATURE)), {1: small, 2: large}).rule == "unregistered-key"
    with_right = {1: small, 2: large, 3: golden.public_key()}
    assert diagnose(captured(header_of(SIGNATURE)), with_right) is None


def test_the_recovered_digest_is_the_one_that_was_signed():
    prehashed = golden.private_key().sign(sha(right()), PKCS1, utils.Prehashed(SHA256))
    assert prehashed == SIGNATURE
