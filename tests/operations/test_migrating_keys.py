"""What was there before keys could be pending goes on as it was."""

import psycopg
import pytest

from deployment import fetch_all, settings_for
from payaccept.adapters.postgres import migrations
from payaccept.wiring import Administration, migrate

AT = "timestamptz '2026-03-01 12:00Z'"
ROWS = """
INSERT INTO merchants VALUES ('sandbox_1', 'Shop', 'ACTIVE', 7, 1, 'strict', NULL, NULL, @, @, 1);
INSERT INTO merchant_keys VALUES ('sandbox_1', 1, 'RETIRED', 'pem', 'f', @, @);
INSERT INTO merchant_keys VALUES ('sandbox_1', 2, 'ACTIVE', 'pem', 'g', @, NULL);
INSERT INTO payments (
    bucket, payment_id, client_id, payment_request_id, operation, state, currency, amount_minor, request_body,
    created_at, expires_at, due_at
) VALUES (7, 'pay_1', 'sandbox_1', 'order-1', 'createQROrder', 'PROCESSING', 'EUR', 1, '{}', @, @, @);
""".replace("@", AT)


@pytest.fixture
def older(empty_database, master_key_file):
    """A database as it was before, with a merchant, two keys and a payment."""
    settings = settings_for(empty_database(), master_key_file)
    steps = [step for step in migrations.available() if step.version < 4]
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE schema_migrations (version integer CONSTRAINT schema_migrations_pkey PRIMARY KEY,"
            " name text NOT NULL, applied_at timestamptz NOT NULL)"
        )
        for step in steps:
            connection.execute(step.sql.encode(), prepare=False)
            connection.execute(
                "INSERT INTO schema_migrations VALUES (%s, %s, now())", [step.version, step.name]
            )
        connection.execute(ROWS.encode(), prepare=False)
    return settings


async def test_keys_stay_what_they_were_and_payments_have_no_signature(older):
    assert min(step.version for step in await migrate(older)) == 4
    rows = fetch_all(
        older.database_url,
        "SELECT key_version, state, activated_at = created_at, proof_nonce FROM merchant_keys ORDER BY 1",
    )
    assert rows == [(1, "RETIRED", True, None), (2, "ACTIVE", True, None)]
    rows = fetch_all(older.database_url, "SELECT request_time, key_version, signature FROM payments")
    assert rows == [(None, None, None)]
    async with Administration(older) as administration:
        assert [key.key_version for key in await administration.merchants.list_keys("sandbox_1")] == [1, 2]
