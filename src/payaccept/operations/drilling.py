"""Doing drills, in the worker: each step is sent once at most, through the client that all notifications go through.

What is about to be sent is written down first. A worker that dies leaves a drill to another, which goes on behind
what may have been sent. Lanes and events know nothing of it: that an endpoint refuses what is forged is no failure.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from msgspec.structs import replace

from payaccept.domain.delivery import Exchange
from payaccept.domain.drill import Drill, Exercise, Step, signed_at
from payaccept.domain.errors import OutcomeOpen
from payaccept.operations.deliveries import LEASE_S, RECORD_AGAIN_AFTER_S, Post, Sign, headers_of
from payaccept.operations.drills import DrillStore
from payaccept.operations.provider_keys import Signer
from payaccept.wire import signing, timestamps

AT_A_TIME: Final = 8
"""How many drills a worker does at a time; in each, one notification follows another."""

_log = logging.getLogger(__name__)

SignerSource = Callable[[], Awaitable[Signer]]


class Drilling:
    """Takes the drills that are asked for, and does them.

    signer: knows the key that signs now; stranger: knows one that nobody has published
    """

    def __init__(
        self,
        store: DrillStore,
        post: Post,
        sign: Sign,
        signer: SignerSource,
        stranger: SignerSource,
        *,
        timeout_s: float,
        user_agent: str,
        clock: Callable[[], datetime],
        lease_s: float = LEASE_S,
    ) -> None:
        self._store = store
        self._post = post
        self._sign = sign
        self._signer = signer
        self._stranger = stranger
        self._user_agent = user_agent
        self._clock = clock
        # One step is under way at a time, and each begins with a new lease.
        self._lease = timedelta(seconds=max(lease_s, 2 * timeout_s))
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def look(self) -> None:
        """Begin the drills that wait for somebody. Raises: OutcomeOpen."""
        room = AT_A_TIME - len(self._tasks)
        if room <= 0 or self._stopping:
            return
        claim_id, now = uuid4(), self._clock()
        for drill in await self._store.claim_drills(claim_id, now, now + self._lease, room):
            task = asyncio.get_running_loop().create_task(self._do(drill, claim_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Wait for the steps that are under way; what comes after them is another worker's."""
        self._stopping = True
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _do(self, drill: Drill, claim_id: UUID) -> None:
        try:
            await self._do_steps(drill, claim_id)
        except OutcomeOpen:
            pass  # the lease runs out, and a worker goes on behind the last step that may have been sent
        except Exception:  # noqa: BLE001 - a bug here must not end the worker
            _log.exception("a drill failed", extra={"drillId": drill.drill_id})

    async def _do_steps(self, drill: Drill, claim_id: UUID) -> None:
        for step in drill.steps:
            if step.sent_at is not None:
                continue
            if self._stopping:
                await self._store.give_back_drill(drill.drill_id, claim_id)
                return
            if drill.is_silent:
                break
            done = await self._do_step(drill, claim_id, step)
            if done is None:
                return
            drill = replace(
                drill, steps=tuple(done if one.number == done.number else one for one in drill.steps)
            )
        await self._store.end_drill(drill.drill_id, claim_id, self._clock())
        _log.info("drill", extra={"drillId": drill.drill_id, "clientId": drill.client_id})

    async def _do_step(self, drill: Drill, claim_id: UUID, step: Step) -> Step | None:
        """Send a step and write what came of it; None when it is another worker's by now."""
        now = self._clock()
        headers = await self._headers(drill, step, now)
        written = "".join(f"{name}: {value}\n" for name, value in headers.items())
        leased_until = now + self._lease
        if not await self._store.begin_step(drill.drill_id, claim_id, step, now, written, leased_until):
            return None
        exchange = await self._post(drill.url, step.body_sent, headers)
        done = _answered(replace(step, sent_at=now, headers=written), exchange, self._clock())
        await self._record(drill, done)
        return done

    async def _headers(self, drill: Drill, step: Step, now: datetime) -> dict[str, str]:
        stranger = step.exercise is Exercise.UNKNOWN_KEY
        signer = await (self._stranger if stranger else self._signer)()
        request_time = timestamps.write_seconds(signed_at(step.exercise, now))
        string = signing.notification_string(urlsplit(drill.url).path or "/", request_time, step.body)
        [signature] = await self._sign(signer, [string])
        return headers_of(step, self._user_agent, request_time, signer.key_version, signature)

    async def _record(self, drill: Drill, step: Step) -> None:
        for wait_s in RECORD_AGAIN_AFTER_S:
            try:
                await self._store.record_step(drill.drill_id, step)
            except OutcomeOpen:
                await asyncio.sleep(wait_s)
            else:
                return
        await self._store.record_step(drill.drill_id, step)


def _answered(step: Step, exchange: Exchange, now: datetime) -> Step:
    """Return the step with what came of it; of the answer's body only the size."""
    return replace(
        step,
        answered_at=now,
        outcome=exchange.outcome,
        total_us=exchange.timing.total_us,
        answer_bytes=len(exchange.answer),
    )
