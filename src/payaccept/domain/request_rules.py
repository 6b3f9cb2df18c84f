"""What a request may not say in this deployment, though the protocol would let it."""

from msgspec import UNSET, UnsetType

from payaccept.domain import scenario
from payaccept.domain.merchant import Environment
from payaccept.domain.money import currency_problem
from payaccept.domain.urls import UrlPolicy
from payaccept.wire import messages as m
from payaccept.wire.fields import Problem


def problems(request: m.CreateRequest, environment: Environment, urls: UrlPolicy) -> list[Problem]:
    """Find what breaks a rule of this deployment rather than of the protocol."""
    found = []
    problem = currency_problem(request.payment_amount.currency)
    if problem:
        found.append(Problem("paymentAmount.currency", problem))
    if isinstance(request, m.LinkPayCreateRequest):
        strategy = request.settlement_strategy
        if strategy is not UNSET and strategy.settlement_currency is not UNSET:
            problem = currency_problem(strategy.settlement_currency)
            if problem:
                found.append(Problem("settlementStrategy.settlementCurrency", problem))
        found += _url_problems("paymentRedirectUrl", request.payment_redirect_url, urls)
    found += _url_problems("paymentNotifyUrl", request.payment_notify_url, urls)
    if request.extend_info is not UNSET:
        problem = _script_problem(request.extend_info, environment)
        if problem:
            found.append(Problem("extendInfo", problem))
    return found


def _url_problems(name: str, url: str | UnsetType, urls: UrlPolicy) -> list[Problem]:
    problem = None if url is UNSET else urls.problem(url)
    return [] if problem is None else [Problem(name, problem)]


def _script_problem(extend_info: str, environment: Environment) -> str | None:
    if environment is Environment.SANDBOX:
        return scenario.read(extend_info)[1]
    return "sandbox is not for production" if scenario.asks_for_script(extend_info) else None
