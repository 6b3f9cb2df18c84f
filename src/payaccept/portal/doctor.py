"""The signature doctor: paste a captured request, and learn what the API would think of it."""

from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from payaccept.domain.user import Membership, Permission
from payaccept.operations.doctor import text_of
from payaccept.portal import requests
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services
from payaccept.wire.capture import CaptureUnreadable

MAX_CAPTURE: Final = 96 * 1024


@get("/m/{client_id:str}/requests/doctor", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    request_id: Annotated[str, QueryParameter(name="request", max_length=64)] = "",
) -> Page:
    """Ask for a request; one that was refused may be there already."""
    text = text_of(await requests.find(services, membership, request_id)) if request_id else ""
    return page(request, "doctor/doctor.html", text=text, examination=None)


@post("/m/{client_id:str}/requests/doctor", guards=[member(Permission.VIEW)])
async def examine(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Examine what was pasted. Nothing of it is kept."""
    form = await Form.of(request)
    # As it was typed: a blank at the end may be what is wrong.
    text = form.values.get("capture", "")
    if not text.strip():
        form.fail("capture", "Paste a request, beginning with its first line.")
    elif len(text) > MAX_CAPTURE:
        form.fail("capture", "This is longer than any request that the API takes.")
    else:
        try:
            examination = await services.doctor.examine_typed(membership.client_id, text)
        except CaptureUnreadable as unreadable:
            form.fail("capture", f"{str(unreadable)[:1].upper()}{str(unreadable)[1:]}.")
        else:
            return page(request, "doctor/doctor.html", form=form, text="", examination=examination)
    if "PRIVATE KEY" in text:
        form.secret("capture")
    return page(request, "doctor/doctor.html", form=form, status=422, text="", examination=None)


routes = (show, examine)
