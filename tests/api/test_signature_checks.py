"""The Signature header and what was signed: what opens the gate, and what is explained to a developer."""

import itertools
import json
from collections.abc import Callable

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from deployment import add_key
from draft import CREATE, PATH, Draft
from merchant import PREFIX, Merchant, at_now, base64url, compact, private_key, request_of
from raw_asgi import exchange


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(register) -> Merchant:
    return await register("Shop")


@pytest.fixture
def draft(shop) -> Draft:
    return Draft(shop)


ACCEPTED_HEADERS = [
    "algorithm=SHA256withRSA,keyVersion={version},signature={signature}",
    "algorithm=SHA256withRSA,   keyVersion={version},\tsignature={signature}",
    "signature={signature}, keyVersion={version}, algorithm=SHA256withRSA",
    "keyVersion={version}, algorithm=SHA256withRSA, signature={signature}",
    " algorithm = SHA256withRSA , keyVersion = {version} , signature = {signature} ",
]
REFUSED_HEADERS = [
    "",
    ",",
    "{signature}",
    "algorithm=SHA256withRSA",
    "algorithm=SHA256withRSA, keyVersion={version}",
    "keyVersion={version}, signature={signature}",
    "algorithm=SHA256withRSA; keyVersion={version}; signature={signature}",
    "algorithm=sha256withrsa, keyVersion={version}, signature={signature}",
    "algorithm=SHA512withRSA, keyVersion={version}, signature={signature}",
    "algorithm=none, keyVersion={version}, signature={signature}",
    "algorithm=, keyVersion={version}, signature={signature}",
    "Algorithm=SHA256withRSA, KeyVersion={version}, Signature={signature}",
    "algorithm=SHA256withRSA, keyVersion={version}, signature={signature},",
    "algorithm=SHA256withRSA, keyVersion={version}, signature={signature}, extra=1",
    "algorithm=SHA256withRSA, keyVersion={version}, signature={signature}, keyVersion={version}",
    "algorithm=SHA256withRSA, keyVersion={version}, signature={signature}, signature={signature}",
    'algorithm="SHA256withRSA", keyVersion="{version}", signature="{signature}"',
    "algorithm=SHA256withRSA, keyVersion={version}, signature={signature}==",
    "algorithm=SHA256withRSA, keyVersion={version}, signature={signature}A",
    "algorithm=SHA256withRSA, keyVersion={version}, signature=",
    "algorithm=SHA256withRSA, keyVersion={version}, signature=" + "A" * 341 + "B",
    "algorithm=SHA256withRSA, keyVersion={version}, signature=" + "A" * 341 + "\xe9",
    "algorithm=SHA256withRSA, keyVersion={version}, signature=" + "A" * 100_000,
]


@pytest.mark.parametrize("header", ACCEPTED_HEADERS)
async def test_the_parts_of_a_signature_header_come_in_any_order_and_with_blanks(kernel, draft, header):
    draft.signature_header = header
    assert (await draft.send(kernel)).code == "ACCEPTED"


@pytest.mark.parametrize("header", REFUSED_HEADERS)
async def test_any_other_signature_header_is_refused(kernel, draft, header):
    draft.signature_header = header
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (401, "INVALID_SIGNATURE")


@pytest.mark.parametrize(
    "key_version",
    ["", "keyVersion=, ", "keyVersion=0, ", "keyVersion=01, ", "keyVersion=-1, ", "keyVersion=one, "],
)
async def test_a_missing_key_version_denies_access(kernel, draft, key_version):
    draft.signature_header = f"algorithm=SHA256withRSA, {key_version}signature={{signature}}"
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (403, "ACCESS_DENIED")
    assert "keyVersion" in answer.message


def _standard(text: str) -> str:
    return text.replace("-", "+").replace("_", "/")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text + "==", "padd"),
        (_standard, "standard"),
        (lambda text: _standard(text) + "==", "standard"),
        (lambda text: text[:-1] + chr(ord(text[-1]) + 1), "canonical"),
        (lambda text: text[:-1], "341 came"),
        (lambda text: text[:170] + " " + text[171:], ""),
    ],
    ids=["padded", "standard", "standard and padded", "not canonical", "a character short", "a blank inside"],
)
async def test_the_signature_must_be_canonical_base64url_without_padding(kernel, shop, spoil, words):
    body, at = compact(request_of(CREATE)), at_now()
    for number in itertools.count():  # until both characters occur that the two alphabets write differently
        body = compact(request_of(CREATE, productCode=f"p{number}"))
        signature = shop.signature(PATH, at, body)
        if "-" in signature and "_" in signature:
            break
    headers = shop.headers(PATH, body, at)
    headers["Signature"] = headers["Signature"].replace(signature, spoil(signature))
    answer = await exchange(kernel, "POST", PATH, headers.items(), body)
    assert (answer.status, answer.code) == (401, "INVALID_SIGNATURE")
    assert words in answer.message


