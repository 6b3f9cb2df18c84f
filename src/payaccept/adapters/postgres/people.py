"""Who belongs to which merchant, and the one-time links that bring people in."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection

from payaccept.adapters.postgres import audit, statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.users import insert_account, user_of
from payaccept.domain.audit import Entry
from payaccept.domain.errors import LinkSpent, OwnerNeeded, UserNotFound
from payaccept.domain.user import Account, Link, Member, Purpose, Role, email_key

_SQL: Final = statements.load("people.sql")
_USERS: Final = statements.load("users.sql")


class PostgresPeople:
    """The port PeopleStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def list_members(self, client_id: str) -> list[Member]:
        """Return the people of a merchant, the longest there first."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_members"], {"client_id": client_id})
            return [
                Member(user=user_of(row[:-2]), role=Role(row[-2]), since=row[-1])
                for row in await cursor.fetchall()
            ]

    async def change_role(
        self, client_id: str, user_id: str, role: Role, entry_of: Callable[[Role], Entry]
    ) -> None:
        """Give a member another role; `entry_of` gets the old one. Raises: UserNotFound, OwnerNeeded."""
        async with self._lines.transaction() as connection:
            before = await _lock_for_change(connection, client_id, user_id, stays_owner=role is Role.OWNER)
            values = {"client_id": client_id, "user_id": user_id, "role": role.value}
            await connection.execute(_SQL["update_role"], values)
            await audit.record(connection, entry_of(before) if before is not role else None)

    async def end_membership(
        self, client_id: str, user_id: str, now: datetime, entry_of: Callable[[Role], Entry]
    ) -> None:
        """Take a member out of a merchant. Raises: UserNotFound, OwnerNeeded."""
        async with self._lines.transaction() as connection:
            before = await _lock_for_change(connection, client_id, user_id, stays_owner=False)
            values = {"client_id": client_id, "user_id": user_id, "now": now}
            await connection.execute(_SQL["end_membership"], values)
            await audit.record(connection, entry_of(before))

    async def insert_link(self, link: Link, token_hash: bytes, entry: Entry | None) -> None:
        """Store a one-time link; it replaces the one of its kind that the same person may have."""
        values = {name: getattr(link, name) for name in link.__struct_fields__}
        values |= {"email_key": email_key(link.email), "token_hash": token_hash, "now": link.created_at}
        values |= {"purpose": link.purpose.value, "role": None if link.role is None else link.role.value}
        async with self._lines.transaction() as connection:
            await connection.execute(_SQL["replace_links"], values)
            await connection.execute(_SQL["insert_link"], values)
            await audit.record(connection, entry)

    async def find_link(self, token_hash: bytes, now: datetime) -> Link | None:
        """Return the link of a secret, while it works."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_link"], {"token_hash": token_hash, "now": now})
            row = await cursor.fetchone()
            return None if row is None else _link_of(row)

    async def list_links(self, client_id: str, now: datetime) -> list[Link]:
        """Return a merchant's open invitations, the oldest first."""
        async with self._lines.connection() as connection:
            values = {"client_id": client_id, "now": now}
            cursor = await connection.execute(_SQL["select_links_of_merchant"], values)
            return [_link_of(row) for row in await cursor.fetchall()]

    async def revoke_link(self, client_id: str, link_id: str, now: datetime, entry: Entry) -> bool:
        """Take an invitation of a merchant's back; False when it was not open."""
        async with self._lines.transaction() as connection:
            values = {"client_id": client_id, "link_id": link_id, "now": now}
            revoked = bool((await connection.execute(_SQL["revoke_link"], values)).rowcount)
            await audit.record(connection, entry if revoked else None)
        return revoked

    async def accept_invitation(
        self, link: Link, account: Account | None, user_id: str, now: datetime, entries: Sequence[Entry]
    ) -> None:
        """Use an invitation for a user, who is new when an account is given. Raises: LinkSpent, EmailTaken."""
        async with self._lines.transaction() as connection:
            await _use(connection, link, now)
            if account is not None:
                await insert_account(connection, account)
            if link.purpose is Purpose.STAFF:
                await connection.execute(_USERS["update_staff"], {"user_id": user_id, "staff": True})
            elif link.role is not None:
                values = {"client_id": link.client_id, "user_id": user_id, "role": link.role.value}
                await connection.execute(_SQL["insert_membership"], {**values, "now": now})
            await audit.record(connection, *entries)

    async def use_password_link(
        self, link: Link, user_id: str, password_hash: str, now: datetime, entry: Entry
    ) -> None:
        """Use a link for a new password, and end all sessions of the old one. Raises: LinkSpent."""
        values = {"user_id": user_id, "now": now}
        async with self._lines.transaction() as connection:
            await _use(connection, link, now)
            await connection.execute(_USERS["update_password"], {**values, "password_hash": password_hash})
            await connection.execute(_USERS["end_sessions"], {**values, "kept": ""})
            await audit.record(connection, entry)


async def _lock_for_change(
    connection: AsyncConnection[Any], client_id: str, user_id: str, *, stays_owner: bool
) -> Role:
    """Lock a merchant's people and return the role of one of them. Raises: UserNotFound, OwnerNeeded."""
    cursor = await connection.execute(_SQL["lock_members"], {"client_id": client_id})
    roles = {user: Role(role) for user, role in await cursor.fetchall()}
    if user_id not in roles:
        raise UserNotFound("this person does not belong to the merchant any more")
    owners = [user for user, role in roles.items() if role is Role.OWNER]
    if owners == [user_id] and not stays_owner:
        raise OwnerNeeded("a merchant keeps at least one owner: make somebody else an owner first")
    return roles[user_id]


async def _use(connection: AsyncConnection[Any], link: Link, now: datetime) -> None:
    cursor = await connection.execute(_SQL["use_link"], {"link_id": link.link_id, "now": now})
    if not cursor.rowcount:
        raise LinkSpent("this link was used, replaced or taken back, or its time is over")


def _link_of(row: tuple[Any, ...]) -> Link:
    members = dict(zip(Link.__struct_fields__, row, strict=True))
    members["purpose"] = Purpose(members["purpose"])
    members["role"] = None if members["role"] is None else Role(members["role"])
    return Link(**members)
