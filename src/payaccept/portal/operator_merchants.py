"""Every merchant, for the provider's staff: found, made, switched on and off, set, and its owner invited."""

from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from payaccept.domain.errors import EmailTaken, FieldsIllegal, SettingRefused
from payaccept.domain.merchant import DuplicatePolicy, Merchant, MerchantState
from payaccept.domain.user import Membership, Role
from payaccept.operations.merchants import MAX_NAME, MAX_RATE_LIMIT, Changes
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.forms import Form
from payaccept.portal.key_views import rows_of
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.requests import line_of
from payaccept.portal.services import Services

ROOT: Final = "/operator/merchants"
MAX_REASON: Final = 500
_REFUSED_SHOWN: Final = 5
_CHOSEN_STATES: Final = {MerchantState.ACTIVE, MerchantState.INACTIVE}
_POLICIES: Final = (
    (DuplicatePolicy.STRICT.value, "Strict", "A repeated paymentRequestId is always refused."),
    (
        DuplicatePolicy.REPLAY.value,
        "Replay",
        "A repeated request of the same bytes gets the first answer again.",
    ),
)

Text = Annotated[str, QueryParameter(max_length=128)]


@get(ROOT, guards=[staff()])
async def show_list(
    request: PortalRequest,
    services: NamedDependency[Services],
    q: Text = "",
    behind: Text = "",
) -> Page:
    """List merchants, or those that are looked for."""
    state = request.query_params.get("state", "")
    wanted = MerchantState(state) if state in set(MerchantState) else None
    merchants, older = await services.oversight.search_merchants(q.strip(), wanted, behind or None)
    return page(
        request,
        "operator/merchants.html",
        merchants=merchants,
        older=older,
        text=q.strip(),
        state=wanted,
        states=list(MerchantState),
        is_first=not behind,
    )


@get(f"{ROOT}/new", guards=[staff()])
async def show_new(request: PortalRequest) -> Page:
    """Ask for a new merchant's name."""
    return page(request, "operator/merchant_new.html", max_name=MAX_NAME)


