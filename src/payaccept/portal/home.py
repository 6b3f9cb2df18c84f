"""The front page, and a merchant's home."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.response import Redirect
from msgspec import Struct

from payaccept.domain.merchant import KeyState, Merchant, MerchantKey
from payaccept.domain.user import Membership, Permission
from payaccept.portal.access import PortalRequest, everyone, member
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services


class Step(Struct, frozen=True, kw_only=True):
    """Something a new merchant does; `path` and `label` are the button that begins it."""

    title: str
    text: str
    done: bool = False
    command: str = ""
    path: str = ""
    label: str = ""


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
async def show(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Page:
    """Show a merchant at a glance: who it is to the API, and what to do next."""
    merchant = await services.merchants.get(membership.client_id)
    keys = await services.merchants.list_keys(membership.client_id)
    people = await services.people.list_members(membership.client_id)
    traffic = await services.requests.traffic(membership.client_id, services.clock())
    steps = _steps(membership, merchant, keys, alone=len(people) == 1, has_sent=bool(traffic.keys))
    return page(request, "home/merchant.html", merchant=merchant, steps=steps)


def _steps(
    membership: Membership, merchant: Merchant, keys: list[MerchantKey], *, alone: bool, has_sent: bool
) -> list[Step]:
    active = [key for key in keys if key.state is KeyState.ACTIVE]
    waiting = [key for key in keys if key.state is KeyState.PENDING]
    may_add = membership.grants(Permission.MANAGE_KEYS)
    root = f"/m/{merchant.client_id}/keys"
    steps = [
        Step(
            title="Register a public key",
            text="You sign requests with your private key, which never leaves you; we check them with the public one.",
            done=bool(active),
            path=(f"{root}/{waiting[-1].key_version}" if waiting else f"{root}/new") if may_add else "",
            label=f"Prove keyVersion {waiting[-1].key_version}" if waiting else "Add a key",
        ),
        Step(
            title="Send a first signed request",
            text="Each operation has a page with an example that names your Client-Id. A refused one is explained.",
            done=has_sent,
            path="/docs/api",
            label="See the operations",
        ),
        Step(
            title="Set where webhooks go",
            text="We tell your server when a payment has become final. A request may name another address.",
            done=merchant.webhook_url is not None,
            path=f"/m/{merchant.client_id}/webhooks" if membership.grants(Permission.MANAGE_WEBHOOKS) else "",
            label="Set the endpoint",
        ),
    ]
    if membership.grants(Permission.MANAGE_PEOPLE):
        steps.append(
            Step(
                title="Invite your colleagues",
                text="Developers manage keys and webhooks, viewers read payments and reports.",
                done=not alone,
                path=f"/m/{merchant.client_id}/people/invite",
                label="Invite somebody",
            )
        )
    return steps


routes = (front, show)
