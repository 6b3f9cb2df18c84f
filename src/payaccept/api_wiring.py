"""Joins the API process's operations with their adapters, as `wiring` does for the worker."""

import os
from pathlib import Path

from payaccept import logs
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.directory import PostgresDirectory
from payaccept.adapters.postgres.group_commit import lane_per_bucket, one_lane
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.rate_limits import PostgresRateLimits
from payaccept.adapters.postgres.traffic import PostgresTraffic
from payaccept.adapters.postgres.wakeups import WakeupSender
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.api.documents import Documents
from payaccept.api.endpoints import Endpoints
from payaccept.api.failure_limit import AddressFailureLimit
from payaccept.api.gate import Gate
from payaccept.api.kernel import Kernel
from payaccept.config import Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.figures.processes import ApiFigures
from payaccept.operations import provider_keys
from payaccept.operations.key_proofs import KeyProofs
from payaccept.operations.payments import Payments
from payaccept.operations.provider_keys import PublishedKey
from payaccept.operations.recorder import Recorder
from payaccept.wiring import now_utc, require_simulated, rules_of


class ApiProcess:
    """What one API process holds open. `figures_dir` is where it counts for others to sum; None: for itself."""

    def __init__(self, settings: Settings, figures_dir: Path | None = None) -> None:
        require_simulated(settings)
        url = settings.database_url
        routing = lane_per_bucket if settings.bucket_lanes else one_lane
        self._settings = settings
        self._line = SharedLine(url, "api-ready")
        self._merchants = PostgresMerchants(url, process="api")
        self._directory = PostgresDirectory(url, process="api")
        self._limits = PostgresRateLimits(url)
        self._store = PostgresPayments(url, routing=routing, process="api")
        self._wakeup = WakeupSender(url, process="api")
        self._wallet = SimulatedWallet(url, settle_delay_s=settings.settle_delay_s, process="api")
        self._documents = Documents(
            settings.environment, self._ping, self._list_keys, settings.provider_keys_max_age_s
        ).by_path()
        self._figures = ApiFigures(self._documents, figures_dir)
        self._payments = Payments(
            self._store,
            self._wallet,
            rules_of(settings),
            wake_worker=self._wakeup.send,
            on_settled=self._figures.payments.settled,
        )
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
            self._documents,
            lifespan=self,
            log=self._figures.requests,
            refusals=self._recorder,
            deadline_s=settings.request_deadline_s,
        )

    async def open(self) -> None:
        """Open everything, in the running loop."""
        self._figures.start()
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
            self._figures,
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


def api_kernel() -> Kernel:
    """Build the kernel of an API worker process from its environment: the factory the server calls."""
    logs.configure("api")  # also where a process is not forked from one that has done so
    directory = os.environ.get("PAYACCEPT_METRICS_DIR")
    return ApiProcess(from_environ(), Path(directory) if directory else None).kernel()
