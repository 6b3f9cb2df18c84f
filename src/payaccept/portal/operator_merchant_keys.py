"""A merchant's keys, for the provider's staff: how each is used, and the way to refuse one in an emergency."""

from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain.errors import KeyNotFound
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.key_views import KeyRow, chart_of, is_in_use, rows_of
from payaccept.portal.operator_merchants import ROOT, at, reason_of
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services


@get(f"{ROOT}/{{client_id:str}}/keys/{{key_version:str}}", guards=[staff()])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    client_id: FromPath[str],
    key_version: FromPath[str],
) -> Page:
    """Show one key."""
    return await _one(request, services, client_id, key_version)


@post(f"{ROOT}/{{client_id:str}}/keys/{{key_version:str}}/deactivate", guards=[staff()])
async def deactivate(
    request: PortalRequest,
    services: NamedDependency[Services],
    client_id: FromPath[str],
    key_version: FromPath[str],
) -> Response[Any]:
    """Refuse a key from now on, for a reason that is kept."""
    row = await _row(services, client_id, key_version)
    form = await Form.of(request)
    reason = reason_of(form)
    if not form.is_valid:
        return await _one(request, services, client_id, key_version, form)
    version = row.key.key_version
    try:
        await services.merchants.retire_key(client_id, version, services.clock(), actor(request), reason)
    except KeyNotFound:
        return go(request, f"{at(client_id)}/keys/{version}", "That key is not active.")
    told = f"keyVersion {version} is deactivated: what it signs is refused within a second."
    return go(request, f"{at(client_id)}/keys/{version}", told)


async def _one(
    request: PortalRequest, services: Services, client_id: str, key_version: str, form: Form | None = None
) -> Page:
    row = await _row(services, client_id, key_version)
    return page(
        request,
        "operator/merchant_key.html",
        form=form,
        status=200 if form is None else 422,
        merchant=await services.merchants.get(client_id),
        row=row,
        chart=chart_of([row]) if row.traffic.last_hour else None,
        in_use=is_in_use(row, services.clock()),
    )


async def _row(services: Services, client_id: str, key_version: str) -> KeyRow:
    keys = await services.merchants.list_keys(client_id)
    now = services.clock()
    for row in rows_of(keys, await services.requests.traffic(client_id, now), now):
        if str(row.key.key_version) == key_version:
            return row
    raise PageNotFound


routes = (show, deactivate)
