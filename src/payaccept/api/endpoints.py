"""The four operations: from the bytes of a checked request to the bytes of its answer."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from payaccept.api.gate import Endpoint
from payaccept.domain import scenario
from payaccept.domain.errors import FieldsIllegal
from payaccept.domain.merchant import Environment, Merchant
from payaccept.domain.money import currency_problem
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
        self._sandbox = environment is Environment.SANDBOX
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
            problems = self._problems(request)
            if problems:
                raise FieldsIllegal("; ".join(map(str, problems)))
            answer = await verb(merchant, request, signed, now)
            return _code_of(answer), answer

        return endpoint

    async def _inquires(
        self, merchant: Merchant, signed: SignedBody, _now: datetime
    ) -> tuple[ResultCode, bytes]:
        request = _read(signed.body, m.InquiryPaymentRequest)
        return ResultCode.SUCCESS, await self._payments.inquire(merchant, request)

    def _problems(self, request: m.CreateRequest) -> list[Problem]:
        """Find what breaks a rule of this deployment rather than of the protocol."""
        problems = []
        problem = currency_problem(request.payment_amount.currency)
        if problem:
            problems.append(Problem("paymentAmount.currency", problem))
        if isinstance(request, m.LinkPayCreateRequest):
            strategy = request.settlement_strategy
            if strategy is not UNSET and strategy.settlement_currency is not UNSET:
                problem = currency_problem(strategy.settlement_currency)
                if problem:
                    problems.append(Problem("settlementStrategy.settlementCurrency", problem))
            problems += self._url_problems("paymentRedirectUrl", request.payment_redirect_url)
        problems += self._url_problems("paymentNotifyUrl", request.payment_notify_url)
        if request.extend_info is not UNSET:
            problem = self._script_problem(request.extend_info)
            if problem:
                problems.append(Problem("extendInfo", problem))
        return problems

    def _url_problems(self, name: str, url: str | UnsetType) -> list[Problem]:
        problem = None if url is UNSET else self._urls.problem(url)
        return [] if problem is None else [Problem(name, problem)]

    def _script_problem(self, extend_info: str) -> str | None:
        if self._sandbox:
            return scenario.read(extend_info)[1]
        return "sandbox is not for production" if scenario.asks_for_script(extend_info) else None


def _read(body: bytes, request_type: type[R]) -> R:
    try:
        return fields.read(strict_json.load_object(body), request_type)
    except strict_json.JsonRefused as error:
        raise FieldsIllegal(f"the body {error}") from None
    except fields.FieldsRefused as error:
        raise FieldsIllegal(str(error)) from None


def _code_of(answer: bytes) -> ResultCode:
    """Return the code of an answer, for the request log."""
    if answer.startswith(_ACCEPTED_MARK):
        return ResultCode.ACCEPTED
    if not answer.startswith(_FAILED_MARK):
        return ResultCode.SUCCESS
    code = _failure_decoder.decode(answer).result.result_code
    return ResultCode.PROCESS_FAIL if code is UNSET else code