@post(f"{ROOT}/new", guards=[staff()])
async def create(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Make a merchant."""
    form = await Form.of(request)
    name = form.text("name")
    try:
        merchant = await services.merchants.create(name, services.clock(), actor(request))
    except SettingRefused as refused:
        form.fail("name", sentence(refused))
        return page(request, "operator/merchant_new.html", form=form, status=422, max_name=MAX_NAME)
    return go(request, at(merchant.client_id), f"{merchant.name} is made. Next, invite its owner.")


@get(f"{ROOT}/{{client_id:str}}", guards=[staff()])
async def show(request: PortalRequest, services: NamedDependency[Services], client_id: FromPath[str]) -> Page:
    """Show one merchant."""
    return await _one(request, services, client_id)


@post(f"{ROOT}/{{client_id:str}}/state", guards=[staff()])
async def move(
    request: PortalRequest, services: NamedDependency[Services], client_id: FromPath[str]
) -> Response[Any]:
    """Let a merchant take payments, or stop it, for a reason that is kept."""
    merchant = await services.merchants.get(client_id)
    form = await Form.of(request)
    reason = reason_of(form)
    wanted = form.text("state")
    if wanted not in _CHOSEN_STATES:
        form.fail("form", "Choose whether the merchant is to be active or inactive.")
    elif wanted == merchant.state:
        return go(request, at(client_id), f"{merchant.name} is {wanted.lower()} already.")
    if not form.is_valid:
        return await _one(request, services, client_id, form)
    active = wanted == MerchantState.ACTIVE
    verb = services.merchants.activate if active else services.merchants.deactivate
    await verb(client_id, services.clock(), actor(request), reason)
    told = "is active: it takes payments" if active else "is deactivated: its requests are refused"
    return go(request, at(client_id), f"{merchant.name} {told} within a second.")


@get(f"{ROOT}/{{client_id:str}}/settings", guards=[staff()])
async def show_settings(
    request: PortalRequest, services: NamedDependency[Services], client_id: FromPath[str]
) -> Page:
    """Show what can be set."""
    return _settings(request, await services.merchants.get(client_id))


@post(f"{ROOT}/{{client_id:str}}/settings", guards=[staff()])
async def change(
    request: PortalRequest, services: NamedDependency[Services], client_id: FromPath[str]
) -> Response[Any]:
    """Change the settings."""
    merchant = await services.merchants.get(client_id)
    form = await Form.of(request)
    changes = _changes(form, merchant)
    if changes == Changes() and form.is_valid:
        return go(request, at(client_id), "Nothing was changed: all of it was set so already.")
    if form.is_valid:
        try:
            await services.merchants.change(client_id, changes, services.clock(), actor(request))
        except FieldsIllegal:
            problem = services.merchants.webhook_problem(str(changes.webhook_url))
            form.fail("webhook_url", f"The address {problem}.")
        except SettingRefused as refused:
            form.fail("rate_limit", sentence(refused))
    if not form.is_valid:
        return _settings(request, merchant, form)
    return go(request, at(client_id), "The settings are changed, and hold within a second.")


@get(f"{ROOT}/{{client_id:str}}/invite", guards=[staff()])
async def show_invite(
    request: PortalRequest, services: NamedDependency[Services], client_id: FromPath[str]
) -> Page:
    """Ask whom to invite as an owner."""
    return page(request, "operator/invite.html", merchant=await services.merchants.get(client_id))


@post(f"{ROOT}/{{client_id:str}}/invite", guards=[staff()])
async def invite(
    request: PortalRequest, services: NamedDependency[Services], client_id: FromPath[str]
) -> Response[Any]:
    """Make a one-time link for an owner, who invites all others."""
    merchant = await services.merchants.get(client_id)
    form = await Form.of(request)
    email = form.text("email")
    membership = Membership(client_id=client_id, merchant_name=merchant.name, role=Role.OWNER)
    try:
        sent = await services.people.invite(membership, email, Role.OWNER, services.clock(), actor(request))
    except EmailTaken as taken:
        form.fail("email", sentence(taken))
    except SettingRefused as refused:
        form.fail("email", str(refused))
    else:
        return page(request, "operator/invited.html", merchant=merchant, sent=sent)
    return page(request, "operator/invite.html", merchant=merchant, form=form, status=422)


def at(client_id: str) -> str:
    """Return the address of a merchant's page."""
    return f"{ROOT}/{client_id}"


def reason_of(form: Form) -> str:
    """Return why somebody does something; without a reason it is not done."""
    reason = form.text("reason", max_length=MAX_REASON)
    if not reason:
        form.fail("reason", "Say why: it is kept in the audit log.")
    return reason


def sentence(refused: Exception) -> str:
    """Return the message of a refusal as people read it."""
    text = str(refused)
    return f"{text[:1].upper()}{text[1:]}."


async def _one(request: PortalRequest, services: Services, client_id: str, form: Form | None = None) -> Page:
    merchant = await services.merchants.get(client_id)
    now = services.clock()
    keys = await services.merchants.list_keys(client_id)
    traffic = await services.requests.traffic(client_id, now)
    refused, _ = await services.requests.list_refused(client_id)
    lanes = [lane for lane in await services.events.list_failing_lanes() if lane.client_id == client_id]
    return page(
        request,
        "operator/merchant.html",
        form=form,
        status=200 if form is None else 422,
        merchant=merchant,
        rows=rows_of(keys, traffic, now),
        traffic=traffic,
        lanes=lanes,
        members=await services.people.list_members(client_id),
        invitations=await services.people.list_invitations(client_id, now),
        lines=[line_of(one) for one in refused[:_REFUSED_SHOWN]],
        refused_of_day=sum(c.refused for c in await services.requests.count_refusals(client_id, now)),
    )


def _settings(request: PortalRequest, merchant: Merchant, form: Form | None = None) -> Page:
    return page(
        request,
        "operator/settings.html",
        form=form,
        status=200 if form is None else 422,
        merchant=merchant,
        policies=_POLICIES,
    )


def _changes(form: Form, merchant: Merchant) -> Changes:
    """Return what the form wants otherwise than it is; what it asks wrongly is noted there."""
    wanted: dict[str, Any] = {}
    url = form.text("webhook_url") or None
    if url != merchant.webhook_url:
        wanted["webhook_url"] = url
    policy = form.text("duplicates")
    if policy not in set(DuplicatePolicy):
        form.fail("duplicates", "Choose one of them.")
    elif policy != merchant.duplicates:
        wanted["duplicates"] = DuplicatePolicy(policy)
    limit = form.text("rate_limit", max_length=9)
    if limit and not (limit.isascii() and limit.isdecimal()):
        form.fail("rate_limit", f"A whole number from 1 to {MAX_RATE_LIMIT}, or nothing for no limit.")
    elif (int(limit) if limit else None) != merchant.rate_limit:
        wanted["rate_limit"] = int(limit) if limit else None
    return Changes(**wanted)


routes = (
    show_list,
    show_new,
    create,
    show,
    move,
    show_settings,
    change,
    show_invite,
    invite,
)
