"""The audit log over all merchants, for the provider's staff: every change, and every look at a merchant's data."""

from typing import Annotated

from litestar import get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from payaccept.domain.audit import Entry
from payaccept.operations.users import LAST_ENTRY_ID
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services

Text = Annotated[str, QueryParameter(max_length=256)]


@get("/operator/audit", guards=[staff()])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    merchant: Text = "",
    person: Text = "",
    before: Text = LAST_ENTRY_ID,
) -> Page:
    """Show the entries, newest first: all of them, a merchant's, a person's."""
    form = Form({"merchant": merchant.strip(), "person": person.strip()})
    client_id, email = form.text("merchant"), form.text("person")
    names = await services.oversight.names_of([client_id]) if client_id else {}
    if client_id and client_id not in names:
        form.fail("merchant", "There is no merchant with this Client-Id.")
    wanted = await services.oversight.filter_of(client_id, email)
    if wanted is None:
        form.fail("person", "Nobody has an account with this address.")
    entries: list[Entry] = []
    older = None
    if wanted is not None and form.is_valid:
        entries, older = await services.oversight.list_entries(wanted, before)
        names |= await services.oversight.names_of({e.client_id for e in entries if e.client_id is not None})
    return page(
        request,
        "operator/audit.html",
        form=form,
        status=200 if form.is_valid else 422,
        entries=entries,
        older=older,
        names=names,
        is_first=before == LAST_ENTRY_ID,
        is_filtered=bool(client_id or email),
    )


routes = (show,)
