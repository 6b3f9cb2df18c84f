"""A deployment in this process, on the session's PostgreSQL: what the fixtures are made of."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
import psycopg

from merchant import Merchant, compact, private_key, public_pem, request_of
from payaccept.adapters.postgres.group_commit import Routing, one_lane
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.traffic import PostgresTraffic
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.api.kernel import Kernel
from payaccept.api_wiring import ApiProcess
from payaccept.config import Settings
from payaccept.domain.merchant import DuplicatePolicy, Environment, MerchantState, new_client_id
from payaccept.domain.merchant import Merchant as DomainMerchant
from payaccept.domain.payment import SignedBody
from payaccept.operations.merchants import Changes
from payaccept.operations.payments import Payments, Rules
from payaccept.operations.progress import Progress
from payaccept.operations.recorder import Recorder
from payaccept.wire import fields, strict_json
from payaccept.wire.messages import REQUESTS, InquiryPaymentRequest
from payaccept.wiring import Administration, WorkerProcess

Register = Callable[..., Awaitable[Merchant]]

numbers = itertools.count(1)


def settings_for(database_url: str, master_key_file: Path, **changes: Any) -> Settings:
    """A local sandbox's settings, with time compressed."""
    values: dict[str, Any] = {
        "database_url": database_url,
        "allow_http": True,
        "allow_private": True,
        "settle_delay_s": 0.1,
        "retry_schedule_s": (0.1, 0.2, 0.3),
        "webhook_timeout_s": 2.0,
        "failure_limit": None,
        "provider_key_lead_s": 1.0,
        "master_key_file": master_key_file,
    }
    return Settings(**values | changes)


def run_sql(database_url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def fetch_all(database_url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of one query."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(query.encode(), values or None).fetchall()


@asynccontextmanager
async def opened_kernel(settings: Settings) -> AsyncIterator[Kernel]:
    """An API process in this process: its kernel, open while the block lasts."""
    process = ApiProcess(settings)
    kernel = process.kernel()
    await process.open()
    try:
        yield kernel
    finally:
        await process.close()


def client_of(kernel: Kernel) -> httpx.AsyncClient:
    """An HTTP client that speaks to a kernel without a socket."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=kernel, client=("192.0.2.1", 4711)),
        base_url="http://api.test",
        timeout=30,
    )


def register_with(administration: Administration) -> Register:
    """Return a function that makes a merchant with one key; without a rate limit unless one is given."""

    async def register(name: str = "Shop", *, keys: int = 1, **changes: Any) -> Merchant:
        now = datetime.now(UTC)
        made = await administration.merchants.create(name, now)
        await administration.merchants.change(made.client_id, Changes(**{"rate_limit": None} | changes), now)
        merchant = Merchant(made.client_id)
        for _ in range(keys):
            await add_key(administration, merchant)
        return merchant

    return register


async def add_key(administration: Administration, merchant: Merchant) -> int:
    """Register one more key of a merchant's, which it signs with from now on."""
    key = private_key(next(numbers))
    stored = await administration.merchants.add_key(merchant.client_id, public_pem(key), datetime.now(UTC))
    merchant.use_key(stored.key_version, key)
    return stored.key_version


@asynccontextmanager
async def running_worker(settings: Settings) -> AsyncIterator[WorkerProcess]:
    """A worker process in this process, at work while the block lasts."""
    process = WorkerProcess(settings)
    running = asyncio.create_task(process.run())
    try:
        yield process
    finally:
        process.stop()
        await running


class Parts:
    """The verbs of payments over the real store and wallet, driven by hand with a clock passed in."""

    def __init__(
        self,
        settings: Settings,
        routing: Routing = one_lane,
        wallet_type: type[SimulatedWallet] = SimulatedWallet,
    ) -> None:
        url = settings.database_url
        self.store = PostgresPayments(url, routing=routing, process="test")
        self.wallet = wallet_type(url, settle_delay_s=settings.settle_delay_s, process="test")
        rules = Rules(
            environment=settings.environment,
            web_base_url=settings.web_base_url,
            order_expiry_s=settings.order_expiry_s,
        )
        self.payments = Payments(self.store, self.wallet, rules, wake_worker=lambda _lane=None: None)
        self.progress = Progress(self.store, self.wallet, self.payments, self.webhook_url_of)
        self.webhook_url: str | None = None

    async def webhook_url_of(self, _client_id: str) -> str | None:
        """The one endpoint of every merchant here."""
        return self.webhook_url

    async def __aenter__(self) -> Self:
        self.store.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()
        await self.wallet.close()

    async def look(self, now: datetime) -> list[str]:
        """What a worker does at `now`: returns the payments that were due."""
        due = await self.progress.claim(now)
        again = [(payment, await self.progress.advance(payment, now)) for payment in due]
        await self.progress.reschedule([(payment, at) for payment, at in again if at is not None])
        return [payment.payment_id for payment in due]

    async def create(self, merchant: DomainMerchant, operation: str, now: datetime, **changes: Any) -> bytes:
        """Do one of the creating verbs with a usual request."""
        body = compact(request_of(operation, **changes))
        request = fields.read(strict_json.load_object(body), REQUESTS[operation])
        verbs: dict[str, Any] = {
            "createQROrder": self.payments.create_qr_order,
            "retailPay": self.payments.pay_retail,
            "linkPayCreate": self.payments.create_link,
        }
        return bytes(await verbs[operation](merchant, request, signed_body(body), now))

    async def inquire(self, merchant: DomainMerchant, **ids: str) -> dict[str, Any]:
        """Ask how a payment stands."""
        request = fields.read(ids, InquiryPaymentRequest)
        return dict(msgspec.json.decode(await self.payments.inquire(merchant, request)))


def recorder_of(
    database_url: str,
    knows: Callable[[str], bool] = lambda _: False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Recorder:
    """A recorder on a database; it opens no connection before it has something to write."""
    return Recorder(PostgresTraffic(database_url, process="test"), clock, knows)


def signed_body(body: bytes) -> SignedBody:
    """A body as it comes from the gate; nobody verifies it after that."""
    return SignedBody(body, "2026-03-01T12:00:00Z", 1, bytes(256))


def merchant_made(now: datetime, **changes: Any) -> DomainMerchant:
    """A merchant as the verbs see it; payments have no foreign key to it."""
    values: dict[str, Any] = {
        "client_id": new_client_id(Environment.SANDBOX),
        "name": "Shop",
        "state": MerchantState.ACTIVE,
        "base_bucket": 7,
        "spread": 1,
        "duplicates": DuplicatePolicy.STRICT,
        "webhook_url": None,
        "rate_limit": None,
        "created_at": now,
        "updated_at": now,
    }
    return DomainMerchant(**values | changes)


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """The moment so long after NOW."""
    return NOW + timedelta(seconds=seconds)


def payment_id_of(answer: bytes) -> str:
    """What an answer calls the payment."""
    value = json.loads(answer)
    return value.get("paymentId") or value["acquirementId"]
