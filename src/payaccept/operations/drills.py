"""Webhook drills as merchants ask for them and look at them. There are none in production."""

from collections.abc import Callable, Sequence
from datetime import datetime
from math import ceil
from typing import Final, Protocol
from uuid import UUID

from payaccept.domain.audit import Entry, entry
from payaccept.domain.drill import PAUSE, Drill, Step, is_drill_id, plan
from payaccept.domain.errors import DrillRefused
from payaccept.domain.merchant import Environment, Merchant
from payaccept.domain.user import Actor

KEPT: Final = 20
"""How many drills of a merchant's are kept."""


class DrillStore(Protocol):
    """Drills and their steps. Every method raises OutcomeOpen when it must."""

    async def insert_drill(
        self, drill: Drill, decide: Callable[[Drill | None], None], entry: Entry, keep: int
    ) -> None:
        """Store a drill, if `decide` does not raise on the merchant's last one; only the newest are kept.

        Raises: MerchantNotFound.
        """

    async def list_drills(self, client_id: str, limit: int) -> list[Drill]:
        """Return a merchant's last drills with their steps, the newest first."""

    async def find_drill(self, client_id: str, drill_id: str) -> Drill | None:
        """Return a drill of a merchant's with its steps."""

    async def claim_drills(
        self, claim_id: UUID, now: datetime, leased_until: datetime, limit: int
    ) -> list[Drill]:
        """Take drills that no worker has, with their steps."""

    async def begin_step(
        self,
        drill_id: str,
        claim_id: UUID,
        step: Step,
        sent_at: datetime,
        headers: str,
        leased_until: datetime,
    ) -> bool:
        """Write that a step is about to be sent; False when it may have been before, or the claim is lost."""

    async def record_step(self, drill_id: str, step: Step) -> None:
        """Write what came of a step. Written twice it is the same."""

    async def end_drill(self, drill_id: str, claim_id: UUID, now: datetime) -> None:
        """Write that nothing of a drill is still to come."""

    async def give_back_drill(self, drill_id: str, claim_id: UUID) -> None:
        """Leave a drill to another worker."""


class MerchantSource(Protocol):
    """Knows merchants."""

    async def get_merchant(self, client_id: str) -> Merchant:
        """Return a merchant; raises MerchantNotFound."""


class Drills:
    """The verbs of asking for drills and looking at them."""

    def __init__(self, store: DrillStore, merchants: MerchantSource, environment: Environment) -> None:
        self._store = store
        self._merchants = merchants
        self._environment = environment

    async def start(self, client_id: str, now: datetime, by: Actor) -> Drill:
        """Ask for a drill of the endpoint that a merchant has configured; a worker does it.

        Raises: MerchantNotFound; DrillRefused without an endpoint, while one is running, and within a minute of
        the last one; OutcomeOpen.
        """
        merchant = await self._merchants.get_merchant(client_id)
        if merchant.webhook_url is None:
            raise DrillRefused(f"no endpoint is configured for {client_id} to send a drill to")

        def decide(last: Drill | None) -> None:
            if last is not None:
                _require_pause(last, now)

        drill = plan(merchant, merchant.webhook_url, by.name, self._environment, now)
        told = entry(
            by, now, "drill.started", drill.drill_id, client_id=client_id, after={"url": merchant.webhook_url}
        )
        await self._store.insert_drill(drill, decide, told, KEPT)
        return drill

    async def list_last(self, client_id: str) -> Sequence[Drill]:
        """Return the drills of a merchant that are kept, the newest first. Raises: OutcomeOpen."""
        return await self._store.list_drills(client_id, KEPT)

    async def find(self, client_id: str, drill_id: str) -> Drill | None:
        """Return a drill of a merchant's; None when it is gone, or another's. Raises: OutcomeOpen."""
        return await self._store.find_drill(client_id, drill_id) if is_drill_id(drill_id) else None


def _require_pause(last: Drill, now: datetime) -> None:
    if last.is_running:
        raise DrillRefused("a drill is running: wait for its end")
    left_s = ceil((last.created_at + PAUSE - now).total_seconds())
    if left_s > 0:
        raise DrillRefused(
            f"the last drill began less than a minute ago: wait {left_s} s", retry_after_s=left_s
        )
