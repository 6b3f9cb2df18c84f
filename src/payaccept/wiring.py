"""Joins operations with adapters, for the worker and the administrator's commands, and what all processes share."""

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from payaccept import __version__
from payaccept.adapters.mail import SmtpMail
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.backlog import PostgresBacklog
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.deliveries import PostgresDeliveries
from payaccept.adapters.postgres.directory import PostgresDirectory
from payaccept.adapters.postgres.drills import PostgresDrills
from payaccept.adapters.postgres.events import PostgresEvents
from payaccept.adapters.postgres.group_commit import lane_per_bucket, one_lane
from payaccept.adapters.postgres.lane_alarms import PostgresLaneAlarms
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.membership import PostgresMembership
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.numbering import PostgresNumbering
from payaccept.adapters.postgres.partitions import PostgresPartitions
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.people import PostgresPeople
from payaccept.adapters.postgres.replays import PostgresReplays
from payaccept.adapters.postgres.wakeups import WakeupListener, WakeupSender
from payaccept.adapters.vault import Vault, read_master_key
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.config import SettingInvalid, Settings
from payaccept.domain.delivery import RETRY_AFTER_AT_MOST
from payaccept.domain.drill import UNKNOWN_KEY_VERSION
from payaccept.domain.lanes import Limits
from payaccept.domain.merchant import Environment
from payaccept.figures.processes import WorkerFigures
from payaccept.figures.slab import Slab
from payaccept.operations import provider_keys
from payaccept.operations.deliveries import Deliveries
from payaccept.operations.drilling import Drilling
from payaccept.operations.drills import Drills, MerchantSource
from payaccept.operations.events import Events
from payaccept.operations.lane_alarms import LaneAlarms
from payaccept.operations.merchants import Merchants
from payaccept.operations.payments import Payments, Rules
from payaccept.operations.progress import Progress
from payaccept.operations.provider_keys import CurrentSigner, Signer
from payaccept.operations.replays import ReplayRunner
from payaccept.operations.sending import Sending
from payaccept.wire import signing
from payaccept.worker import Worker

SIGNING_THREADS: Final = 2
USER_AGENT: Final = f"payaccept/{__version__}"
PAUSES_A_STEP: Final = 5
"""How much shorter the first pause of an open circuit breaker is than the first step of the retries."""
ALARMS_QUIET: Final = timedelta(days=2)
"""After the longest wait for a retry: sooner than the worker forgets a destination, which is no recovery."""
_log = logging.getLogger(__name__)


def now_utc() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


def require_simulated(settings: Settings) -> None:
    """See that this version has a wallet for the deployment. Raises: SettingInvalid."""
    if settings.environment is not Environment.SANDBOX:
        raise SettingInvalid("PAYACCEPT_ENVIRONMENT: this version has wallets for the sandbox only")


def simulated_wallet_of(settings: Settings, process: str) -> SimulatedWallet | None:
    """Return the sandbox's wallet; None in production, where no money may be made up."""
    if settings.environment is not Environment.SANDBOX:
        return None
    return SimulatedWallet(settings.database_url, settle_delay_s=settings.settle_delay_s, process=process)


def drills_of(settings: Settings, lines: LinePool, merchants: MerchantSource) -> Drills | None:
    """Return the sandbox's webhook drills; None in production, where endpoints are sent nothing forged."""
    if settings.environment is not Environment.SANDBOX:
        return None
    return Drills(PostgresDrills(lines), merchants, settings.environment)


def rules_of(settings: Settings) -> Rules:
    """Return what payments need to know of the deployment."""
    return Rules(
        environment=settings.environment,
        web_base_url=settings.web_base_url,
        order_expiry_s=settings.order_expiry_s,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        per_lane=settings.webhook_per_lane,
        per_merchant=settings.webhook_per_merchant,
        in_all=settings.webhook_concurrency,
        pause_s=settings.retry_schedule_s[0] / PAUSES_A_STEP,
    )


def open_vault(settings: Settings) -> Vault:
    """Open the vault with the master key of the environment, or of a file.

    Raises: SettingInvalid, VaultError.
    """
    return Vault(master_key_of(settings))


