"""Where the pages stand in the navigation. Only what exists stands here, and only for those who may see it."""

from typing import Final

from msgspec import Struct

from payaccept.domain.merchant import Environment
from payaccept.domain.user import Membership, Permission, Viewer


class Section(Struct, frozen=True):
    """One entry: its label, its icon in `icons.html`, where it leads."""

    label: str
    icon: str
    path: str


class _Place(Struct, frozen=True):
    label: str
    icon: str
    below: str  # after /m/{client_id}
    permission: Permission


_OF_MERCHANT: Final = (
    _Place("Home", "home", "", Permission.VIEW),
    _Place("Payments", "payments", "/payments", Permission.VIEW),
    _Place("Reports", "reports", "/reports", Permission.VIEW),
    _Place("Webhooks", "webhooks", "/webhooks", Permission.VIEW),
    _Place("Keys", "keys", "/keys", Permission.VIEW),
    _Place("Requests", "requests", "/requests", Permission.VIEW),
    _Place("People", "people", "/people", Permission.VIEW),
    _Place("Audit log", "audit", "/audit", Permission.VIEW_AUDIT),
)


OPERATOR: Final = "/operator"
"""Where the operator's area begins."""

_OF_OPERATOR: Final = (
    Section("Overview", "operator", "/operator"),
    Section("Merchants", "home", "/operator/merchants"),
    Section("Payments", "payments", "/operator/payments"),
    Section("Deliveries", "webhooks", "/operator/deliveries"),
    Section("Provider keys", "keys", "/operator/keys"),
    Section("Audit log", "audit", "/operator/audit"),
)

_SHOWN: Final = 8
"""How many merchants stand in the navigation; the front page has them all."""


def is_operators(path: str) -> bool:
    """Tell whether a page is one of the operator's area."""
    return path == OPERATOR or path.startswith(f"{OPERATOR}/")


def own_sections_for(viewer: Viewer | None, environment: Environment, path: str = "") -> list[Section]:
    """Return the viewer's own sections, and what is there for everybody, on a page."""
    if viewer is None:
        return []
    sections = [Section("Account", "account", "/account"), Section("Documentation", "docs", "/docs")]
    if viewer.user.staff and viewer.memberships and not is_operators(path):
        sections.insert(0, Section("Operator's area", "operator", OPERATOR))
    if environment is Environment.SANDBOX:
        sections.append(Section("Simulated wallet", "wallet", "/wallet"))
    return sections


def sections_for(viewer: Viewer | None, membership: Membership | None) -> list[Section]:
    """Return the sections of the merchant that is looked at, as far as the role goes; else the merchants.

    For the provider's staff, the operator's area comes before its own merchants.
    """
    if viewer is None:
        return []
    if membership is None:
        merchants = [
            Section(one.merchant_name, "home", f"/m/{one.client_id}") for one in viewer.memberships[:_SHOWN]
        ]
        return [*_OF_OPERATOR, *merchants] if viewer.user.staff else merchants
    root = f"/m/{membership.client_id}"
    return [
        Section(place.label, place.icon, root + place.below)
        for place in _OF_MERCHANT
        if membership.grants(place.permission)
    ]
