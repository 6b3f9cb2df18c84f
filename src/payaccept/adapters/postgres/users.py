"""Users, their second factor and their sessions: one transaction a change, with its entry in the audit log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation

from payaccept.adapters.postgres import audit, merchants, statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.audit import Entry
from payaccept.domain.errors import EmailTaken, UserNotFound
from payaccept.domain.merchant import Merchant
from payaccept.domain.user import (
    SESSION_IDLE,
    SESSION_LIFE,
    Account,
    Membership,
    Role,
    Session,
    User,
    Viewer,
    email_key,
)

_SQL: Final = statements.load("users.sql")
_PEOPLE: Final = statements.load("people.sql")
_USER_COLUMNS: Final = len(User.__struct_fields__)
_SESSION_COLUMNS: Final = len(Session.__struct_fields__)

Connection = AsyncConnection[Any]


class PostgresUsers:
    """The port UserStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    # Accounts

    async def find_account(self, email: str) -> Account | None:
        """Return the account of an e-mail address, however it is spelled."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_account_by_email"], {"email_key": email_key(email)}
            )
            row = await cursor.fetchone()
            return None if row is None else account_of(row)

    async def get_account(self, user_id: str) -> Account:
        """Return an account. Raises: UserNotFound."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_account"], {"user_id": user_id})
            row = await cursor.fetchone()
            if row is None:
                raise UserNotFound("there is no such user")
            return account_of(row)

    async def insert_owner(
        self, account: Account | None, user_id: str, merchant: Merchant, entries: Sequence[Entry]
    ) -> None:
        """Store a new merchant with its owner, who is new, too, when an account is given. Raises: EmailTaken."""
        async with self._lines.transaction() as connection:
            if account is not None:
                await insert_account(connection, account)
            await merchants.insert(connection, merchant)
            values = {"client_id": merchant.client_id, "user_id": user_id, "role": Role.OWNER.value}
            await connection.execute(_PEOPLE["insert_membership"], {**values, "now": merchant.created_at})
            await audit.record(connection, *entries)

    async def list_staff(self) -> list[User]:
        """Return the provider's own people."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_staff"])
            return [user_of(row) for row in await cursor.fetchall()]

    async def update_staff(self, user_id: str, *, staff: bool, entry: Entry) -> None:
        """Take somebody into the provider's staff, or out of it."""
        async with self._lines.transaction() as connection:
            await connection.execute(_SQL["update_staff"], {"user_id": user_id, "staff": staff})
            await audit.record(connection, entry)

    async def update_name(self, user_id: str, name: str, entry: Entry) -> None:
        """Change a user's name."""
        async with self._lines.transaction() as connection:
            await connection.execute(_SQL["update_name"], {"user_id": user_id, "name": name})
            await audit.record(connection, entry)

    async def update_password(self, user_id: str, password_hash: str, now: datetime, entry: Entry) -> None:
        """Change a user's password, and end all sessions that were opened with the old one."""
        values = {"user_id": user_id, "now": now}
        async with self._lines.transaction() as connection:
            await connection.execute(_SQL["update_password"], {**values, "password_hash": password_hash})
            await connection.execute(_SQL["end_sessions"], {**values, "kept": ""})
            await audit.record(connection, entry)

    async def update_password_hash(self, account: Account, password_hash: str) -> None:
        """Store the same password under the cost of today."""
        values = {"user_id": account.user.user_id, "old_password_hash": account.password_hash}
        async with self._lines.connection() as connection:
            await connection.execute(_SQL["update_password_hash"], {**values, "password_hash": password_hash})

    # The second factor

    async def update_totp(
        self,
        user_id: str,
        totp_secret: str | None,
        last_step: int | None,
        code_macs: Sequence[str],
        now: datetime,
        entry: Entry,
    ) -> None:
        """Switch the second factor on, with its recovery codes, or off."""
        values = {"user_id": user_id, "totp_secret": totp_secret, "totp_last_step": last_step}
        async with self._lines.transaction() as connection:
            await connection.execute(_SQL["update_totp"], values)
            await _replace_codes(connection, user_id, code_macs, now)
            await audit.record(connection, entry)

    async def replace_recovery_codes(
        self, user_id: str, code_macs: Sequence[str], now: datetime, entry: Entry
    ) -> None:
        """Store new recovery codes; the old ones are worth nothing from now on."""
        async with self._lines.transaction() as connection:
            await _replace_codes(connection, user_id, code_macs, now)
            await audit.record(connection, entry)

    async def use_totp_step(self, user_id: str, step: int) -> bool:
        """Use the code of a step; False when it, or a later one, was used before."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["use_totp_step"], {"user_id": user_id, "step": step})
            return bool(cursor.rowcount)

    async def use_recovery_code(self, user_id: str, code_mac: str, now: datetime, entry: Entry) -> bool:
        """Use a recovery code; False when it is none, or used already."""
        async with self._lines.transaction() as connection:
            cursor = await connection.execute(
                _SQL["use_recovery_code"], {"user_id": user_id, "code_mac": code_mac, "now": now}
            )
            used = bool(cursor.rowcount)
            await audit.record(connection, entry if used else None)
        return used

    async def count_recovery_codes(self, user_id: str) -> int:
        """Return how many recovery codes are left."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["count_recovery_codes"], {"user_id": user_id})
            [count] = await cursor.fetchone() or [0]
            return int(count)

    # Sessions

    async def insert_session(
        self, session: Session, token_hash: bytes, replaced: str | None, entry: Entry | None
    ) -> None:
        """Store a new session, and end the one that the browser had."""
        members = {name: getattr(session, name) for name in session.__struct_fields__}
        async with self._lines.transaction() as connection:
            await connection.execute(_SQL["insert_session"], members | {"token_hash": token_hash})
            if replaced is not None:
                values = {"session_id": replaced, "now": session.created_at}
                await connection.execute(_SQL["end_replaced_session"], values)
            await audit.record(connection, entry)

    async def find_viewer(self, token_hash: bytes) -> Viewer | None:
        """Return who is in a session that nobody has ended; its age is not looked at."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_viewer"], {"token_hash": token_hash})
            rows = await cursor.fetchall()
        if not rows:
            return None
        end = _SESSION_COLUMNS + _USER_COLUMNS
        return Viewer(
            session=session_of(rows[0][:_SESSION_COLUMNS]),
            user=user_of(rows[0][_SESSION_COLUMNS:end]),
            memberships=tuple(
                Membership(client_id=client_id, merchant_name=merchant_name, role=Role(role))
                for client_id, merchant_name, role in (row[end:] for row in rows)
                if client_id is not None
            ),
        )

    async def touch_session(self, session_id: str, now: datetime) -> None:
        """Record that a session is in use."""
        async with self._lines.connection() as connection:
            await connection.execute(_SQL["touch_session"], {"session_id": session_id, "now": now})

    async def list_sessions(self, user_id: str, now: datetime) -> list[Session]:
        """Return a user's open sessions, the last used first."""
        values = {"created_after": now - SESSION_LIFE, "seen_after": now - SESSION_IDLE}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_sessions"], {"user_id": user_id, **values})
            return [session_of(row) for row in await cursor.fetchall()]

    async def end_session(self, user_id: str, session_id: str, now: datetime, entry: Entry) -> bool:
        """End a session; False when it is not open, or not this user's."""
        async with self._lines.transaction() as connection:
            values = {"user_id": user_id, "session_id": session_id, "now": now}
            ended = bool((await connection.execute(_SQL["end_session"], values)).rowcount)
            await audit.record(connection, entry if ended else None)
        return ended

    async def end_sessions(self, user_id: str, kept: str, now: datetime, entry: Entry) -> int:
        """End all sessions of a user but one, and return how many."""
        async with self._lines.transaction() as connection:
            values = {"user_id": user_id, "kept": kept, "now": now}
            ended = (await connection.execute(_SQL["end_sessions"], values)).rowcount
            await audit.record(connection, entry)
        return ended


