"""Signing in: the password, the second factor, the session that follows, and the patience we have with guesses."""

import asyncio
import base64
import hashlib
import logging
import math
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from payaccept.domain import totp
from payaccept.domain.attempt_limit import SLOTS, Bucket, Kind, address_block
from payaccept.domain.audit import SESSION_OPENED, SIGN_IN_REFUSED, Entry, entry
from payaccept.domain.errors import StoreUnavailable, UserNotFound
from payaccept.domain.passwords import MAX_LENGTH
from payaccept.domain.user import (
    SECOND_FACTOR_LIFE,
    SEEN_EVERY,
    Account,
    Actor,
    Session,
    Viewer,
    email_key,
    new_id,
)
from payaccept.operations.people_ports import Attempts, AuditLog, Passwords, Seals, UserStore

DEVICE_LIFE_S: Final = 180 * 24 * 3600
_TICKET: Final = "second factor"
_DEVICE: Final = "device"
_TOTP: Final = "totp"
_RECOVERY: Final = "recovery code"
_MAX_USER_AGENT: Final = 256
_log = logging.getLogger(__name__)


class Browser(Struct, frozen=True, kw_only=True):
    """Where an attempt comes from. `device` is the proof that the browser brought, `session_id` its present session."""

    address: str
    user_agent: str
    device: str = ""
    session_id: str | None = None


class SignedIn(Struct, frozen=True, kw_only=True):
    """The browser is signed in: the session's secret, and the proof that it has been here."""

    user_id: str
    token: str
    device: str


class CodeNeeded(Struct, frozen=True):
    """The password was right; the ticket says so to `with_code` for a few minutes."""

    ticket: str


class Wrong(Struct, frozen=True):
    """It was not right. `over` when the sign-in has to begin anew."""

    over: bool = False


class MustWait(Struct, frozen=True):
    """Too many attempts: nothing was looked at."""

    seconds: int


Outcome = SignedIn | CodeNeeded | Wrong | MustWait


def digest(secret: str) -> bytes:
    """Return what is stored of a secret with 128 random bits or more: nobody can guess it from that."""
    return hashlib.sha256(secret.encode()).digest()


