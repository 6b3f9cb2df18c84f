"""People: who they are, what their role in a merchant lets them do, how long their sessions last."""

import secrets
import unicodedata
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

MAX_EMAIL: Final = 254  # RFC 5321, 4.5.3.1.3
MAX_USER_NAME: Final = 80
MAX_PEOPLE: Final = 50  # of one merchant, invitations included
MAX_MERCHANTS: Final = 100  # of one user, as far as it makes them itself

# OWASP ASVS 4.0, 3.3.2 for level 2: signed in anew after 12 hours, or 30 minutes without use.
SESSION_IDLE: Final = timedelta(minutes=30)
SESSION_LIFE: Final = timedelta(hours=12)
SECOND_FACTOR_LIFE: Final = timedelta(minutes=5)
SEEN_EVERY: Final = timedelta(minutes=1)
"""How exactly a session's last use is recorded: a page costs one write a minute at most."""


class Role(StrEnum):
    """What somebody is in a merchant."""

    OWNER = "owner"
    DEVELOPER = "developer"
    VIEWER = "viewer"


class Permission(StrEnum):
    """What a page or a form of a merchant's asks of its viewer."""

    VIEW = "view"  # payments, requests, events, settings, people
    MANAGE_KEYS = "manage keys"
    MANAGE_WEBHOOKS = "manage webhooks"
    MANAGE_SETTINGS = "manage settings"
    VIEW_AUDIT = "view audit"
    MANAGE_PEOPLE = "manage people"


_DEVELOPERS: Final = frozenset(
    {
        Permission.VIEW,
        Permission.MANAGE_KEYS,
        Permission.MANAGE_WEBHOOKS,
        Permission.MANAGE_SETTINGS,
        Permission.VIEW_AUDIT,
    }
)
GRANTS: Final[dict[Role, frozenset[Permission]]] = {
    Role.OWNER: frozenset(Permission),
    Role.DEVELOPER: _DEVELOPERS,
    Role.VIEWER: frozenset({Permission.VIEW}),
}
ROLE_SUMMARIES: Final[dict[Role, str]] = {
    Role.OWNER: "Everything, people and their roles included.",
    Role.DEVELOPER: "Manages keys, webhooks and settings; sees payments and reports.",
    Role.VIEWER: "Sees payments and reports, and changes nothing.",
}


class User(Struct, frozen=True, kw_only=True):
    """Somebody who can sign in. `staff` opens the operator's area and no merchant's."""

    user_id: str
    email: str
    name: str
    staff: bool
    has_totp: bool
    created_at: datetime
    password_changed_at: datetime


class Membership(Struct, frozen=True, kw_only=True):
    """What a user is in one merchant."""

    client_id: str
    merchant_name: str
    role: Role

    def grants(self, permission: Permission) -> bool:
        """Tell whether the role includes the permission."""
        return permission in GRANTS[self.role]


class Session(Struct, frozen=True, kw_only=True):
    """A browser that is signed in; its secret is known to the browser alone."""

    session_id: str
    user_id: str
    address: str
    user_agent: str
    created_at: datetime
    last_seen_at: datetime

    def is_open(self, now: datetime) -> bool:
        """Tell whether neither of the two limits has passed."""
        return now < self.last_seen_at + SESSION_IDLE and now < self.created_at + SESSION_LIFE


class Viewer(Struct, frozen=True, kw_only=True):
    """Who is looking at a page: a user, in a session, with the merchants it belongs to."""

    user: User
    session: Session
    memberships: tuple[Membership, ...]

    def membership(self, client_id: str) -> Membership | None:
        """Return what the viewer is in a merchant; None for a merchant of others."""
        return next((one for one in self.memberships if one.client_id == client_id), None)


class Account(Struct, frozen=True, kw_only=True):
    """A user with what signing in is checked against; it never leaves the operations."""

    user: User
    password_hash: str
    totp_secret: str | None  # sealed
    totp_last_step: int | None


class Member(Struct, frozen=True, kw_only=True):
    """A user as the other people of a merchant see it."""

    user: User
    role: Role
    since: datetime


class Purpose(StrEnum):
    """Where a one-time link leads."""

    MEMBER = "member"
    STAFF = "staff"
    PASSWORD = "password"  # noqa: S105 - a purpose, not a password


LINK_LIVES: Final = {
    Purpose.MEMBER: timedelta(days=7),
    Purpose.STAFF: timedelta(days=1),
    Purpose.PASSWORD: timedelta(hours=1),
}


class Link(Struct, frozen=True, kw_only=True):
    """A one-time link, without its secret. `client_id` and `role` are those of an invitation into a merchant."""

    link_id: str
    purpose: Purpose
    email: str
    client_id: str | None
    merchant_name: str | None
    role: Role | None
    created_by: str
    created_at: datetime
    expires_at: datetime


class Actor(Struct, frozen=True, kw_only=True):
    """Who makes a change, and from where, for the audit log. `user_id` None is the command line or the service."""

    user_id: str | None
    name: str
    address: str


COMMAND_LINE: Final = Actor(user_id=None, name="command line", address="")
"""Who works on the database directly: the administrator's commands."""


def new_id(prefix: str) -> str:
    """Make an id of a user (`usr_`), a session (`ses_`) or a link (`lnk_`): 96 random bits."""
    return prefix + secrets.token_hex(12)


def email_key(email: str) -> str:
    """Return what makes two spellings of an address the same account."""
    return unicodedata.normalize("NFKC", email.strip()).casefold()


def email_problem(email: str) -> str | None:
    """Say what keeps a text from being an e-mail address; None when nothing obvious does.

    Only a message that arrives proves an address, so this refuses typing errors and nothing else.
    """
    if not email:
        return "Enter an e-mail address."
    local, at, host = email.rpartition("@")
    plausible = at and local and "." in host.strip(".") and not host.startswith((".", "-"))
    # The signs are those that would make one address several in a message's header.
    if not plausible or not email.isprintable() or any(sign in local + host for sign in ' @,;:<>()[]"\\'):
        return "This is not an e-mail address: it looks like name@example.com."
    if len(email) > MAX_EMAIL:
        return f"An e-mail address has at most {MAX_EMAIL} characters."
    return None


def name_problem(name: str) -> str | None:
    """Say what keeps a text from being a person's name."""
    if not name:
        return "Enter your name, as colleagues know you."
    if len(name) > MAX_USER_NAME or not name.isprintable():
        return f"A name has at most {MAX_USER_NAME} printable characters."
    return None
