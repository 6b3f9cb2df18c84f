"""Who belongs to which merchant: invited by one-time links, given roles, taken out again."""

import secrets
from datetime import datetime

from msgspec import Struct

from payaccept.domain import passwords as rules
from payaccept.domain.audit import Entry, entry
from payaccept.domain.errors import EmailTaken, LinkSpent, SettingRefused, UserNotFound
from payaccept.domain.user import (
    COMMAND_LINE,
    LINK_LIVES,
    MAX_PEOPLE,
    Account,
    Actor,
    Link,
    Member,
    Membership,
    Purpose,
    Role,
    User,
    email_key,
    email_problem,
    new_id,
)
from payaccept.operations.notices import Notices
from payaccept.operations.people_ports import AuditLog, Mail, Passwords, PeopleStore, UserStore
from payaccept.operations.sign_in import digest
from payaccept.operations.users import ENTRIES_SHOWN, LAST_ENTRY_ID, Person, Users, user_created


class Sent(Struct, frozen=True, kw_only=True):
    """A link that was made: its address, to be shown once; `mailed` None when there is no mail."""

    link: Link
    url: str
    mailed: bool | None


class People:
    """The business verbs of a merchant's people."""

    def __init__(
        self,
        store: PeopleStore,
        user_store: UserStore,
        users: Users,
        log: AuditLog,
        passwords: Passwords,
        *,
        mail: Mail | None,
        notices: Notices,
        web_base_url: str,
    ) -> None:
        self._store = store
        self._user_store = user_store
        self._users = users
        self._log = log
        self._passwords = passwords
        self._mail = mail
        self._notices = notices
        self._web_base_url = web_base_url

    @property
    def has_mail(self) -> bool:
        """Whether links can be sent by mail."""
        return self._mail is not None

    async def list_members(self, client_id: str) -> list[Member]:
        """Return the people of a merchant, the longest there first."""
        return await self._store.list_members(client_id)

    async def list_invitations(self, client_id: str, now: datetime) -> list[Link]:
        """Return a merchant's open invitations, the oldest first."""
        return await self._store.list_links(client_id, now)

    async def list_entries(self, client_id: str, before_id: str = LAST_ENTRY_ID) -> list[Entry]:
        """Return what was changed in a merchant, newest first, older than one entry."""
        return await self._log.list_of_merchant(client_id, before_id, ENTRIES_SHOWN)

    async def change_role(self, client_id: str, user_id: str, role: Role, now: datetime, by: Actor) -> None:
        """Give a member another role. Raises: UserNotFound, OwnerNeeded."""
        email = await self._email_of(client_id, user_id)

        def entry_of(before: Role) -> Entry:
            values = {"before": {"role": before.value}, "after": {"role": role.value}}
            return entry(by, now, "member.role", email, client_id=client_id, **values)

        await self._store.change_role(client_id, user_id, role, entry_of)

    async def remove(self, client_id: str, user_id: str, now: datetime, by: Actor) -> None:
        """Take a member out of a merchant; what it may see ends at once. Raises: UserNotFound, OwnerNeeded."""
        email = await self._email_of(client_id, user_id)

        def entry_of(before: Role) -> Entry:
            return entry(by, now, "member.removed", email, client_id=client_id, before={"role": before.value})

        await self._store.end_membership(client_id, user_id, now, entry_of)

    async def _email_of(self, client_id: str, user_id: str) -> str:
        for member in await self._store.list_members(client_id):
            if member.user.user_id == user_id:
                return member.user.email
        raise UserNotFound("this person does not belong to the merchant any more")

    # Links

    async def invite(self, membership: Membership, email: str, role: Role, now: datetime, by: Actor) -> Sent:
        """Make a one-time link into a merchant. Raises: SettingRefused, EmailTaken for who is there already."""
        problem = email_problem(email)
        if problem is not None:
            raise SettingRefused(problem)
        client_id = membership.client_id
        members = await self._store.list_members(client_id)
        if email_key(email) in {email_key(member.user.email) for member in members}:
            raise EmailTaken("this person belongs to the merchant already")
        if len(members) + len(await self._store.list_links(client_id, now)) >= MAX_PEOPLE:
            raise SettingRefused(f"A merchant has at most {MAX_PEOPLE} people, open invitations included.")
        link = _link(Purpose.MEMBER, email, now, by, client_id, membership.merchant_name, role)
        invited = entry(by, now, "member.invited", email, client_id=client_id, after={"role": role.value})
        return await self._send(link, invited)

    async def invite_staff(self, email: str, now: datetime, by: Actor = COMMAND_LINE) -> Sent:
        """Make a one-time link into the provider's staff. Raises: SettingRefused."""
        problem = email_problem(email)
        if problem is not None:
            raise SettingRefused(problem)
        link = _link(Purpose.STAFF, email, now, by)
        return await self._send(link, entry(by, now, "staff.invited", email))

    async def send_password_link(self, user: User, now: datetime, by: Actor = COMMAND_LINE) -> Sent:
        """Make a one-time link to a new password."""
        link = _link(Purpose.PASSWORD, user.email, now, by)
        return await self._send(link, entry(by, now, "password.link made", user.user_id))

    async def find_link(self, token: str, now: datetime) -> Link:
        """Return the link of a secret. Raises: LinkSpent."""
        link = await self._store.find_link(digest(token), now)
        if link is None:
            raise LinkSpent("this link was used, replaced or taken back, or its time is over")
        return link

    async def revoke(self, client_id: str, link_id: str, now: datetime, by: Actor) -> bool:
        """Take an invitation back; False when it was not open."""
        found = [link for link in await self._store.list_links(client_id, now) if link.link_id == link_id]
        if not found:
            return False
        revoked = entry(by, now, "member.invitation revoked", found[0].email, client_id=client_id)
        return await self._store.revoke_link(client_id, link_id, now, revoked)

    async def accept(self, link: Link, user: User, now: datetime, by: Actor) -> None:
        """Use an invitation for a user who has an account. Raises: LinkSpent, SettingRefused."""
        if email_key(user.email) != email_key(link.email):
            raise SettingRefused(f"this invitation is for {link.email}")
        await self._store.accept_invitation(link, None, user.user_id, now, [_accepted(link, by, now)])

    async def accept_as_new(
        self, link: Link, name: str, password: str, now: datetime, address: str
    ) -> Account:
        """Use an invitation and make the account it is for. Raises: LinkSpent, SettingRefused, EmailTaken."""
        account = await self._users.draft(Person(email=link.email, name=name, password=password), now)
        by = Actor(user_id=account.user.user_id, name=link.email, address=address)
        entries = [user_created(account, by, now), _accepted(link, by, now)]
        await self._store.accept_invitation(link, account, account.user.user_id, now, entries)
        return account

    async def set_password(self, link: Link, password: str, now: datetime, address: str) -> Account:
        """Use a link for a new password, and end the user's sessions. Raises: LinkSpent, SettingRefused."""
        account = await self._user_store.find_account(link.email)
        if account is None or link.purpose is not Purpose.PASSWORD:
            raise LinkSpent("this link leads to no account")
        user = account.user
        problem = rules.problem(password, user.email, user.name)
        if problem is not None:
            raise SettingRefused(problem)
        by = Actor(user_id=user.user_id, name=user.email, address=address)
        changed = entry(by, now, "password.changed", user.user_id, after={"with": "one-time link"})
        password_hash = await self._passwords.hash(password)
        await self._store.use_password_link(link, user.user_id, password_hash, now, changed)
        self._notices.tell(user, "Your password was changed with a one-time link.", now, by)
        return await self._user_store.get_account(user.user_id)

    async def _send(self, link: Link, told: Entry) -> Sent:
        token = secrets.token_urlsafe(32)
        await self._store.insert_link(link, digest(token), told)
        path = "new-password" if link.purpose is Purpose.PASSWORD else "invitation"
        url = f"{self._web_base_url}/{path}/{token}"
        mailed = None if self._mail is None else await self._mail.send(link.email, *_letter(link, url))
        return Sent(link=link, url=url, mailed=mailed)