class SignIn:
    """The business verbs of signing in and out."""

    def __init__(
        self, store: UserStore, attempts: Attempts, passwords: Passwords, seals: Seals, log: AuditLog
    ) -> None:
        self._store = store
        self._attempts = attempts
        self._passwords = passwords
        self._seals = seals
        self._log = log
        self._noting: set[asyncio.Task[None]] = set()

    # Signing in

    async def with_password(self, email: str, password: str, browser: Browser, now: datetime) -> Outcome:
        """Check a password. An account that does not exist is told from a wrong password by nothing, not even time."""
        account = await self._store.find_account(email)
        is_known = account is not None and self._is_known(account, browser.device, now)
        buckets = self._password_buckets(email, browser, is_known=is_known)
        wait = await self._attempts.admit(buckets, now)
        if wait:
            _log.warning("sign-in refused", extra={"reason": "too many", "address": browser.address})
            return MustWait(math.ceil(wait))
        password = password[: MAX_LENGTH + 1]
        matches = await self._passwords.verify(None if account is None else account.password_hash, password)
        if account is None or not matches:
            _log.warning("sign-in refused", extra={"reason": "wrong", "address": browser.address})
            if account is not None:
                self._note_refusal(account, "wrong password", browser, now)
            return Wrong()
        await self._attempts.forgive(buckets, now)
        await self._attempts.empty(buckets[:1], now)
        if self._passwords.is_outdated(account.password_hash):
            await self._store.update_password_hash(account, await self._passwords.hash(password))
        if account.totp_secret is not None:
            return CodeNeeded(self._seals.seal(_TICKET, _standing(account), now))
        return await self.open_session(account, browser, now, "password")

    async def with_code(self, ticket: str, typed: str, browser: Browser, now: datetime) -> Outcome:
        """Check the second factor of somebody whose password was right: a code of the app, or a recovery code."""
        account = await self._ticket_holder(ticket, now)
        if account is None or account.totp_secret is None:
            return Wrong(over=True)
        is_known = self._is_known(account, browser.device, now)
        kind = Kind.DEVICE_CODE if is_known else Kind.CODE
        buckets = [self.bucket(kind, account.user.user_id)]
        wait = await self._attempts.admit(buckets, now)
        if wait:
            return MustWait(math.ceil(wait))
        if await self._use_totp(account, typed, now):
            how = "code"
        elif await self._use_recovery_code(account, typed, browser, now):
            how = "recovery code"
        else:
            _log.warning(
                "second factor refused", extra={"user": account.user.user_id, "address": browser.address}
            )
            self._note_refusal(account, self._what_was_wrong(account, typed, now), browser, now)
            return Wrong()
        await self._attempts.empty(buckets, now)
        return await self.open_session(account, browser, now, how)

    async def open_session(self, account: Account, browser: Browser, now: datetime, how: str) -> SignedIn:
        """Open a session under a fresh secret; the one that the browser had is ended."""
        token = secrets.token_urlsafe(32)
        session = Session(
            session_id=new_id("ses_"),
            user_id=account.user.user_id,
            address=browser.address,
            user_agent=browser.user_agent[:_MAX_USER_AGENT],
            created_at=now,
            last_seen_at=now,
        )
        by = _actor(account, browser)
        opened = entry(by, now, SESSION_OPENED, session.session_id, after={"with": how})
        await self._store.insert_session(session, digest(token), browser.session_id, opened)
        device = self._seals.seal(_DEVICE, _standing(account) + " " + secrets.token_hex(8), now)
        return SignedIn(user_id=account.user.user_id, token=token, device=device)

    async def close(self) -> None:
        """Wait until the refusals of a moment ago are in the log."""
        await asyncio.gather(*self._noting, return_exceptions=True)

    def _note_refusal(self, account: Account, why: str, browser: Browser, now: datetime) -> None:
        """Tell the owner of an account that somebody was refused; after the answer, which takes as long without one."""
        task = asyncio.create_task(self._record_refusal(account, why, browser, now))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _record_refusal(self, account: Account, why: str, browser: Browser, now: datetime) -> None:
        user_id = account.user.user_id
        by = Actor(user_id=user_id, name="somebody signed out", address=browser.address)
        try:
            # Who hammers at an account fills neither the log nor what its owner reads.
            if not await self._attempts.admit([self.bucket(Kind.NOTED, user_id)], now):
                await self._log.insert_entry(entry(by, now, SIGN_IN_REFUSED, user_id, after={"with": why}))
        except StoreUnavailable:
            _log.warning("refusal not recorded", extra={"user": user_id})

    # Sessions

    async def find_viewer(self, token: str, now: datetime, *, in_use: bool) -> Viewer | None:
        """Return who is signed in by a session's secret; `in_use` counts as a use of the session."""
        viewer = await self._store.find_viewer(digest(token))
        if viewer is None or not viewer.session.is_open(now):
            return None
        if in_use and now - viewer.session.last_seen_at >= SEEN_EVERY:
            await self._store.touch_session(viewer.session.session_id, now)
        return viewer

    async def list_sessions(self, user_id: str, now: datetime) -> list[Session]:
        """Return a user's open sessions, the last used first."""
        return await self._store.list_sessions(user_id, now)

    async def end_session(self, user_id: str, session_id: str, now: datetime, by: Actor) -> bool:
        """End one of a user's sessions; False when there is none to end."""
        ended = entry(by, now, "session.ended", session_id)
        return await self._store.end_session(user_id, session_id, now, ended)

    async def end_other_sessions(self, viewer: Viewer, now: datetime, by: Actor) -> int:
        """End all sessions of a user but the one at hand, and return how many."""
        kept = viewer.session.session_id
        ended = entry(by, now, "session.others ended", kept)
        return await self._store.end_sessions(viewer.user.user_id, kept, now, ended)

    # Limits

    def bucket(self, kind: Kind, whose: str) -> Bucket:
        """Return the bucket of an account, an address or a device; nobody outside can tell which slot that is."""
        mac = base64.urlsafe_b64decode(self._seals.mac(f"slot {kind}", whose)[:8])
        return Bucket(kind, int.from_bytes(mac[:4]) % SLOTS)

    async def admit(self, kind: Kind, whose: str, now: datetime) -> MustWait | None:
        """Count an attempt of some other kind, when there is room for it."""
        wait = await self._attempts.admit([self.bucket(kind, whose)], now)
        return MustWait(math.ceil(wait)) if wait else None

    async def confirm(self, user_id: str, password: str, now: datetime) -> bool | MustWait:
        """Check the password of somebody who is signed in, before something that a stolen session must not do."""
        refused = await self.admit(Kind.CONFIRM, user_id, now)
        if refused is not None:
            return refused
        account = await self._store.get_account(user_id)
        matches = await self._passwords.verify(account.password_hash, password[: MAX_LENGTH + 1])
        if matches:
            await self._attempts.empty([self.bucket(Kind.CONFIRM, user_id)], now)
        return matches

    def _password_buckets(self, email: str, browser: Browser, *, is_known: bool) -> Sequence[Bucket]:
        """Return the buckets of an attempt; the first is emptied when it succeeds."""
        key = email_key(email)
        if is_known:
            return [self.bucket(Kind.DEVICE, browser.device)]
        block = address_block(browser.address)
        return [
            self.bucket(Kind.PAIR, f"{key} {block}"),
            self.bucket(Kind.ACCOUNT, key),
            self.bucket(Kind.ADDRESS, block),
        ]

    def _is_known(self, account: Account, device: str, now: datetime) -> bool:
        standing = self._seals.unseal(_DEVICE, device, now, DEVICE_LIFE_S) if device else None
        return standing is not None and standing.rpartition(" ")[0] == _standing(account)

    # The second factor

    async def _ticket_holder(self, ticket: str, now: datetime) -> Account | None:
        standing = self._seals.unseal(_TICKET, ticket, now, int(SECOND_FACTOR_LIFE.total_seconds()))
        if standing is None:
            return None
        try:
            account = await self._store.get_account(standing.partition(" ")[0])
        except UserNotFound:
            return None
        return account if standing == _standing(account) else None

    async def _use_totp(self, account: Account, typed: str, now: datetime) -> bool:
        secret = self._seals.unseal(_TOTP, account.totp_secret or "", now)
        if secret is None:
            return False
        step = totp.matching_step(secret, typed, now, account.totp_last_step or 0)
        return step is not None and await self._store.use_totp_step(account.user.user_id, step)

    def _what_was_wrong(self, account: Account, typed: str, now: datetime) -> str:
        secret = self._seals.unseal(_TOTP, account.totp_secret or "", now)
        known = secret is not None and totp.matching_step(secret, typed, now, 0) is not None
        return "right password, a code that was used before" if known else "right password, wrong code"

    async def _use_recovery_code(self, account: Account, typed: str, browser: Browser, now: datetime) -> bool:
        code = totp.recovery_code(typed)
        if code is None:
            return False
        user_id = account.user.user_id
        used: Entry = entry(_actor(account, browser), now, "recovery code.used", user_id)
        mac = self._seals.mac(_RECOVERY, f"{user_id} {code}")
        return await self._store.use_recovery_code(user_id, mac, now, used)


def _standing(account: Account) -> str:
    """Return what a ticket or a device's proof holds on to: a new password makes all of them worthless."""
    return f"{account.user.user_id} {account.user.password_changed_at.timestamp()}"


def _actor(account: Account, browser: Browser) -> Actor:
    return Actor(user_id=account.user.user_id, name=account.user.email, address=browser.address)
