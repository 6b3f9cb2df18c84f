"""Telling a merchant's people by mail that a destination has been failing for an hour, for a day, and that it is over.

Each is told once, by whichever worker is first: it claims the news for a while, sends the mail with no transaction
open, and writes that it was told. A worker that crashes in between leaves a claim that ends, and another tells it: so
a message may come twice then, and never not at all.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from payaccept.domain.errors import MerchantNotFound
from payaccept.domain.lane_alarms import Alarm, LaneNews
from payaccept.domain.lanes import destination_of
from payaccept.domain.merchant import Merchant
from payaccept.domain.user import Member, Role
from payaccept.operations.events import MerchantSource
from payaccept.operations.people_ports import Mail

LEASE: Final = timedelta(minutes=10)
"""Longer than sending takes; after so long it is tried again when no mail went out."""
AT_A_TIME: Final = 10
_TOLD: Final = frozenset({Role.OWNER, Role.DEVELOPER})


class AlarmStore(Protocol):
    """What people were told of failing destinations. Every method raises OutcomeOpen when it must."""

    async def claim(
        self, now: datetime, leased_until: datetime, quiet_since: datetime, limit: int
    ) -> list[LaneNews]:
        """Take what is new and nobody is telling, for so long; nothing of where nothing was sent since."""

    async def record_told(self, news: LaneNews) -> None:
        """Write that it was told."""


class PeopleSource(Protocol):
    """Knows who belongs to a merchant."""

    async def list_members(self, client_id: str) -> list[Member]:
        """Return the people of a merchant."""


class LaneAlarms:
    """Tells what is new. `quiet` is after how long without an attempt a destination is not spoken of any more."""

    def __init__(
        self,
        store: AlarmStore,
        people: PeopleSource,
        merchants: MerchantSource,
        mail: Mail,
        *,
        web_base_url: str,
        quiet: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._people = people
        self._merchants = merchants
        self._mail = mail
        self._web_base_url = web_base_url
        self._quiet = quiet
        self._clock = clock

    async def tell(self) -> int:
        """Send what there is to tell. Returns: of how many destinations. Raises: OutcomeOpen."""
        now = self._clock()
        claimed = await self._store.claim(now, now + LEASE, now - self._quiet, AT_A_TIME)
        for news in claimed:
            if await self._send(news):
                await self._store.record_told(news)
        return len(claimed)

    async def _send(self, news: LaneNews) -> bool:
        """Mail it to whom it concerns; False when there was somebody to tell and nobody could be."""
        try:
            merchant = await self._merchants.get_merchant(news.client_id)
        except MerchantNotFound:
            return True
        members = await self._people.list_members(news.client_id)
        addresses = [member.user.email for member in members if member.role in _TOLD]
        subject, text = letter(news, merchant, f"{self._web_base_url}/m/{news.client_id}/webhooks")
        sent = await asyncio.gather(*(self._mail.send(address, subject, text) for address in addresses))
        return any(sent) or not addresses


def letter(news: LaneNews, merchant: Merchant, link: str) -> tuple[str, str]:
    """Return subject and text of the message that brings the news."""
    where = destination_of(news.lane)
    since = f"{news.failing_since:%-d %B %Y, %H:%M} UTC"
    why = f"You get this as an owner or a developer of {merchant.name} ({merchant.client_id})."
    if news.alarm is Alarm.OVER:
        subject = f"{where} takes webhooks again"
        text = (
            f"{where}, which had been failing since {since}, answers again. What waited for it is sent now, by"
            f" itself. What was given up meanwhile can be sent again:\n\n{link}?status=dead\n"
        )
        return subject, f"{text}\n{why}\n"
    lasted = "an hour" if news.alarm is Alarm.HOUR else "a day"
    subject = f"{where} has been failing for {lasted}"
    text = (
        f"Since {since} {where} has taken no webhook: {news.failures} attempts failed in a row. The last reason:"
        f" {news.last_reason}.\n\nWhat is due waits and is tried again; it is given up when its last retry has"
        " failed. See that the host answers from outside, in time and with a valid certificate, and look into its"
        f" log. What is failing, what waits, and what to do:\n\n{link}\n"
    )
    return subject, f"{text}\n{why}\n"
