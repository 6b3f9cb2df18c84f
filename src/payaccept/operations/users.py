"""Users and their own accounts: made, named, given passwords and a second factor."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from payaccept.domain import passwords as rules
from payaccept.domain import totp
from payaccept.domain.audit import Entry, entry
from payaccept.domain.errors import EmailTaken, SettingRefused
from payaccept.domain.merchant import Environment, Merchant
from payaccept.domain.user import (
    COMMAND_LINE,
    MAX_MERCHANTS,
    Account,
    Actor,
    User,
    Viewer,
    email_problem,
    name_problem,
    new_id,
)
from payaccept.operations.merchants import Merchants, created
from payaccept.operations.notices import Notices
from payaccept.operations.people_ports import AuditLog, Passwords, Seals, UserStore

_TOTP: Final = "totp"
_SET_UP: Final = "totp set-up"
_RECOVERY: Final = "recovery code"
SET_UP_LIFE_S: Final = 900
ENTRIES_SHOWN: Final = 50
LAST_ENTRY_ID: Final = "aud_~"
"""Comes after every entry's id."""


class Person(Struct, frozen=True, kw_only=True):
    """Somebody who is to get an account, as they named themselves."""

    email: str
    name: str
    password: str

    def problems(self) -> dict[str, str]:
        """Say what is wrong with each field."""
        found = {
            "email": email_problem(self.email),
            "name": name_problem(self.name),
            "password": rules.problem(self.password, self.email, self.name),
        }
        return {field: problem for field, problem in found.items() if problem is not None}


class TotpSetUp(Struct, frozen=True, kw_only=True):
    """A second factor about to be set up; `sealed` is what `switch_totp_on` wants back."""

    secret: str
    uri: str
    sealed: str


