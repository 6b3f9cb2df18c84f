"""The table of result codes: complete, and as the documentation states it."""

import pytest

from payaccept.wire.codes import PAYMENT_FAILURES, TABLE, ResultCode, ResultStatus

EXPECTED = {
    "SUCCESS": ("S", 200),
    "ACCEPTED": ("A", 200),
    "PARAM_ILLEGAL": ("F", 400),
    "INVALID_SIGNATURE": ("F", 401),
    "TIMESTAMP_INVALID": ("F", 401),
    "INVALID_CLIENT_ID": ("F", 401),
    "ACCESS_DENIED": ("F", 403),
    "ORDER_NOT_EXIST": ("F", 404),
    "REPEAT_REQUEST": ("F", 409),
    "NOT_FOUND": ("F", 404),
    "METHOD_NOT_ALLOWED": ("F", 405),
    "UNSUPPORTED_MEDIA_TYPE": ("F", 415),
    "PAYLOAD_TOO_LARGE": ("F", 413),
    "REQUEST_TRAFFIC_EXCEED_LIMIT": ("F", 429),
    "INVALID_CODE": ("F", 200),
    "AUTH_CODE_ALREADY_USED": ("F", 200),
    "QR_EXPIRED": ("F", 200),
    "ORDER_EXPIRED": ("F", 200),
    "USER_REJECTED": ("F", 200),
    "INSUFFICIENT_BALANCE": ("F", 200),
    "RISK_REJECT": ("F", 200),
    "CURRENCY_NOT_SUPPORT": ("F", 200),
    "PAYMENT_AMOUNT_EXCEED_LIMIT": ("F", 200),
    "PROCESS_FAIL": ("F", 200),
    "SYSTEM_BUSY": ("U", 503),
    "UNKNOWN_EXCEPTION": ("U", 500),
}


def test_every_code_has_exactly_its_row():
    rows = {str(code): (str(meaning.status), meaning.http) for code, meaning in TABLE.items()}
    assert rows == EXPECTED
    assert set(TABLE) == set(ResultCode)


@pytest.mark.parametrize("code", ResultCode)
def test_a_code_is_its_own_name_and_knows_its_meaning(code):
    assert code.value == code.name
    assert code.meaning is TABLE[code]
    assert code.meaning.message.endswith(".")
    assert code.meaning.message.isascii()


def test_a_payment_fails_with_the_failures_that_answer_200_and_no_others():
    expected = {code for code, row in EXPECTED.items() if row == ("F", 200)}
    assert set(PAYMENT_FAILURES) == expected
    assert len(PAYMENT_FAILURES) == 10


def test_the_http_status_tells_what_happened_to_the_request():
    for code, meaning in TABLE.items():
        if meaning.status in {ResultStatus.S, ResultStatus.A}:
            assert meaning.http == 200, code
        elif meaning.status is ResultStatus.U:
            assert meaning.http >= 500, code
        else:
            assert meaning.http < 500, code