async def insert_account(connection: Connection, account: Account) -> None:
    """Store a new user in an open transaction. Raises: EmailTaken."""
    user = account.user
    values = {name: getattr(user, name) for name in user.__struct_fields__}
    values |= {"email_key": email_key(user.email), "password_hash": account.password_hash}
    try:
        await connection.execute(_SQL["insert_user"], values)
    except UniqueViolation:
        raise EmailTaken("there is an account with this e-mail address already") from None


async def _replace_codes(
    connection: Connection, user_id: str, code_macs: Sequence[str], now: datetime
) -> None:
    await connection.execute(_SQL["replace_recovery_codes"], {"user_id": user_id, "now": now})
    for code_mac in code_macs:
        await connection.execute(
            _SQL["insert_recovery_code"], {"user_id": user_id, "code_mac": code_mac, "now": now}
        )


def user_of(row: tuple[Any, ...]) -> User:
    """Read a user's columns."""
    return User(**dict(zip(User.__struct_fields__, row, strict=True)))


def session_of(row: tuple[Any, ...]) -> Session:
    """Read a session's columns."""
    return Session(**dict(zip(Session.__struct_fields__, row, strict=True)))


def account_of(row: tuple[Any, ...]) -> Account:
    """Read a user's columns and the secrets behind them."""
    password_hash, totp_secret, totp_last_step = row[_USER_COLUMNS:]
    return Account(
        user=user_of(row[:_USER_COLUMNS]),
        password_hash=password_hash,
        totp_secret=totp_secret,
        totp_last_step=totp_last_step,
    )
