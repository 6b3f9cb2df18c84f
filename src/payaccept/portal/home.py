"""The front page, and a merchant's home."""

from typing import Any

from litestar import Response, get
from litestar.response import Redirect

from payaccept.domain.user import Membership, Permission
from payaccept.portal.access import PortalRequest, everyone, member
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services


@get("/", guards=[everyone()])
async def front(request: PortalRequest) -> Response[Any]:
    """Lead everyone where they belong."""
    viewer = request.user
    if viewer is None:
        return page(request, "home/front.html")
    if len(viewer.memberships) == 1:
        return Redirect(f"/m/{viewer.memberships[0].client_id}", status_code=303)
    return page(request, "home/merchants.html")


@get("/m/{client_id:str}", guards=[member(Permission.VIEW)])
async def show(request: PortalRequest, services: Services, membership: Membership) -> Page:
    """Show a merchant at a glance: who it is to the API, and what to do next."""
    merchant = await services.merchants.get(membership.client_id)
    keys = await services.merchants.list_keys(membership.client_id)
    return page(request, "home/merchant.html", merchant=merchant, keys=keys)


routes = (front, show)
