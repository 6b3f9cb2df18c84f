"""The last requests of a merchant: what was refused and why, what was accepted, how its clock goes."""

import re
from typing import Annotated, Final

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from payaccept.domain.remedies import REFUSING, Remedy, remedy_of, rule_of
from payaccept.domain.traffic import RefusedRequest
from payaccept.domain.user import Membership, Permission
from payaccept.operations.doctor import text_of
from payaccept.operations.recorder import KEPT_FOR, KEPT_PER_MERCHANT
from payaccept.operations.requests import Seen
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.errors import PageNotFound
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services
from payaccept.wire.messages import PATH_PREFIX, REQUESTS

_PLACE: Final = re.compile(r"[0-9a-f]{1,40}", re.ASCII)
_REQUEST_ID: Final = re.compile(r"req_[0-9a-f]{28}", re.ASCII)
_SENTENCE: Final = re.compile(r".{40,}?[.;](?=\s)", re.DOTALL)
_SHOWN: Final = 160

Text = Annotated[str, QueryParameter(max_length=64)]


class Line(Struct, frozen=True, kw_only=True):
    """A request in the list."""

    seen: Seen
    operation: str
    is_refused: bool
    remedy: Remedy = Remedy("", "")
    rule: str = ""
    told: str = ""


@get("/m/{client_id:str}/requests", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    show: Text = "",
    code: Text = "",
    before: Text = "",
) -> Page:
    """List the refused requests, or all of them."""
    client_id = membership.client_id
    now = services.clock()
    place = before if _PLACE.fullmatch(before) else ""
    wanted = code if code in {str(known) for known in REFUSING} else None
    everything = show == "all" and wanted is None
    seen: list[Seen]
    if everything:
        seen, older = await services.requests.list_all(client_id, before=place)
    else:
        refused, older = await services.requests.list_refused(client_id, before=place, result_code=wanted)
        seen = [*refused]
    counts = await services.requests.count_refusals(client_id, now)
    return page(
        request,
        "requests/requests.html",
        lines=[line_of(one) for one in seen],
        everything=everything,
        code=wanted,
        older=older,
        is_first=not place,
        counts=[(count, remedy_of(count.result_code)) for count in counts],
        refused_of_day=sum(count.refused for count in counts),
        only_counted=sum(count.only_counted for count in counts),
        traffic=await services.requests.traffic(client_id, now),
        days=KEPT_FOR.days,
        most=KEPT_PER_MERCHANT,
    )


@get("/m/{client_id:str}/requests/{request_id:str}", guards=[member(Permission.VIEW)])
async def show_one(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    request_id: FromPath[str],
) -> Page:
    """Show one refused request: the rule it broke, how to mend it, and all that is known of it."""
    refused = await find(services, membership, request_id)
    rule, told = rule_of(refused.result_code, refused.message)
    return page(
        request,
        "requests/request.html",
        refused=refused,
        operation=operation_of(refused),
        rule=rule,
        told=told,
        remedy=remedy_of(refused.result_code),
        examination=await services.doctor.examine_refused(refused),
        raw=text_of(refused),
        days=KEPT_FOR.days,
    )


async def find(services: Services, membership: Membership, request_id: str) -> RefusedRequest:
    """Return a refused request of the merchant's. Raises: PageNotFound."""
    found = None
    if _REQUEST_ID.fullmatch(request_id):
        found = await services.requests.find_refused(membership.client_id, request_id)
    if found is None:
        raise PageNotFound
    return found


def operation_of(refused: RefusedRequest) -> str:
    """Return the operation that a request was for; its path when there is none such."""
    path = refused.target.partition("?")[0]
    name = path.removeprefix(PATH_PREFIX)
    return name if name in REQUESTS else path[:80]


def line_of(seen: Seen) -> Line:
    """Return a request as a list shows it."""
    if not isinstance(seen, RefusedRequest):
        return Line(seen=seen, operation=seen.operation, is_refused=False)
    rule, told = rule_of(seen.result_code, seen.message)
    return Line(
        seen=seen,
        operation=operation_of(seen),
        is_refused=True,
        remedy=remedy_of(seen.result_code),
        rule=rule,
        told=_beginning(told),
    )


def _beginning(text: str) -> str:
    """Return the first sentence of a message, or as much of it as fits in a line or two."""
    match = _SENTENCE.match(text)
    first = text if match is None else match[0].removesuffix(";")
    return first if len(first) <= _SHOWN else f"{first[: _SHOWN - 1].rstrip()}…"


routes = (show, show_one)