def _link(
    purpose: Purpose,
    email: str,
    now: datetime,
    by: Actor,
    client_id: str | None = None,
    merchant_name: str | None = None,
    role: Role | None = None,
) -> Link:
    return Link(
        link_id=new_id("lnk_"),
        purpose=purpose,
        email=email,
        client_id=client_id,
        merchant_name=merchant_name,
        role=role,
        created_by=by.name,
        created_at=now,
        expires_at=now + LINK_LIVES[purpose],
    )


def _accepted(link: Link, by: Actor, now: datetime) -> Entry:
    after = {"role": "staff" if link.role is None else link.role.value, "invitedBy": link.created_by}
    action = "staff.added" if link.purpose is Purpose.STAFF else "member.added"
    return entry(by, now, action, link.email, client_id=link.client_id, after=after)


def _letter(link: Link, url: str) -> tuple[str, str]:
    """Return subject and text of the message that brings a link."""
    until = f"{link.expires_at:%-d %B %Y, %H:%M} UTC"
    once = f"The link works once, until {until}. If you did not expect this message, do nothing."
    if link.purpose is Purpose.PASSWORD:
        return "A new password", f"Choose a new password here:\n\n{url}\n\n{once}\n"
    where = link.merchant_name or "the payment provider's staff"
    subject = f"Invitation to {where}"
    return subject, f"{link.created_by} invites you to {where}. Accept here:\n\n{url}\n\n{once}\n"
