"""Joins the worker process's operations with their adapters, as `wiring` does for the administration."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

from payaccept import __version__, garbage
from payaccept.adapters.mail import SmtpMail
from payaccept.adapters.postgres.backlog import PostgresBacklog
from payaccept.adapters.postgres.deliveries import PostgresDeliveries
from payaccept.adapters.postgres.directory import PostgresDirectory
from payaccept.adapters.postgres.drills import PostgresDrills
from payaccept.adapters.postgres.events import PostgresEvents
from payaccept.adapters.postgres.group_commit import lane_per_bucket, one_lane
from payaccept.adapters.postgres.health import PostgresPulse
from payaccept.adapters.postgres.lane_alarms import PostgresLaneAlarms
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.membership import PostgresMembership
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.numbering import PostgresNumbering
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.people import PostgresPeople
from payaccept.adapters.postgres.replays import PostgresReplays
from payaccept.adapters.postgres.wakeups import WakeupListener
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.config import Settings
from payaccept.domain.delivery import RETRY_AFTER_AT_MOST
from payaccept.domain.drill import UNKNOWN_KEY_VERSION
from payaccept.domain.merchant import Environment
from payaccept.domain.places import Limits
from payaccept.figures.processes import WorkerFigures
from payaccept.figures.slab import Slab
from payaccept.operations.deliveries import Deliveries
from payaccept.operations.drilling import Drilling
from payaccept.operations.events import Events
from payaccept.operations.lane_alarms import LaneAlarms
from payaccept.operations.payments import Payments
from payaccept.operations.progress import Progress
from payaccept.operations.provider_keys import CurrentSigner, Signer
from payaccept.operations.replays import ReplayRunner
from payaccept.operations.sending import SIGNING_THREADS, Sending
from payaccept.wire import signing
from payaccept.wiring import (
    now_utc,
    open_partitions,
    open_vault,
    require_simulated,
    rules_of,
)
from payaccept.worker import Worker

USER_AGENT: Final = f"payaccept/{__version__}"
PAUSES_A_STEP: Final = 5
"""How much shorter the first pause of an open circuit breaker is than the first step of the retries."""
ALARMS_QUIET: Final = timedelta(days=2)
"""After the longest wait for a retry: sooner than the worker forgets a destination, which is no recovery."""
_log = logging.getLogger(__name__)


def _limits(settings: Settings) -> Limits:
    return Limits(
        per_lane=settings.webhook_per_lane,
        per_merchant=settings.webhook_per_merchant,
        in_all=settings.webhook_concurrency,
        pause_s=settings.retry_schedule_s[0] / PAUSES_A_STEP,
    )


class WorkerProcess:
    """What one worker process holds open."""

    def __init__(self, settings: Settings) -> None:
        # Its HTTP client looks names up itself, which the other processes never need.
        from payaccept.adapters.outbound import Outbound  # noqa: PLC0415

        require_simulated(settings)
        url = settings.database_url
        routing = lane_per_bucket if settings.bucket_lanes else one_lane
        self._vault = open_vault(settings)
        self._merchants = PostgresMerchants(url, process="worker")
        self._directory = PostgresDirectory(url, process="worker")
        self._payments = PostgresPayments(url, routing=routing, create_lines=0, process="worker")
        self._deliveries = PostgresDeliveries(url, routing=routing)
        self._wallet = SimulatedWallet(url, settle_delay_s=settings.settle_delay_s, process="worker")
        self._outbound = Outbound(
            settings.urls, timeout_s=settings.webhook_timeout_s, proxy=settings.egress_proxy
        )
        self._figures = WorkerFigures(
            PostgresBacklog(url, process="worker"),
            PostgresPulse(url, process="worker"),
            lambda: self._sending.lanes.in_flight,
            now_utc,
        )
        self._threads = ThreadPoolExecutor(SIGNING_THREADS, thread_name_prefix="sign")
        self._membership = PostgresMembership(url)
        self._numbering = PostgresNumbering(url)
        self._partitions = open_partitions(settings, process="worker")
        self._event_store = PostgresEvents(url, process="worker")
        self._lines = LinePool(url, "worker-rest", size=2)
        self._alarm_store = PostgresLaneAlarms(url, process="worker")
        verbs = Payments(
            self._payments,
            self._wallet,
            rules_of(settings),
            wake_worker=self._wake,
            on_settled=self._figures.payments.settled,
        )
        self._sending = Sending(
            Deliveries(
                self._deliveries,
                self._outbound.post,
                self._sign,
                schedule_s=settings.retry_schedule_s,
                timeout_s=settings.webhook_timeout_s,
                lease_s=settings.webhook_lease_s,
                user_agent=USER_AGENT,
                clock=now_utc,
                log=self._figures.attempts.write,
            ),
            self._membership,
            self._current_signer,
            _limits(settings),
            on_room=self._fill,
        )
        self._stranger: Signer | None = None
        self._worker = Worker(
            Progress(self._payments, self._wallet, verbs, self.webhook_url_of),
            self._sending,
            self._numbering,
            self._partitions,
            clock=now_utc,
            replays=self._replay_runner(settings),
            alarms=self._lane_alarms(settings),
            drilling=self._drilling(settings),
        )
        self._listener = WakeupListener(url, self._wake)
        self._signer = CurrentSigner(self._merchants, self._vault, now_utc)

    def _drilling(self, settings: Settings) -> Drilling | None:
        if settings.environment is not Environment.SANDBOX:
            return None
        return Drilling(
            PostgresDrills(self._lines),
            self._outbound.post,
            self._sign,
            self._current_signer,
            self._unpublished_signer,
            timeout_s=settings.webhook_timeout_s,
            user_agent=USER_AGENT,
            clock=now_utc,
            lease_s=settings.webhook_lease_s,
        )

    def _replay_runner(self, settings: Settings) -> ReplayRunner:
        events = Events(
            self._event_store, self._merchants, settings.environment, wake_worker=self._wake, clock=now_utc
        )
        return ReplayRunner(PostgresReplays(self._lines), events, clock=now_utc)

    def _lane_alarms(self, settings: Settings) -> LaneAlarms | None:
        if not settings.smtp_url:
            return None
        return LaneAlarms(
            self._alarm_store,
            PostgresPeople(self._lines),
            self._merchants,
            SmtpMail(settings.smtp_url, settings.mail_from),
            web_base_url=settings.web_base_url,
            quiet=timedelta(seconds=max(settings.retry_schedule_s) * RETRY_AFTER_AT_MOST) + ALARMS_QUIET,
            clock=now_utc,
        )

    def _wake(self, lane: str | None = None) -> None:
        self._worker.wake(lane)

    def _fill(self) -> None:
        self._worker.fill()

    @property
    def figures(self) -> Slab:
        """What this process counts."""
        return self._figures.slab

    async def _current_signer(self) -> Signer:
        signer = await self._signer()
        self._figures.key_version.set(signer.key_version)
        return signer

    async def _unpublished_signer(self) -> Signer:
        """Return a key that nobody has published: made when it is first wanted, and kept in memory alone."""
        if self._stranger is None:
            pair = await asyncio.get_running_loop().run_in_executor(self._threads, self._vault.new_key)
            self._stranger = Signer(UNKNOWN_KEY_VERSION, self._vault.open(pair[1]))
        return self._stranger

    def stop(self) -> None:
        """Take nothing new; `run` returns when what is under way is done."""
        self._worker.stop()

    async def run(self) -> None:
        """Work until stopped."""
        garbage.spare_the_collector()
        self._figures.start()
        self._directory.start()
        self._payments.start()
        self._deliveries.start()
        await self._outbound.open()
        listening = asyncio.create_task(self._listener.run())
        try:
            await self._worker.run()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            for part in (
                self._membership,
                self._outbound,
                self._deliveries,
                self._numbering,
                self._partitions,
                self._payments,
                self._directory,
                self._wallet,
                self._merchants,
                self._event_store,
                self._lines,
                self._alarm_store,
                self._figures,
            ):
                await part.close()
            self._threads.shutdown()

    async def webhook_url_of(self, client_id: str) -> str | None:
        """Return the endpoint a merchant has configured."""
        credentials = await self._directory.find_credentials(client_id)
        return None if credentials is None else credentials.merchant.webhook_url

    async def _sign(self, signer: Signer, strings: Sequence[bytes]) -> list[bytes]:
        # OpenSSL signs without the interpreter's lock: the loop goes on meanwhile, on another core.
        def sign() -> list[bytes]:
            return [signing.sign(signer.private_key, string) for string in strings]

        return await asyncio.get_running_loop().run_in_executor(self._threads, sign)
