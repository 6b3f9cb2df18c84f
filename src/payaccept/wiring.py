"""Joins operations with adapters, for the administrator's commands, and what all processes share."""

import logging
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Self

from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.drills import PostgresDrills
from payaccept.adapters.postgres.events import PostgresEvents
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.partitions import PostgresPartitions
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.reports import PostgresReports
from payaccept.adapters.postgres.wakeups import WakeupSender
from payaccept.adapters.vault import Vault, read_master_key
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.config import SettingInvalid, Settings
from payaccept.domain.merchant import Environment
from payaccept.operations import provider_keys
from payaccept.operations.drills import Drills, MerchantSource
from payaccept.operations.events import Events
from payaccept.operations.merchants import Merchants
from payaccept.operations.payments import Payments, Rules
from payaccept.operations.reports import Reports

_log = logging.getLogger(__name__)


def now_utc() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


def require_simulated(settings: Settings) -> None:
    """Raises: SettingInvalid outside the sandbox."""
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
        self._reports = PostgresReports(url, process="admin")
        self.reports = Reports(self._reports)

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
        for part in (
            self._wakeup,
            self._drill_lines,
            self._events,
            self._reports,
            self._payments,
            self.wallet,
            self.store,
            self._line,
        ):
            await part.close()