def master_key_of(settings: Settings) -> bytes:
    """Return the master key of the environment, or of a file. Raises: SettingInvalid, VaultError."""
    master_key = os.environ.get("PAYACCEPT_MASTER_KEY", "").strip()
    if master_key:
        return master_key.encode()
    if settings.master_key_file is None:
        raise SettingInvalid("PAYACCEPT_MASTER_KEY_FILE or PAYACCEPT_MASTER_KEY: the master key is needed")
    return read_master_key(settings.master_key_file)


async def migrate(settings: Settings) -> list[migrations.Migration]:
    """Bring the schema up to date, and make the partitions of today. Raises: SchemaRefused, StoreUnavailable."""
    async with AsyncExitStack() as stack:
        line = SharedLine(settings.database_url, "migrate")
        stack.push_async_callback(line.close)
        async with line.connection(timeout_s=600.0) as connection:
            applied = await migrations.migrate(connection, settings.environment, settings.urls)
        partitions = open_partitions(settings, process="migrate")
        stack.push_async_callback(partitions.close)
        await partitions.maintain(now_utc())
    return applied


def open_partitions(settings: Settings, *, process: str) -> PostgresPartitions:
    """Return what keeps the daily partitions, for as long as the deployment wants them kept."""
    return PostgresPartitions(
        settings.database_url,
        process=process,
        payload_days=settings.payload_days,
        attempt_days=settings.attempt_days,
    )


async def check_database(settings: Settings) -> None:
    """See that the database is one of ours and up to date. Raises: SchemaRefused, StoreUnavailable."""
    line = SharedLine(settings.database_url, "check")
    try:
        async with line.connection() as connection:
            await migrations.check(connection, settings.environment)
    finally:
        await line.close()


async def ensure_provider_key(settings: Settings) -> None:
    """Make the first provider key when there is none. Raises: SettingInvalid, VaultError."""
    store = PostgresMerchants(settings.database_url, process="migrate")
    try:
        await provider_keys.ensure_first_key(store, open_vault(settings), now_utc())
    finally:
        await store.close()


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
            PostgresBacklog(url, process="worker"), lambda: self._sending.lanes.in_flight, now_utc
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


class Administration:
    """What the administrator's commands work with. To be used in `async with`."""

    merchants: Merchants

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        url = settings.database_url
        self._line = SharedLine(url, "admin-check")
        self.store = PostgresMerchants(url, process="admin")
        self.wallet = SimulatedWallet(url, settle_delay_s=settings.settle_delay_s, process="admin")
        self._payments = PostgresPayments(url, create_lines=0, process="admin")
        self._wakeup = WakeupSender(url, process="admin")
        self.payments = Payments(
            self._payments, self.wallet, rules_of(settings), wake_worker=self._wakeup.send
        )
        self._drill_lines = LinePool(url, "admin-drills", size=1)
        self.drills = drills_of(settings, self._drill_lines, self.store)
        self._events = PostgresEvents(url, process="admin")
        self.events = Events(
            self._events, self.store, settings.environment, wake_worker=self._wakeup.send, clock=now_utc
        )

    def vault(self) -> Vault:
        """Open the vault. Raises: SettingInvalid, VaultError."""
        return open_vault(self.settings)

    async def webhook_url_of(self, client_id: str) -> str | None:
        """Return the endpoint a merchant has configured."""
        return (await self.store.get_merchant(client_id)).webhook_url

    async def __aenter__(self) -> Self:
        """Check that the database is one of ours. Raises: SchemaRefused, StoreUnavailable."""
        try:
            async with self._line.connection() as connection:
                urls = await migrations.check(connection, self.settings.environment)
        except BaseException:
            await self._line.close()
            raise
        # The rule for URLs is the running service's, not this shell's.
        self.merchants = Merchants(self.store, self.settings.environment, urls)
        self._payments.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        parts = (self._wakeup, self._drill_lines, self._events, self._payments, self.wallet, self.store)
        for part in (*parts, self._line):
            await part.close()
