"""Migrations: forward only, once, for one environment, and never on a database of a newer version."""

import asyncio
from datetime import UTC, datetime
from importlib import resources
from uuid import uuid4

import psycopg
import pytest

from deployment import fetch_all, run_sql, settings_for
from payaccept.adapters.postgres import migrations, statements
from payaccept.adapters.postgres.migrations import SchemaRefused
from payaccept.adapters.postgres.partitions import PostgresPartitions
from payaccept.domain.errors import StoreUnavailable
from payaccept.domain.merchant import Environment
from payaccept.wiring import Administration, ensure_provider_key, migrate


@pytest.fixture
def empty(empty_database, master_key_file):
    return settings_for(empty_database(), master_key_file)


@pytest.fixture
def migrated(fresh_database, master_key_file):
    return settings_for(fresh_database(), master_key_file)


async def administer(settings) -> None:
    async with Administration(settings):
        pass


def test_the_migrations_are_numbered_without_a_gap():
    steps = migrations.available()
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    assert all(step.sql.strip() for step in steps)


async def test_an_empty_database_is_migrated_and_a_second_time_changes_nothing(empty):
    applied = await migrate(empty)
    assert applied == migrations.available()
    before = fetch_all(empty.database_url, "SELECT * FROM schema_migrations")
    assert [row[0] for row in before] == [step.version for step in applied]
    assert await migrate(empty) == []
    assert fetch_all(empty.database_url, "SELECT * FROM schema_migrations") == before
    await administer(empty)


async def test_several_processes_migrate_at_once_and_each_step_is_done_once(empty):
    applied = await asyncio.gather(*(migrate(empty) for _ in range(5)))
    assert sorted(map(len, applied)) == [0, 0, 0, 0, len(migrations.available())]
    await asyncio.gather(*(ensure_provider_key(empty) for _ in range(5)))
    assert fetch_all(empty.database_url, "SELECT key_version FROM provider_keys") == [(1,)]


async def test_a_database_without_a_schema_is_refused_with_the_remedy(empty):
    with pytest.raises(SchemaRefused, match="run `payaccept migrate`"):
        await administer(empty)


async def test_a_database_of_a_newer_version_is_refused(migrated):
    run_sql(
        migrated.database_url,
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES (9999, 'future', now())",
    )
    for attempt in (migrate(migrated), administer(migrated)):
        with pytest.raises(SchemaRefused, match=r"9999.*upgrade payaccept"):
            await attempt


async def test_a_database_of_an_older_version_is_refused_until_it_is_migrated(migrated):
    run_sql(migrated.database_url, "UPDATE schema_migrations SET version = -version")
    with pytest.raises(SchemaRefused, match="run `payaccept migrate`"):
        await administer(migrated)


@pytest.mark.parametrize("environment", Environment)
async def test_a_database_serves_one_environment_for_good(empty_database, master_key_file, environment):
    settings = settings_for(empty_database(), master_key_file, environment=environment)
    await migrate(settings)
    other = settings_for(settings.database_url, master_key_file, environment=environment.other)
    for attempt in (migrate(other), administer(other)):
        with pytest.raises(
            SchemaRefused, match=f"serves the environment {environment}, not {environment.other}"
        ):
            await attempt
    await administer(settings)


@pytest.mark.parametrize("statement", ["DELETE FROM buckets WHERE bucket = 200", "DELETE FROM buckets"])
async def test_a_missing_bucket_is_refused_for_it_would_drop_payments_silently(migrated, statement):
    run_sql(migrated.database_url, statement)
    for attempt in (migrate(migrated), administer(migrated)):
        with pytest.raises(SchemaRefused, match="buckets"):
            await attempt


async def test_the_rule_for_urls_is_the_one_the_service_was_last_started_with(migrated, master_key_file):
    strict = settings_for(migrated.database_url, master_key_file, allow_http=False, allow_private=False)
    for started, taken in ((migrated, True), (strict, False), (migrated, True)):
        await migrate(started)
        for shell in (migrated, strict):
            async with Administration(shell) as administration:
                policy = administration.merchants._urls
                assert (policy.problem("http://127.0.0.1/") is None) is taken


