"""What production answers differently: onboarding first, no scripts, no explanations, https only."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio
from msgspec import Struct

from deployment import client_of, recorder_of, register_with, settings_for
from merchant import CREATES, Merchant, request_of
from payaccept.adapters.postgres.directory import PostgresDirectory
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.rate_limits import PostgresRateLimits
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.api.endpoints import Endpoints
from payaccept.api.failure_limit import AddressFailureLimit
from payaccept.api.gate import Gate
from payaccept.api.kernel import Kernel
from payaccept.api_wiring import ApiProcess
from payaccept.config import SettingInvalid
from payaccept.domain.merchant import Environment, MerchantState
from payaccept.domain.urls import UrlPolicy
from payaccept.operations.key_proofs import KeyProofs
from payaccept.operations.payments import Payments, Rules
from payaccept.wiring import Administration, WorkerProcess, migrate


class Production(Struct):
    """A deployment of the production environment; its wallet stands in for the operators' ones."""

    administration: Administration
    api: httpx.AsyncClient
    merchant: Merchant


class NoLog:
    def write(self, **members: object) -> None:
        """Nothing is kept."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def production(empty_database, master_key_file) -> AsyncIterator[Production]:
    settings = settings_for(
        empty_database(),
        master_key_file,
        environment=Environment.PRODUCTION,
        allow_http=False,
        allow_private=False,
    )
    await migrate(settings)
    url = settings.database_url
    directory = PostgresDirectory(url, process="test")
    limits = PostgresRateLimits(url)
    store = PostgresPayments(url)
    wallet = SimulatedWallet(url, settle_delay_s=1, process="test")
    rules = Rules(environment=Environment.PRODUCTION, web_base_url="https://pay.example", order_expiry_s=900)
    endpoints = Endpoints(
        Payments(store, wallet, rules, wake_worker=lambda _lane=None: None),
        Environment.PRODUCTION,
        settings.urls,
    )
    merchants = PostgresMerchants(url, process="test")
    recorder = recorder_of(url, directory.knows)
    gate = Gate(
        Environment.PRODUCTION,
        directory,
        limits,
        AddressFailureLimit(None),
        proofs=KeyProofs(merchants),
        uses=recorder,
    )
    lifespan: Any = None
    kernel = Kernel(
        gate, endpoints.by_path(), {}, lifespan=lifespan, log=NoLog(), refusals=recorder, deadline_s=5
    )
    for part in (directory, limits, store):
        part.start()
    async with Administration(settings) as administration:
        merchant = await register_with(administration)()
        await administration.merchants.activate(merchant.client_id, datetime.now(UTC))
        yield Production(administration, client_of(kernel), merchant)
    for closing in (recorder, merchants, store, limits, directory, wallet):
        await closing.close()


async def test_a_new_merchant_waits_for_its_activation(production):
    merchant = await register_with(production.administration)()
    assert merchant.client_id.startswith("live_")
    stored = await production.administration.merchants.get(merchant.client_id)
    assert (stored.state, stored.rate_limit) == (MerchantState.PENDING, None)
    answer = await merchant.create(production.api, "createQROrder")
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (403, "ACCESS_DENIED")
    assert "activated" in answer.text


async def test_an_active_merchant_takes_payments(production):
    for operation in CREATES:
        answer = await production.merchant.create(production.api, operation)
        assert answer.status_code == 200, answer.text


async def test_credentials_of_the_sandbox_are_recognised_as_such(production):
    stranger = Merchant(production.merchant.client_id.replace("live_", "sandbox_"))
    stranger.use_key(1, production.merchant.key)
    answer = await stranger.create(production.api, "createQROrder")
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (403, "ACCESS_DENIED")
    assert "sandbox" in answer.text


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize(
    "extend_info",
    ['{"sandbox":{"outcome":"SUCCESS"}}', '{"sandbox":null}', '{"s\\u0061ndbox":{}}', '{"a":1,"sandbox":{}}'],
)
async def test_a_script_is_illegal(production, operation, extend_info):
    answer = await production.merchant.create(production.api, operation, extendInfo=extend_info)
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (400, "PARAM_ILLEGAL")
    assert "extendInfo sandbox is not for production" in answer.json()["result"]["resultMessage"]


@pytest.mark.parametrize(
    "extend_info",
    ["{}", '{"a":{"sandbox":1}}', '{"note":"\\"sandbox\\""}', '{"Sandbox":1}', '{"a":"\\u00e9"}'],
)
async def test_other_extended_information_is_not(production, extend_info):
    answer = await production.merchant.create(production.api, "createQROrder", extendInfo=extend_info)
    assert answer.status_code == 200, answer.text


async def test_a_wrong_signature_is_not_explained(production):
    body = json.dumps(request_of("createQROrder"), indent=1).encode()
    headers = production.merchant.headers("/v1/payments/createQROrder?x", body)
    answer = await production.api.post("/v1/payments/createQROrder", content=body, headers=headers)
    assert answer.json()["result"]["resultMessage"] == "the signature does not verify"


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example/",
        "https://127.0.0.1/",
        "https://10.1.2.3/",
        "https://localhost/",
        "https://[::1]/",
    ],
)
@pytest.mark.parametrize("field", ["paymentNotifyUrl", "paymentRedirectUrl"])
async def test_urls_lead_to_public_https_endpoints_only(production, field, url):
    answer = await production.merchant.create(production.api, "linkPayCreate", **{field: url})
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (400, "PARAM_ILLEGAL")
    assert field in answer.text
    answer = await production.merchant.create(
        production.api, "linkPayCreate", **{field: "https://shop.example/"}
    )
    assert answer.status_code == 200


def test_this_version_serves_no_production_with_a_simulated_wallet(master_key_file):
    settings = settings_for("postgresql://nowhere", master_key_file, environment=Environment.PRODUCTION)
    for process in (ApiProcess, WorkerProcess):
        with pytest.raises(SettingInvalid, match="sandbox only"):
            process(settings)
    assert settings.urls == UrlPolicy(allow_http=True, allow_private=True)
