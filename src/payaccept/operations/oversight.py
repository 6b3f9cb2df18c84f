"""What the provider's staff sees over all merchants, and the record of what it has looked at."""

from collections.abc import Collection
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct

from payaccept.domain.audit import Entry, entry
from payaccept.domain.dead_deliveries import DeadCount, DeadDelivery, Place
from payaccept.domain.merchant import Merchant, MerchantState
from payaccept.domain.user import Actor
from payaccept.operations.people_ports import UserStore

PER_PAGE: Final = 50
COUNTED: Final = 20_000
"""How many dead deliveries are looked at to count them by merchant and reason, the latest first."""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Whose entries are wanted: one merchant's, one person's, both or everybody's."""

    client_id: str | None = None
    user_id: str | None = None


class OversightStore(Protocol):
    """Reads over all merchants. Every method raises OutcomeOpen when it must."""

    async def search_merchants(
        self, text: str, state: MerchantState | None, behind: str | None, limit: int
    ) -> list[Merchant]:
        """Return merchants with the text in their name or Client-Id, the newest first, behind one of them."""

    async def names_of(self, client_ids: Collection[str]) -> dict[str, str]:
        """Return merchants' names."""

    async def count_dead(self, looked_at: int) -> list[DeadCount]:
        """Count the latest dead deliveries by merchant and reason, the most first."""

    async def list_dead(self, client_id: str | None, behind: Place | None, limit: int) -> list[DeadDelivery]:
        """Return dead deliveries behind a place: of all, the last given up first; of one, the youngest event."""


class EntryReader(Protocol):
    """Reads and writes the audit log."""

    async def list_of_all(
        self, client_id: str | None, user_id: str | None, before_id: str, limit: int
    ) -> list[Entry]:
        """Return entries older than one, newest first: of a merchant, of a person, of both or of all."""

    async def insert_entry(self, entry: Entry) -> None:
        """Store an entry by itself."""


class Oversight:
    """The verbs of looking at everything."""

    def __init__(self, store: OversightStore, log: EntryReader, users: UserStore) -> None:
        self._store = store
        self._log = log
        self._users = users

    async def search_merchants(
        self, text: str = "", state: MerchantState | None = None, behind: str | None = None
    ) -> tuple[list[Merchant], str | None]:
        """Return a page of merchants, the newest first, and behind which one the next page begins."""
        found = await self._store.search_merchants(text, state, behind, PER_PAGE + 1)
        return found[:PER_PAGE], found[PER_PAGE - 1].client_id if len(found) > PER_PAGE else None

    async def names_of(self, client_ids: Collection[str]) -> dict[str, str]:
        """Return the names of merchants; one that is not there has none."""
        return await self._store.names_of(client_ids) if client_ids else {}

    async def count_dead(self) -> list[DeadCount]:
        """Count dead deliveries by merchant and reason, the most first; of many, only the latest are counted."""
        return await self._store.count_dead(COUNTED)

    async def list_dead(
        self, client_id: str | None = None, behind: Place | None = None
    ) -> tuple[list[DeadDelivery], Place | None]:
        """Return a page of dead deliveries, the last given up first, and behind which the next page begins."""
        found = await self._store.list_dead(client_id, behind, PER_PAGE + 1)
        page = found[:PER_PAGE]
        return page, Place(page[-1].final_at, page[-1].event_id) if len(found) > PER_PAGE else None

    async def filter_of(self, client_id: str, email: str) -> AuditFilter | None:
        """Return the filter for a Client-Id and an e-mail address, each perhaps empty; None: nobody has that one."""
        if not email:
            return AuditFilter(client_id=client_id or None)
        account = await self._users.find_account(email)
        if account is None:
            return None
        return AuditFilter(client_id=client_id or None, user_id=account.user.user_id)

    async def list_entries(self, wanted: AuditFilter, before_id: str) -> tuple[list[Entry], str | None]:
        """Return a page of the audit log, newest first, and where the next page begins."""
        found = await self._log.list_of_all(wanted.client_id, wanted.user_id, before_id, PER_PAGE + 1)
        page = found[:PER_PAGE]
        return page, page[-1].entry_id if len(found) > PER_PAGE else None

    async def note(self, by: Actor, now: datetime, action: str, subject: str, client_id: str | None) -> None:
        """Record what somebody of the staff has looked at, or had done; the merchant can read of it."""
        await self._log.insert_entry(entry(by, now, action, subject, client_id=client_id))
