"""Joins operations with adapters: the only module that knows which is which."""

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final, Self

from payaccept import __version__
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.deliveries import PostgresDeliveries
from payaccept.adapters.postgres.directory import PostgresDirectory
from payaccept.adapters.postgres.group_commit import lane_per_bucket, one_lane
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.rate_limits import PostgresRateLimits
from payaccept.adapters.postgres.traffic import PostgresTraffic
from payaccept.adapters.postgres.wakeups import WakeupListener, WakeupSender
from payaccept.adapters.vault import Vault, read_master_key
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.api.documents import Documents
from payaccept.api.endpoints import Endpoints
from payaccept.api.failure_limit import AddressFailureLimit
from payaccept.api.gate import Gate
from payaccept.api.kernel import Kernel
from payaccept.config import SettingInvalid, Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.domain.merchant import Environment
from payaccept.line_log import LineLog
from payaccept.operations import provider_keys
from payaccept.operations.deliveries import Deliveries
from payaccept.operations.key_proofs import KeyProofs
from payaccept.operations.merchants import Merchants
from payaccept.operations.payments import Payments, Rules
from payaccept.operations.progress import Progress
from payaccept.operations.provider_keys import PublishedKey, Signer
from payaccept.operations.recorder import Recorder
from payaccept.wire import signing
from payaccept.worker import Worker

SIGNING_THREADS: Final = 2
_SIGNER_KEPT_S: Final = 0.5
_log = logging.getLogger(__name__)


def now_utc() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


def _require_simulated(settings: Settings) -> None:
    if settings.environment is not Environment.SANDBOX:
        raise SettingInvalid("PAYACCEPT_ENVIRONMENT: this version has wallets for the sandbox only")


def _rules(settings: Settings) -> Rules:
    return Rules(
        environment=settings.environment,
        web_base_url=settings.web_base_url,
        order_expiry_s=settings.order_expiry_s,
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
    """Bring the schema up to date. Raises: SchemaRefused, StoreUnavailable."""
    async with AsyncExitStack() as stack:
        line = SharedLine(settings.database_url, "migrate")
        stack.push_async_callback(line.close)
        async with line.connection(timeout_s=600.0) as connection:
            return await migrations.migrate(connection, settings.environment, settings.urls)


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


class ApiProcess:
    """What one API process holds open."""

    def __init__(self, settings: Settings) -> None:
        _require_simulated(settings)
        url = settings.database_url
        routing = lane_per_bucket if settings.bucket_lanes else one_lane
        self._settings = settings
        self._log = LineLog("request")
        self._line = SharedLine(url, "api-ready")
        self._merchants = PostgresMerchants(url, process="api")
        self._directory = PostgresDirectory(url, process="api")
        self._limits = PostgresRateLimits(url)
        self._store = PostgresPayments(url, routing=routing, process="api")
        self._wakeup = WakeupSender(url, process="api")
        self._wallet = SimulatedWallet(url, settle_delay_s=settings.settle_delay_s, process="api")
        self._payments = Payments(self._store, self._wallet, _rules(settings), wake_worker=self._wakeup.send)
        self._directory.on_change(self._limits.forget)
        self._recorder = Recorder(PostgresTraffic(url, process="api"), now_utc, self._directory.knows)

    def kernel(self) -> Kernel:
        """Build the kernel that serves this process."""
        settings = self._settings
        gate = Gate(
            settings.environment,
            self._directory,
            self._limits,
            AddressFailureLimit(settings.failure_limit),
            proofs=KeyProofs(self._merchants),
            uses=self._recorder,
        )
        return Kernel(
            gate,
            Endpoints(self._payments, settings.environment, settings.urls).by_path(),
            Documents(settings.environment, self._ping, self._list_keys).by_path(),
            lifespan=self,
            log=self._log,
            refusals=self._recorder,
            deadline_s=settings.request_deadline_s,
        )

    async def open(self) -> None:
        """Open everything, in the running loop."""
        self._log.start()
        self._directory.start()
        self._limits.start()
        self._store.start()
        self._recorder.start()

    async def close(self) -> None:
        """Close everything."""
        for part in (
            self._recorder,
            self._store,
            self._limits,
            self._directory,
            self._wakeup,
            self._wallet,
            self._merchants,
            self._line,
            self._log,
        ):
            await part.close()

    async def _ping(self) -> None:
        async with self._line.connection(timeout_s=1.0) as connection:
            try:
                await migrations.check(connection, self._settings.environment)
            except migrations.SchemaRefused as refused:
                raise StoreUnavailable(str(refused)) from None

    async def _list_keys(self) -> list[PublishedKey]:
        return await provider_keys.list_published(self._merchants, now_utc())


class WorkerProcess:
    """What one worker process holds open."""

    def __init__(self, settings: Settings) -> None:
        # Its HTTP client takes a quarter of a second to import; the other processes never need it.
        from payaccept.adapters.outbound import Outbound  # noqa: PLC0415

        _require_simulated(settings)
        url = settings.database_url
        routing = lane_per_bucket if settings.bucket_lanes else one_lane
        self._vault = open_vault(settings)
        self._merchants = PostgresMerchants(url, process="worker")
        self._directory = PostgresDirectory(url, process="worker")
        self._payments = PostgresPayments(url, routing=routing, create_lines=0, process="worker")
        self._deliveries = PostgresDeliveries(url, routing=routing)
        self._wallet = SimulatedWallet(url, settle_delay_s=settings.settle_delay_s, process="worker")
        self._outbound = Outbound(settings.urls, timeout_s=settings.webhook_timeout_s)
        self._log = LineLog("delivery attempt")
        self._threads = ThreadPoolExecutor(SIGNING_THREADS, thread_name_prefix="sign")
        self._signer: Signer | None = None
        self._signer_until = 0.0
        verbs = Payments(self._payments, self._wallet, _rules(settings), wake_worker=self._wake)
        self._worker = Worker(
            Progress(self._payments, self._wallet, verbs, self.webhook_url_of),
            Deliveries(
                self._deliveries,
                self._outbound.post,
                self._sign,
                schedule_s=settings.retry_schedule_s,
                timeout_s=settings.webhook_timeout_s,
                user_agent=f"payaccept/{__version__}",
                clock=now_utc,
                log=self._log.write,
            ),
            self._current_signer,
            concurrency=settings.webhook_concurrency,
            clock=now_utc,
        )
        self._listener = WakeupListener(url, self._wake)

    def _wake(self) -> None:
        self._worker.wake()

    def stop(self) -> None:
        """Take nothing new; `run` returns when what is under way is done."""
        self._worker.stop()

    async def run(self) -> None:
        """Work until stopped."""
        self._log.start()
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
                self._outbound,
                self._deliveries,
                self._payments,
                self._directory,
                self._wallet,
                self._merchants,
                self._log,
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

    async def _current_signer(self) -> Signer:
        now = asyncio.get_running_loop().time()
        if self._signer is None or now > self._signer_until:
            self._signer = await provider_keys.current_signer(self._merchants, self._vault, now_utc())
            self._signer_until = now + _SIGNER_KEPT_S
        return self._signer


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
        self.payments = Payments(self._payments, self.wallet, _rules(settings), wake_worker=self._wakeup.send)

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
        for part in (self._wakeup, self._payments, self.wallet, self.store, self._line):
            await part.close()


def api_kernel() -> Kernel:
    """Build the kernel of an API worker process from its environment: the factory the server calls."""
    return ApiProcess(from_environ()).kernel()
