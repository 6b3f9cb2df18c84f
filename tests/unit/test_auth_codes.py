"""No auth code is kept, however broken the request that brings it."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.wire.auth_codes import mask, mask_named, masked_and_codes, without

CODE = "286012020262467128"
SOFT = "wallet-code/9Zk4"  # looks like nothing


@pytest.mark.parametrize("code", [CODE, SOFT])
@pytest.mark.parametrize(
    "body",
    [
        '{"paymentAuthCode":"%s","productCode":"51051000101000100031"}',
        '{ "paymentAuthCode" : "%s" }',
        '{"payment\\u0041uthCode":"%s"}',
        '{"PAYMENTAUTHCODE":"%s"}',
        '{"payment_auth_code":"%s"}',
        '{"authCode":"%s"}',
        '{"order":{"paymentAuthCode":"%s"}}',
        '{"paymentAuthCode":{"value":"%s"}}',
        '{"paymentAuthCode":["%s"]}',
        '{"extendInfo":"{\\"paymentAuthCode\\":\\"%s\\"}"}',
        '{"paymentAuthCode":"%s","note":"the code was %s"}',
        '{"paymentAuthCode":"first-code","paymentAuthCode":"%s"}',
        '{"note":"a "stray quote","paymentAuthCode":"%s"}',
        '{"paymentAuthCode":"%s',
        '{"paymentAuthCode": %s',
        "{'paymentAuthCode':'%s'}",
        "{paymentAuthCode:%s}",
        "paymentAuthCode=%s&productCode=1",
        "paymentAuthCode => %s",
    ],
)
def test_a_code_under_its_name_is_masked_wherever_that_stands(body, code):
    sent = body.replace("%s", code).encode()
    masked = mask(sent)
    assert code.encode() not in masked
    assert b"*" * len(code) in masked or b"*" * 6 in masked
    assert len(masked) == len(sent)


@pytest.mark.parametrize("body", ['{"productCode":"%s"}', '{"a":%s}', "%s", '{"paymentRequestId":"x-%s"}'])
def test_what_looks_like_a_code_is_masked_in_the_wrong_place_too(body):
    assert CODE.encode() not in mask((body % CODE).encode())


def test_everything_else_stays_as_it_was():
    body = b'{"paymentRequestId":"order-20260301093000123456","productCode":"51051000101000100031"}'
    assert mask(body) == body
    sent = json.dumps({"paymentAuthCode": CODE, "paymentAmount": {"currency": "EUR", "value": 1999}}).encode()
    assert mask(sent) == sent.replace(CODE.encode(), b"*" * len(CODE))


def test_an_escaped_code_is_masked_as_it_is_written():
    written = "".join(f"\\u{ord(c):04x}" for c in CODE)
    assert written.encode() not in mask(f'{{"paymentAuthCode":"{written}"}}'.encode())


def test_a_short_code_is_masked_under_its_name_and_nowhere_else():
    assert (
        mask(b'{"paymentAuthCode":"EUR","currency":"EUR"}') == b'{"paymentAuthCode":"***","currency":"EUR"}'
    )


def test_a_message_about_the_request_loses_what_the_request_holds():
    _, codes = masked_and_codes(f'{{"paymentAuthCode":"{SOFT}"}}'.encode())
    assert (
        without(f'bizType is "{SOFT}", or {CODE}'.encode(), codes)
        == b'bizType is "****************", or ' + b"*" * 18
    )


@given(st.binary(max_size=300))
def test_whatever_comes_is_masked_without_an_error(data):
    assert len(mask(data)) == len(data)


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_code_in_any_json_is_masked(before, after):
    body = json.dumps({before: before, "paymentAuthCode": CODE, after: after}).encode()
    assert CODE.encode() not in mask(body) or CODE in before + after


@pytest.mark.parametrize(
    "piece", [b'"', b'"\\"', b'\\"', b'"authcode":', b'"authcode":"abcdefgh",', b"authcode" + b" " * 15]
)
def test_the_work_grows_with_the_length_only(piece):
    data = (piece * 20_000)[:16_384]
    started = time.perf_counter()
    mask(data)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("body", "masked"),
    [
        (
            '{"paymentAuthCode":"%s","note":"%s"}',
            '{"paymentAuthCode":"******************","note":"******************"}',
        ),
        ('{"paymentRequestId":"2611210000001234"}', '{"paymentRequestId":"2611210000001234"}'),
    ],
)
def test_in_what_was_accepted_only_the_code_is_masked_and_no_number_that_looks_like_one(body, masked):
    assert mask_named(body.replace("%s", CODE).encode()) == masked.encode()


def test_a_code_with_escapes_is_masked_where_it_stands_without_them():
    escaped = CODE.replace("2", "\\u0032", 1)
    body = f'{{"paymentAuthCode":"{escaped}","note":"{CODE}"}}'.encode()
    assert CODE[1:].encode() not in mask_named(body)
    assert mask_named(b'{"paymentAuthCode":"\\ud800-lone"}') == b'{"paymentAuthCode":"***********"}'
