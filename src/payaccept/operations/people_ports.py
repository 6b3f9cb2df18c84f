"""What the operations on people need from the outside."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from payaccept.domain.attempt_limit import Bucket
from payaccept.domain.audit import Entry
from payaccept.domain.merchant import Merchant
from payaccept.domain.user import Account, Link, Member, Role, Session, User, Viewer


class UserStore(Protocol):
    """Users, their second factor and their sessions; each change with its entry in the audit log."""

    async def find_account(self, email: str) -> Account | None:
        """Return the account of an e-mail address, however it is spelled."""

    async def get_account(self, user_id: str) -> Account:
        """Return an account; raises UserNotFound."""

    async def insert_owner(
        self, account: Account | None, user_id: str, merchant: Merchant, entries: Sequence[Entry]
    ) -> None:
        """Store a new merchant with its owner, who is new, too, when an account is given; raises EmailTaken."""

    async def list_staff(self) -> list[User]:
        """Return the provider's own people."""

    async def update_staff(self, user_id: str, *, staff: bool, entry: Entry) -> None:
        """Take somebody into the provider's staff, or out of it."""

    async def update_name(self, user_id: str, name: str, entry: Entry) -> None:
        """Change a user's name."""

    async def update_password(self, user_id: str, password_hash: str, now: datetime, entry: Entry) -> None:
        """Change a user's password, and end all sessions that were opened with the old one."""

    async def update_password_hash(self, account: Account, password_hash: str) -> None:
        """Store the same password under the cost of today."""

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

    async def replace_recovery_codes(
        self, user_id: str, code_macs: Sequence[str], now: datetime, entry: Entry
    ) -> None:
        """Store new recovery codes; the old ones are worth nothing from now on."""

    async def use_totp_step(self, user_id: str, step: int) -> bool:
        """Use the code of a step; False when it, or a later one, was used before."""

    async def use_recovery_code(self, user_id: str, code_mac: str, now: datetime, entry: Entry) -> bool:
        """Use a recovery code; False when it is none, or used already."""

    async def count_recovery_codes(self, user_id: str) -> int:
        """Return how many recovery codes are left."""

    async def insert_session(
        self, session: Session, token_hash: bytes, replaced: str | None, entry: Entry | None
    ) -> None:
        """Store a new session, and end the one that the browser had."""

    async def find_viewer(self, token_hash: bytes) -> Viewer | None:
        """Return who is in a session that nobody has ended; its age is not looked at."""

    async def touch_session(self, session_id: str, now: datetime) -> None:
        """Record that a session is in use."""

    async def list_sessions(self, user_id: str, now: datetime) -> list[Session]:
        """Return a user's open sessions, the last used first."""

    async def end_session(self, user_id: str, session_id: str, now: datetime, entry: Entry) -> bool:
        """End a session; False when it is not open, or not this user's."""

    async def end_sessions(self, user_id: str, kept: str, now: datetime, entry: Entry) -> int:
        """End all sessions of a user but one, and return how many."""


class PeopleStore(Protocol):
    """Who belongs to which merchant, and the one-time links that bring people in."""

    async def list_members(self, client_id: str) -> list[Member]:
        """Return the people of a merchant, the longest there first."""

    async def change_role(
        self, client_id: str, user_id: str, role: Role, entry_of: Callable[[Role], Entry]
    ) -> None:
        """Give a member another role; `entry_of` gets the old one. Raises: UserNotFound, OwnerNeeded."""

    async def end_membership(
        self, client_id: str, user_id: str, now: datetime, entry_of: Callable[[Role], Entry]
    ) -> None:
        """Take a member out of a merchant. Raises: UserNotFound, OwnerNeeded."""

    async def insert_link(self, link: Link, token_hash: bytes, entry: Entry | None) -> None:
        """Store a one-time link; it replaces the one of its kind that the same person may have."""

    async def find_link(self, token_hash: bytes, now: datetime) -> Link | None:
        """Return the link of a secret, while it works."""

    async def list_links(self, client_id: str, now: datetime) -> list[Link]:
        """Return a merchant's open invitations, the oldest first."""

    async def revoke_link(self, client_id: str, link_id: str, now: datetime, entry: Entry) -> bool:
        """Take an invitation of a merchant's back; False when it was not open."""

    async def accept_invitation(
        self, link: Link, account: Account | None, user_id: str, now: datetime, entries: Sequence[Entry]
    ) -> None:
        """Use an invitation for a user, who is new when an account is given. Raises: LinkSpent, EmailTaken."""

    async def use_password_link(
        self, link: Link, user_id: str, password_hash: str, now: datetime, entry: Entry
    ) -> None:
        """Use a link for a new password, and end all sessions of the old one. Raises: LinkSpent."""


class Attempts(Protocol):
    """The buckets that attempts to guess are counted in."""

    async def admit(self, buckets: Sequence[Bucket], now: datetime) -> float:
        """Count an attempt in all buckets; returns 0, or after how many seconds there is room for it."""

    async def forgive(self, buckets: Sequence[Bucket], now: datetime) -> None:
        """Take an attempt that turned out right out of the buckets again."""

    async def empty(self, buckets: Sequence[Bucket], now: datetime) -> None:
        """Forget all attempts of the buckets."""


class AuditLog(Protocol):
    """The record of changes."""

    async def insert_entry(self, entry: Entry) -> None:
        """Store an entry by itself, for what changes nothing else."""

    async def list_of_merchant(self, client_id: str, before_id: str, limit: int) -> list[Entry]:
        """Return a merchant's entries older than one, newest first."""

    async def list_of_user(self, user_id: str, before_id: str, limit: int) -> list[Entry]:
        """Return what a user did to its own account, older than one entry, newest first."""


class Passwords(Protocol):
    """Hashes passwords, slowly; raises StoreUnavailable when too many wait for that."""

    async def hash(self, password: str) -> str:
        """Hash a password."""

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Tell whether this is the password; None is nobody's, and takes as long."""

    def is_outdated(self, password_hash: str) -> bool:
        """Tell whether a hash was made with other parameters than those of today."""


class Seals(Protocol):
    """Keeps texts that pass through browsers, or rest in the database, from being read or made by anybody else."""

    def mac(self, purpose: str, text: str) -> str:
        """Return what proves that we wrote the text, for this purpose; 43 characters that fit in a URL."""

    def seal(self, purpose: str, text: str, now: datetime) -> str:
        """Return the text unreadable and unchangeable, in characters that fit in a URL."""

    def unseal(self, purpose: str, sealed: str, now: datetime, life_s: int | None = None) -> str | None:
        """Return the text that was sealed for this purpose, at most so long ago; None for anything else."""


class Mail(Protocol):
    """Sends messages to people."""

    async def send(self, to: str, subject: str, text: str) -> bool:
        """Send a message; False when that failed."""