async def test_a_failed_step_leaves_nothing_behind(empty, monkeypatch):
    broken = migrations.Migration(1, "broken", "CREATE TABLE half (x integer); SELECT 1/0;")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "available", lambda: [broken])
        with pytest.raises(Exception, match="division by zero"):
            await migrate(empty)
    assert fetch_all(empty.database_url, "SELECT to_regclass('half')") == [(None,)]
    assert await migrate(empty) == migrations.available()


async def test_what_the_first_version_stored_is_found_again_under_the_second(empty, monkeypatch):
    with monkeypatch.context() as patch:
        first = migrations.available()[0]
        patch.setattr(migrations, "available", lambda: [first])
        patch.setattr(PostgresPartitions, "maintain", lambda *_: asyncio.sleep(0))
        await migrate(empty)
    with psycopg.connect(empty.database_url) as connection:
        for number, state in enumerate(("DUE", "LEASED", "ACKNOWLEDGED", "DEAD")):
            event_id, payment_id, at = f"evt_{number}", f"pay_{number}", datetime.now(UTC)
            connection.execute(
                "INSERT INTO payments (bucket, payment_id, client_id, payment_request_id, operation, state, currency,"
                " amount_minor, request_body, event_id, created_at, expires_at, final_at) VALUES"
                " (7, %s, 'sandbox_a', %s, 'retailPay', 'SUCCESS', 'EUR', 1, '', %s, %s, %s, %s)",
                [payment_id, payment_id, event_id, at, at, at],
            )
            connection.execute(
                "INSERT INTO events (bucket, event_id, client_id, payment_id, event_type, body, created_at)"
                " VALUES (7, %s, 'sandbox_a', %s, 'payment.succeeded', %s, %s)",
                [event_id, payment_id, f"body {number}".encode(), at],
            )
            final, claim_id = state in {"ACKNOWLEDGED", "DEAD"}, uuid4() if state == "LEASED" else None
            connection.execute(
                "INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, attempts, next_at, claim_id,"
                " created_at, final_at) VALUES (7, %s, 'sandbox_a', 'u', 'l', %s, 2, %s, %s, %s, %s)",
                [event_id, state, None if final else at, claim_id, at, at if final else None],
            )
    assert await migrate(empty) == migrations.available()[1:]
    found = fetch_all(
        empty.database_url,
        "SELECT event_id, convert_from(body, 'UTF8'), state, attempts, claim_id, leased_until, sequence FROM events"
        " JOIN payloads USING (bucket, event_id) JOIN deliveries USING (bucket, event_id) ORDER BY event_id",
    )
    states = ["PENDING", "PENDING", "ACKNOWLEDGED", "DEAD"]
    assert found == [
        (f"evt_{number}", f"body {number}", state, 2, None, None, None) for number, state in enumerate(states)
    ]


async def test_a_database_that_is_away_is_told_so(tmp_path, master_key_file):
    away = settings_for(f"postgresql://x@/x?host={tmp_path}", master_key_file)
    for attempt in (migrate(away), administer(away)):
        with pytest.raises(StoreUnavailable):
            await attempt


def test_every_named_statement_says_why_or_is_plain():
    files = resources.files(migrations.__package__ or "") / "sql"
    for name in (file.name for file in files.iterdir() if not file.name.startswith("migrations_")):
        found = statements.load(name)
        assert found
        for statement in found.values():
            assert "SELECT *" not in statement


async def test_a_first_provider_key_is_made_once(migrated):
    before = fetch_all(migrated.database_url, "SELECT key_version, public_key_pem FROM provider_keys")
    assert [row[0] for row in before] == [1]
    await ensure_provider_key(migrated)
    assert fetch_all(migrated.database_url, "SELECT key_version, public_key_pem FROM provider_keys") == before