# The key and what it signed


async def test_both_versions_are_accepted_until_the_old_one_is_retired(register, administration, kernel):
    shop = await register("Rotating")
    old = shop.key_version
    new = await add_key(administration, shop)
    assert (old, new) == (1, 2)
    for version in (old, new):
        shop.key_version = version
        draft = Draft(shop)
        for _ in range(40):  # honoured within a second
            answer = await draft.send(kernel)
            if answer.code == "ACCEPTED":
                break
        assert answer.code == "ACCEPTED", answer.message


async def test_a_signature_by_another_of_its_keys_is_diagnosed(register, kernel):
    shop = await register("Two keys", keys=2)
    draft = Draft(shop, key_version=1)
    answer = await draft.send(kernel)
    assert answer.code == "INVALID_SIGNATURE"
    assert "keyVersion 2" in answer.message


SIGNED_WRONGLY: dict[str, tuple[Callable[[str, str, bytes], bytes], str]] = {
    "five lines": (lambda c, t, b: f"POST\n{PATH}\n{c}\n{t}\n".encode() + b, "five-line"),
    "no Client-Id": (lambda _, t, b: f"POST {PATH}\n{t}.".encode() + b, "client-id"),
    "a line feed at the end": (lambda c, t, b: f"POST {PATH}\n{c}.{t}.".encode() + b + b"\n", "trailing"),
    "CR LF": (lambda c, t, b: f"POST {PATH}\r\n{c}.{t}.".encode() + b, "crlf"),
    "pretty JSON": (
        lambda c, t, b: f"POST {PATH}\n{c}.{t}.".encode() + json.dumps(json.loads(b), indent=2).encode(),
        "",
    ),
    "the body altered": (lambda c, t, b: f"POST {PATH}\n{c}.{t}.".encode() + b.replace(b"1999", b"1"), ""),
}


@pytest.mark.parametrize("name", SIGNED_WRONGLY)
async def test_a_wrong_signing_string_is_explained_in_the_sandbox(kernel, shop, name):
    build, rule = SIGNED_WRONGLY[name]
    body, at = compact(request_of(CREATE)), at_now()
    signed = build(shop.client_id, at, body)
    signature = base64url(shop.key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))
    headers = shop.headers(PATH, body, at)
    headers["Signature"] = f"algorithm=SHA256withRSA, keyVersion=1, signature={signature}"
    answer = await exchange(kernel, "POST", PATH, headers.items(), body)
    assert answer.code == "INVALID_SIGNATURE"
    assert ": " in answer.message
    assert rule in answer.message.lower()
    assert "1999" not in answer.message


async def test_a_pss_signature_is_explained(kernel, shop):
    body, at = compact(request_of(CREATE)), at_now()
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
    signed = f"POST {PATH}\n{shop.client_id}.{at}.".encode() + body
    signature = base64url(shop.key.sign(signed, pss, hashes.SHA256()))
    headers = shop.headers(PATH, body, at)
    headers["Signature"] = f"algorithm=SHA256withRSA, keyVersion=1, signature={signature}"
    answer = await exchange(kernel, "POST", PATH, headers.items(), body)
    assert answer.code == "INVALID_SIGNATURE"
    assert "PSS" in answer.message


async def test_another_merchants_key_does_not_open_this_one(kernel, shop):
    forged = Merchant(shop.client_id)
    forged.use_key(1, private_key(9_001))
    answer = await Draft(forged).send(kernel)
    assert (answer.status, answer.code) == (401, "INVALID_SIGNATURE")


async def test_a_body_of_the_same_value_in_other_bytes_does_not_verify(kernel, draft):
    draft.signed_body = draft.body
    draft.body = draft.body.replace(b",", b", ", 1)
    assert (await draft.send(kernel)).code == "INVALID_SIGNATURE"


async def test_a_request_for_one_operation_does_not_open_another(kernel, shop):
    body = compact(request_of(CREATE))
    headers = shop.headers(PATH, body)
    answer = await exchange(kernel, "POST", PREFIX + "retailPay", headers.items(), body)
    assert answer.code == "INVALID_SIGNATURE"