class Users:
    """The business verbs of users."""

    def __init__(
        self,
        store: UserStore,
        log: AuditLog,
        merchants: Merchants,
        passwords: Passwords,
        seals: Seals,
        notices: Notices,
    ) -> None:
        self._store = store
        self._log = log
        self._merchants = merchants
        self._passwords = passwords
        self._seals = seals
        self._notices = notices

    # Accounts

    async def draft(self, person: Person, now: datetime, *, staff: bool = False) -> Account:
        """Return an account as it is made. Raises: SettingRefused."""
        for problem in person.problems().values():
            raise SettingRefused(problem)
        return Account(
            user=User(
                user_id=new_id("usr_"),
                email=person.email,
                name=person.name,
                staff=staff,
                has_totp=False,
                created_at=now,
                password_changed_at=now,
            ),
            password_hash=await self._passwords.hash(person.password),
            totp_secret=None,
            totp_last_step=None,
        )

    async def sign_up(
        self, person: Person, merchant_name: str, environment: Environment, now: datetime, address: str
    ) -> tuple[Account, Merchant]:
        """Make an account and a merchant of its own, in the sandbox. Raises: SettingRefused, EmailTaken."""
        if environment is not Environment.SANDBOX:
            raise SettingRefused("merchants sign up in the sandbox only")
        merchant = self._merchants.draft(merchant_name, now)
        if await self._store.find_account(person.email) is not None:
            raise EmailTaken("there is an account with this e-mail address already")
        account = await self.draft(person, now)
        by = Actor(user_id=account.user.user_id, name=person.email, address=address)
        entries = [user_created(account, by, now), created(merchant, by), _owns(account.user, merchant, by)]
        await self._store.insert_owner(account, account.user.user_id, merchant, entries)
        return account, merchant

    async def add_merchant(self, viewer: Viewer, name: str, now: datetime, by: Actor) -> Merchant:
        """Make one more merchant that a user owns. Raises: SettingRefused."""
        merchant = self._merchants.draft(name, now)
        if len(viewer.memberships) >= MAX_MERCHANTS:
            raise SettingRefused(f"somebody who belongs to {MAX_MERCHANTS} merchants makes no more")
        entries = [created(merchant, by), _owns(viewer.user, merchant, by)]
        await self._store.insert_owner(None, viewer.user.user_id, merchant, entries)
        return merchant

    async def find_account(self, email: str) -> Account | None:
        """Return the account of an e-mail address."""
        return await self._store.find_account(email)

    async def get_account(self, user_id: str) -> Account:
        """Return an account. Raises: UserNotFound."""
        return await self._store.get_account(user_id)

    async def rename(self, user: User, name: str, now: datetime, by: Actor) -> None:
        """Change a user's name. Raises: SettingRefused."""
        problem = name_problem(name)
        if problem is not None:
            raise SettingRefused(problem)
        renamed = entry(
            by, now, "user.renamed", user.user_id, before={"name": user.name}, after={"name": name}
        )
        await self._store.update_name(user.user_id, name, renamed)

    async def change_password(self, user: User, password: str, now: datetime, by: Actor) -> Account:
        """Change a password, and end every session of the user's. Raises: SettingRefused.

        Returns: the account, for a session that follows.
        """
        problem = rules.problem(password, user.email, user.name)
        if problem is not None:
            raise SettingRefused(problem)
        password_hash = await self._passwords.hash(password)
        changed = entry(by, now, "password.changed", user.user_id)
        await self._store.update_password(user.user_id, password_hash, now, changed)
        self._notices.tell(user, "Your password was changed.", now, by)
        return await self._store.get_account(user.user_id)

    async def list_entries(self, user_id: str, before_id: str = LAST_ENTRY_ID) -> list[Entry]:
        """Return what happened to an account, newest first."""
        return await self._log.list_of_user(user_id, before_id, ENTRIES_SHOWN)

    # The second factor

    def begin_totp(self, user: User, issuer: str, now: datetime) -> TotpSetUp:
        """Make a secret for the user's app; nothing is stored until a code proves that the app has it."""
        return self._set_up(user, issuer, totp.new_secret(), now)

    def resume_totp(self, user: User, issuer: str, sealed: str, now: datetime) -> TotpSetUp | None:
        """Return the set-up that was begun some minutes ago; None when that was too long ago."""
        told = self._seals.unseal(_SET_UP, sealed, now, SET_UP_LIFE_S)
        if told is None or not told.startswith(f"{user.user_id} "):
            return None
        return self._set_up(user, issuer, told.rpartition(" ")[2], now)

    def _set_up(self, user: User, issuer: str, secret: str, now: datetime) -> TotpSetUp:
        return TotpSetUp(
            secret=secret,
            uri=totp.provisioning_uri(secret, user.email, issuer),
            sealed=self._seals.seal(_SET_UP, f"{user.user_id} {secret}", now),
        )

    async def switch_totp_on(
        self, user: User, set_up: TotpSetUp, typed: str, now: datetime, by: Actor
    ) -> list[str] | None:
        """Switch the second factor on when the code is right; returns the recovery codes, or None."""
        step = totp.matching_step(set_up.secret, typed, now, 0)
        if step is None:
            return None
        codes = totp.new_recovery_codes()
        on = entry(by, now, "second factor.on", user.user_id)
        sealed = self._seals.seal(_TOTP, set_up.secret, now)
        await self._store.update_totp(user.user_id, sealed, step, self._macs(user, codes), now, on)
        self._notices.tell(user, "The second step of signing in was switched on.", now, by)
        return codes

    async def switch_totp_off(self, user: User, now: datetime, by: Actor) -> None:
        """Switch the second factor off; its recovery codes are worth nothing from now on."""
        off = entry(by, now, "second factor.off", user.user_id)
        await self._store.update_totp(user.user_id, None, None, [], now, off)
        self._notices.tell(user, "The second step of signing in was switched off.", now, by)

    async def renew_recovery_codes(self, user: User, now: datetime, by: Actor) -> list[str]:
        """Replace the recovery codes, and return the new ones."""
        codes = totp.new_recovery_codes()
        renewed = entry(by, now, "recovery codes.renewed", user.user_id)
        await self._store.replace_recovery_codes(user.user_id, self._macs(user, codes), now, renewed)
        self._notices.tell(user, "Your recovery codes were replaced.", now, by)
        return codes

    async def count_recovery_codes(self, user_id: str) -> int:
        """Return how many recovery codes are left."""
        return await self._store.count_recovery_codes(user_id)

    def _macs(self, user: User, codes: Sequence[str]) -> list[str]:
        return [self._seals.mac(_RECOVERY, f"{user.user_id} {code}") for code in codes]

    # The provider's staff

    async def list_staff(self) -> list[User]:
        """Return the provider's own people."""
        return await self._store.list_staff()

    async def set_staff(self, user: User, now: datetime, *, staff: bool, by: Actor = COMMAND_LINE) -> None:
        """Take somebody into the provider's staff, or out of it."""
        changed = entry(
            by, now, "user.staff", user.user_id, before={"staff": user.staff}, after={"staff": staff}
        )
        await self._store.update_staff(user.user_id, staff=staff, entry=changed)


def user_created(account: Account, by: Actor, now: datetime) -> Entry:
    """Return the entry of an account's creation."""
    user = account.user
    return entry(by, now, "user.created", user.user_id, after={"email": user.email, "name": user.name})


def _owns(user: User, merchant: Merchant, by: Actor) -> Entry:
    return entry(
        by,
        merchant.created_at,
        "member.added",
        user.email,
        client_id=merchant.client_id,
        after={"role": "owner"},
    )
