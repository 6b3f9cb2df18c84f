"""The audit log of a merchant: every change, who made it, from where, before and after."""

from typing import Annotated, Any, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from msgspec import Struct

from payaccept.domain.audit import Entry
from payaccept.domain.user import Membership, Permission
from payaccept.operations.users import ENTRIES_SHOWN, LAST_ENTRY_ID
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.rendering import Page, page
from payaccept.portal.services import Services

TOLD: Final = {
    "merchant.created": "Merchant created",
    "merchant.changed": "Settings changed",
    "key.added": "Key added",
    "key.activated": "Key proved and active",
    "key.retired": "Key deactivated",
    "key.discarded": "Key discarded",
    "drill.started": "Webhook drill started",
    "event.resent": "Webhook sent again",
    "webhook.tested": "Test webhook sent",
    "replay.started": "Range sent again",
    "replay.stopped": "Replay stopped",
    "replay.resumed": "Replay taken up",
    "member.invited": "Invited",
    "member.invitation revoked": "Invitation taken back",
    "member.added": "Joined",
    "member.role": "Role changed",
    "member.removed": "Removed",
    "user.created": "Account created",
    "user.renamed": "Name changed",
    "user.staff": "Staff changed",
    "password.changed": "Password changed",
    "password.link made": "Link to a new password made",
    "second factor.on": "Second step switched on",
    "second factor.off": "Second step switched off",
    "recovery codes.renewed": "Recovery codes replaced",
    "recovery code.used": "Recovery code used",
    "session.opened": "Signed in",
    "sign-in.refused": "Sign-in refused",
    "session.ended": "Session ended",
    "session.others ended": "Other sessions ended",
    "staff.invited": "Invited to the staff",
    "staff.added": "Joined the staff",
}
"""What people read for each action; an action without a line here is shown as it is."""


class Change(Struct, frozen=True):
    """One value that changed, as it is shown."""

    name: str
    before: str | None
    after: str | None


@get("/m/{client_id:str}/audit", guards=[member(Permission.VIEW_AUDIT)])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    before: Annotated[str, QueryParameter(max_length=64)] = LAST_ENTRY_ID,
) -> Page:
    """Show the changes, newest first."""
    entries = await services.people.list_entries(membership.client_id, before)
    return page(
        request,
        "audit/audit.html",
        entries=entries,
        older=entries[-1].entry_id if len(entries) == ENTRIES_SHOWN else None,
        is_first=before == LAST_ENTRY_ID,
    )


def told(entry: Entry) -> str:
    """Say in words what was done."""
    return TOLD.get(entry.action, entry.action)


def changes(entry: Entry) -> list[Change]:
    """Return the values that an entry tells of."""
    before, after = entry.before or {}, entry.after or {}
    names = list(dict.fromkeys([*before, *after]))
    return [Change(name, _value(before, name), _value(after, name)) for name in names]


def _value(values: Any, name: str) -> str | None:
    if name not in values:
        return None
    value = values[name]
    if value is None:
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


routes = (show,)
