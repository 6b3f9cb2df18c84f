"""The four operations: from the bytes of a checked request to the bytes of its answer."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct

from payaccept.api.gate import Endpoint
from payaccept.domain import request_rules
from payaccept.domain.errors import FieldsIllegal
from payaccept.domain.merchant import Environment, Merchant
from payaccept.domain.payment import SignedBody
from payaccept.domain.urls import UrlPolicy
from payaccept.operations.payments import Payments
from payaccept.wire import fields, strict_json
from payaccept.wire import messages as m
from payaccept.wire.codes import ResultCode
from payaccept.wire.fields import Problem

R = TypeVar("R", bound=Struct)
Verb = Callable[[Merchant, Any, SignedBody, datetime], Awaitable[bytes]]

_ACCEPTED_MARK: Final = b'{"result":{"resultStatus":"A"'
_FAILED_MARK: Final = b'{"result":{"resultStatus":"F"'
_failure_decoder: Final = msgspec.json.Decoder(m.ErrorResponse)


class Endpoints:
    """Reads requests under the deployment's rules and hands them to the operations."""

    def __init__(self, payments: Payments, environment: Environment, urls: UrlPolicy) -> None:
        self._payments = payments
        self._environment = environment
        self._urls = urls

    def by_path(self) -> dict[str, Endpoint]:
        """Return the endpoint of every path."""
        payments = self._payments
        return {
            m.PATH_PREFIX + "createQROrder": self._creates(m.CreateQROrderRequest, payments.create_qr_order),
            m.PATH_PREFIX + "retailPay": self._creates(m.RetailPayRequest, payments.pay_retail),
            m.PATH_PREFIX + "linkPayCreate": self._creates(m.LinkPayCreateRequest, payments.create_link),
            m.PATH_PREFIX + "inquiryPayment": self._inquires,
        }

    def _creates(self, request_type: type[m.CreateRequest], verb: Verb) -> Endpoint:
        async def endpoint(merchant: Merchant, signed: SignedBody, now: datetime) -> tuple[ResultCode, bytes]:
            request = _read(signed.body, request_type)
            problems = request_rules.problems(request, self._environment, self._urls)
            if problems:
                raise FieldsIllegal("; ".join(map(str, problems)), _paths(problems))
            answer = await verb(merchant, request, signed, now)
            return _code_of(answer), answer

        return endpoint

    async def _inquires(
        self, merchant: Merchant, signed: SignedBody, _now: datetime
    ) -> tuple[ResultCode, bytes]:
        request = _read(signed.body, m.InquiryPaymentRequest)
        return ResultCode.SUCCESS, await self._payments.inquire(merchant, request)


def _read(body: bytes, request_type: type[R]) -> R:
    try:
        return fields.read(strict_json.load_object(body), request_type)
    except strict_json.JsonRefused as error:
        raise FieldsIllegal(f"the body {error}", "the body is no acceptable JSON") from None
    except fields.FieldsRefused as error:
        raise FieldsIllegal(str(error), _paths(error.problems)) from None


def _paths(problems: Sequence[Problem]) -> str:
    """Name the fields for the request log: a wrong value may be an auth code in the wrong place."""
    return "refused: " + ", ".join(problem.path for problem in problems)


def _code_of(answer: bytes) -> ResultCode:
    """Return the code of an answer, for the request log."""
    if answer.startswith(_ACCEPTED_MARK):
        return ResultCode.ACCEPTED
    if not answer.startswith(_FAILED_MARK):
        return ResultCode.SUCCESS
    code = _failure_decoder.decode(answer).result.result_code
    return ResultCode.PROCESS_FAIL if code is UNSET else ResultCode(code)
