"""A merchant's refused requests, for the provider's staff who help it: each look at one is recorded."""

import re
from typing import Annotated, Final

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from payaccept.domain.remedies import remedy_of, rule_of
from payaccept.operations.doctor import text_of
from payaccept.operations.recorder import KEPT_FOR
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.errors import PageNotFound
from payaccept.portal.operator_merchants import ROOT
from payaccept.portal.rendering import Page, actor, page
from payaccept.portal.requests import line_of, operation_of
from payaccept.portal.services import Services

_PLACE: Final = re.compile(r"[0-9a-f]{1,40}", re.ASCII)
_REQUEST_ID: Final = re.compile(r"req_[0-9a-f]{28}", re.ASCII)


@get(f"{ROOT}/{{client_id:str}}/requests", guards=[staff()])
async def show_list(
    request: PortalRequest,
    services: NamedDependency[Services],
    client_id: FromPath[str],
    before: Annotated[str, QueryParameter(max_length=64)] = "",
) -> Page:
    """List the refused requests."""
    merchant = await services.merchants.get(client_id)
    place = before if _PLACE.fullmatch(before) else ""
    refused, older = await services.requests.list_refused(client_id, before=place)
    counts = await services.requests.count_refusals(client_id, services.clock())
    return page(
        request,
        "operator/requests.html",
        merchant=merchant,
        lines=[line_of(one) for one in refused],
        counts=[(count, remedy_of(count.result_code)) for count in counts],
        older=older,
        is_first=not place,
        days=KEPT_FOR.days,
    )


@get(f"{ROOT}/{{client_id:str}}/requests/{{request_id:str}}", guards=[staff()])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    client_id: FromPath[str],
    request_id: FromPath[str],
) -> Page:
    """Show one refused request, as it came."""
    merchant = await services.merchants.get(client_id)
    found = None
    if _REQUEST_ID.fullmatch(request_id):
        found = await services.requests.find_refused(client_id, request_id)
    if found is None:
        raise PageNotFound
    await services.oversight.note(actor(request), services.clock(), "request.viewed", request_id, client_id)
    rule, told = rule_of(found.result_code, found.message)
    return page(
        request,
        "operator/request.html",
        merchant=merchant,
        refused=found,
        operation=operation_of(found),
        rule=rule,
        told=told,
        remedy=remedy_of(found.result_code),
        examination=await services.doctor.examine_refused(found),
        raw=text_of(found),
    )


routes = (show_list, show)
