"""The schema's own invariants: whatever a statement tries, these rows cannot be."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import (
    CheckViolation,
    ForeignKeyViolation,
    NotNullViolation,
    UniqueViolation,
)

from deployment import fetch_all

AT = "timestamptz '2026-03-01 12:00Z'"
SIGNATURE = "decode(repeat('00', 256), 'hex')"

PAYMENT = {
    "bucket": "7",
    "payment_id": "'pay_1'",
    "client_id": "'sandbox_1'",
    "payment_request_id": "'order-1'",
    "operation": "'createQROrder'",
    "state": "'PROCESSING'",
    "currency": "'EUR'",
    "amount_minor": "1999",
    "notify_url": "NULL",
    "external_store_id": "NULL",
    "extend_info": "NULL",
    "request_body": "'{}'",
    "answer": "'{}'",
    "failure_code": "NULL",
    "event_id": "NULL",
    "created_at": AT,
    "expires_at": AT,
    "due_at": AT,
    "final_at": "NULL",
    "request_time": "'2026-03-01T12:00:00Z'",
    "key_version": "1",
    "signature": SIGNATURE,
}
UNSIGNED = PAYMENT | {"request_time": "NULL", "key_version": "NULL", "signature": "NULL"}
FINAL = PAYMENT | {"state": "'SUCCESS'", "event_id": "'evt_1'", "final_at": AT, "due_at": "NULL"}
FAILED = FINAL | {"state": "'FAIL'", "failure_code": "'RISK_REJECT'"}
EVENT = {
    "bucket": "7",
    "event_id": "'evt_1'",
    "client_id": "'sandbox_1'",
    "payment_id": "'pay_1'",
    "event_type": "'payment.succeeded'",
    "created_at": AT,
    "sequence": "NULL",
}
TEST_EVENT = EVENT | {"event_id": "'evt_2'", "event_type": "'webhook.test'", "payment_id": "NULL"}
PAYLOAD = {"bucket": "7", "event_id": "'evt_1'", "body": "'{}'"}
COUNTER = {"client_id": "'sandbox_1'", "last_sequence": "1"}
DAY_TOTAL = {
    "client_id": "'sandbox_1'",
    "day": "date '2026-03-01'",
    "currency": "'EUR'",
    "operation": "'retailPay'",
    "outcome": "'SUCCESS'",
    "payments": "2",
    "amount_minor": "99999999999999999999",
}
DELIVERY = {
    "bucket": "7",
    "event_id": "'evt_1'",
    "client_id": "'sandbox_1'",
    "url": "'https://shop.example/'",
    "lane": "'lane'",
    "state": "'PENDING'",
    "attempts": "1",
    "attempts_before": "0",
    "next_at": AT,
    "claim_id": "NULL",
    "leased_until": "NULL",
    "created_at": AT,
    "final_at": "NULL",
}
CLAIM = "'6b1e7f0a-1f0e-4f0b-9a30-6f9a3c1f2d11'"
ATTEMPT = {
    "bucket": "7",
    "event_id": "'evt_1'",
    "attempt": "1",
    "client_id": "'sandbox_1'",
    "url": "'https://shop.example/'",
    "started_at": AT,
    "key_version": "1",
    "outcome": "'ACKNOWLEDGED'",
    "status": "200",
    "reason": "'HTTP 200'",
    "total_us": "1200",
    "answer": "''",
}
FAILING_LANE = {
    "lane": "'lane'",
    "client_id": "'sandbox_1'",
    "failures": "1",
    "failing_since": AT,
    "opened_at": "NULL",
    "last_reason": "'HTTP 500'",
    "updated_at": AT,
}
MERCHANT = {
    "client_id": "'sandbox_1'",
    "name": "'Shop'",
    "state": "'ACTIVE'",
    "base_bucket": "7",
    "spread": "1",
    "duplicates": "'strict'",
    "webhook_url": "NULL",
    "rate_limit": "NULL",
    "created_at": AT,
    "updated_at": AT,
    "directory_version": "1",
}
KEY = {
    "client_id": "'sandbox_1'",
    "key_version": "1",
    "state": "'ACTIVE'",
    "public_key_pem": "'pem'",
    "fingerprint": "'f'",
    "created_at": AT,
    "activated_at": AT,
    "retired_at": "NULL",
    "proof_nonce": "NULL",
}
PENDING_KEY = {"state": "'PENDING'", "activated_at": "NULL", "proof_nonce": "'n'"}
KEY_USE = {
    "client_id": "'sandbox_1'",
    "key_version": "1",
    "uses": "1",
    "first_used_at": AT,
    "last_used_at": AT,
}
KEY_MINUTE = {
    "client_id": "'sandbox_1'",
    "minute": AT,
    "key_version": "1",
    "uses": "1",
    "least_skew_ms": "-2",
    "greatest_skew_ms": "3",
}
REFUSAL_MINUTE = {
    "client_id": "'sandbox_1'",
    "minute": AT,
    "result_code": "'PARAM_ILLEGAL'",
    "refused": "2",
    "only_counted": "1",
}
REFUSED_REQUEST = {
    "client_id": "'sandbox_1'",
    "request_id": "'req_1'",
    "received_at": AT,
    "method": "'POST'",
    "target": "'/v1/payments/createQROrder'",
    "status": "400",
    "result_code": "'PARAM_ILLEGAL'",
    "message": "'x'",
    "skew_ms": "NULL",
    "address": "'192.0.2.1'",
    "host": "''",
    "user_agent": "''",
    "content_type": "''",
    "request_time": "''",
    "signature_header": "''",
    "body": "''",
    "body_bytes": "0",
    "body_is_whole": "true",
}
DRILL = {
    "drill_id": "'drl_1'",
    "client_id": "'sandbox_1'",
    "url": "'https://shop.example/'",
    "asked_by": "'anna@shop.example'",
    "created_at": AT,
    "claim_id": "NULL",
    "leased_until": "NULL",
    "ended_at": "NULL",
}
DRILL_STEP = {
    "drill_id": "'drl_1'",
    "number": "1",
    "exercise": "'correct'",
    "event_id": "'evt_1'",
    "sequence": "1",
    "attempt": "1",
    "body": "'{}'",
    "headers": "NULL",
    "sent_at": "NULL",
    "answered_at": "NULL",
    "status": "NULL",
    "refusal": "NULL",
    "unreachable": "NULL",
    "total_us": "NULL",
    "answer_bytes": "NULL",
}
SENT = {"headers": "'A: b'", "sent_at": AT}
ANSWERED = SENT | {"answered_at": AT, "status": "200", "total_us": "1", "answer_bytes": "0"}
PROVIDER_KEY = {
    "key_version": "99",
    "public_key_pem": "'pem'",
    "sealed_private_key": "''",
    "created_at": AT,
    "activates_at": AT,
    "withdraws_at": "NULL",
}
HEALTH_MINUTE = {"minute": AT, "figure": "'requests'", "label": "'SUCCESS'", "amount": "0"}
PROCESS = {
    "process_id": "'prc_1'",
    "kind": "'worker'",
    "host": "'a.example'",
    "pid": "17",
    "version": "'0.1.0'",
    "started_at": AT,
    "seen_at": AT,
    "cpu_permille": "0",
    "memory_bytes": "0",
}
TABLES = {
    "payments": PAYMENT,
    "events": EVENT,
    "deliveries": DELIVERY,
    "payloads": PAYLOAD,
    "event_counters": COUNTER,
    "day_totals": DAY_TOTAL,
    "attempts": ATTEMPT,
    "failing_lanes": FAILING_LANE,
    "merchants": MERCHANT,
    "merchant_keys": KEY,
    "key_uses": KEY_USE,
    "key_minutes": KEY_MINUTE,
    "refusal_minutes": REFUSAL_MINUTE,
    "refused_requests": REFUSED_REQUEST,
    "drills": DRILL,
    "drill_steps": DRILL_STEP,
    "provider_keys": PROVIDER_KEY,
    "health_minutes": HEALTH_MINUTE,
    "processes": PROCESS,
}
# What has to be there before a row of a table can be.
BEFORE = {
    "events": ["payments"],
    "deliveries": ["payments", "events"],
    "merchant_keys": ["merchants"],
    "drills": ["merchants"],
    "drill_steps": ["merchants", "drills"],
}


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A transaction that is taken back."""
    with psycopg.connect(database_url) as opened:
        yield opened
        opened.rollback()


def insert(connection: psycopg.Connection, table: str, **changes: str) -> None:
    row = TABLES[table] | changes
    names, values = ", ".join(row), ", ".join(row.values())
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values})".encode())  # noqa: S608


def prepare(connection: psycopg.Connection, table: str) -> None:
    for other in BEFORE.get(table, []):
        insert(connection, other)


@pytest.mark.parametrize("table", TABLES)
def test_a_usual_row_is_taken(connection, table):
    prepare(connection, table)
    insert(connection, table)


REFUSED = [
    # constraint, table, changes
    ("payments_bucket_check", "payments", {"bucket": "-1"}),
    ("payments_bucket_check", "payments", {"bucket": "256"}),
    ("payments_operation_check", "payments", {"operation": "'refund'"}),
    ("payments_state_check", "payments", {"state": "'PAID'"}),
    ("payments_currency_check", "payments", {"currency": "'eur'"}),
    ("payments_currency_check", "payments", {"currency": "'EURO'"}),
    ("payments_amount_minor_check", "payments", {"amount_minor": "0"}),
    ("payments_amount_minor_check", "payments", {"amount_minor": "1000000000000"}),
    ("payments_failure_code_check", "payments", {"failure_code": "'RISK_REJECT'"}),
    ("payments_failure_code_check", "payments", FAILED | {"failure_code": "NULL"}),
    ("payments_failure_code_check", "payments", FINAL | {"failure_code": "'RISK_REJECT'"}),
    ("payments_event_id_check", "payments", {"event_id": "'evt_1'"}),
    ("payments_event_id_check", "payments", FINAL | {"event_id": "NULL"}),
    ("payments_final_at_check", "payments", {"final_at": AT}),
    ("payments_final_at_check", "payments", FINAL | {"final_at": "NULL"}),
    ("payments_due_at_check", "payments", {"due_at": "NULL"}),
    ("payments_due_at_check", "payments", FINAL | {"due_at": AT}),
    ("events_event_type_check", "events", {"event_type": "'payment.refunded'"}),
    ("events_payment_id_check", "events", {"payment_id": "NULL"}),
    ("events_payment_id_check", "events", {"event_type": "'webhook.test'"}),
    ("events_sequence_check", "events", {"sequence": "0"}),
    ("event_counters_last_sequence_check", "event_counters", {"last_sequence": "-1"}),
    ("day_totals_payments_check", "day_totals", {"payments": "0"}),
    ("day_totals_amount_minor_check", "day_totals", {"amount_minor": "1"}),
    ("events_payment_id_fkey", "events", {"payment_id": "'pay_2'"}),
    ("events_payment_id_fkey", "events", {"bucket": "8"}),
    ("deliveries_event_id_fkey", "deliveries", {"event_id": "'evt_2'"}),
    ("deliveries_event_id_fkey", "deliveries", {"bucket": "8"}),
    ("deliveries_state_check", "deliveries", {"state": "'SENT'", "next_at": "NULL"}),
    ("deliveries_next_at_check", "deliveries", {"next_at": "NULL"}),
    ("deliveries_next_at_check", "deliveries", {"state": "'DEAD'", "final_at": AT}),
    ("deliveries_state_check", "deliveries", {"state": "'LEASED'", "next_at": "NULL"}),
    ("deliveries_leased_until_check", "deliveries", {"claim_id": CLAIM}),
    ("deliveries_leased_until_check", "deliveries", {"leased_until": AT}),
    (
        "deliveries_claim_id_check",
        "deliveries",
        {"claim_id": CLAIM, "leased_until": AT, "state": "'DEAD'", "next_at": "NULL", "final_at": AT},
    ),
    ("deliveries_attempts_before_check", "deliveries", {"attempts_before": "2"}),
    ("deliveries_attempts_before_check", "deliveries", {"attempts_before": "-1"}),
    ("attempts_attempt_check", "attempts", {"attempt": "0"}),
    ("attempts_outcome_check", "attempts", {"outcome": "'LOST'"}),
    ("attempts_status_check", "attempts", {"status": "NULL"}),
    ("attempts_status_check", "attempts", {"outcome": "'UNREACHABLE'"}),
    ("attempts_answer_check", "attempts", {"answer": "repeat('x', 4097)::bytea"}),
    ("failing_lanes_failures_check", "failing_lanes", {"failures": "0"}),
    ("deliveries_final_at_check", "deliveries", {"final_at": AT}),
    ("deliveries_final_at_check", "deliveries", {"state": "'ACKNOWLEDGED'", "next_at": "NULL"}),
    ("merchants_name_check", "merchants", {"name": "''"}),
    ("merchants_name_check", "merchants", {"name": f"'{'n' * 129}'"}),
    ("merchants_state_check", "merchants", {"state": "'GONE'"}),
    ("merchants_base_bucket_check", "merchants", {"base_bucket": "256"}),
    ("merchants_spread_check", "merchants", {"spread": "3"}),
    ("merchants_duplicates_check", "merchants", {"duplicates": "'maybe'"}),
    ("merchants_rate_limit_check", "merchants", {"rate_limit": "0"}),
    ("merchant_keys_client_id_fkey", "merchant_keys", {"client_id": "'sandbox_2'"}),
    ("merchant_keys_key_version_check", "merchant_keys", {"key_version": "0"}),
    ("merchant_keys_state_check", "merchant_keys", {"state": "'LOST'"}),
    ("merchant_keys_retired_at_check", "merchant_keys", {"state": "'RETIRED'"}),
    ("merchant_keys_retired_at_check", "merchant_keys", {"retired_at": AT}),
    ("merchant_keys_activated_at_check", "merchant_keys", {"activated_at": "NULL"}),
    ("merchant_keys_activated_at_check", "merchant_keys", PENDING_KEY | {"activated_at": AT}),
    ("merchant_keys_proof_nonce_check", "merchant_keys", {"proof_nonce": "'n'"}),
    ("merchant_keys_proof_nonce_check", "merchant_keys", PENDING_KEY | {"proof_nonce": "NULL"}),
    ("payments_signature_check", "payments", {"signature": "'short'"}),
    ("payments_signature_check", "payments", {"signature": "NULL"}),
    ("payments_signature_check", "payments", {"request_time": "NULL"}),
    ("payments_signature_check", "payments", UNSIGNED | {"key_version": "1"}),
    ("key_uses_uses_check", "key_uses", {"uses": "0"}),
    ("key_minutes_uses_check", "key_minutes", {"uses": "0"}),
    ("key_minutes_skew_check", "key_minutes", {"least_skew_ms": "4"}),
    ("refusal_minutes_refused_check", "refusal_minutes", {"refused": "0", "only_counted": "0"}),
    ("refusal_minutes_only_counted_check", "refusal_minutes", {"only_counted": "3"}),
    ("refused_requests_status_check", "refused_requests", {"status": "200"}),
    ("refused_requests_body_check", "refused_requests", {"body": "decode(repeat('00', 8193), 'hex')"}),
    ("drills_client_id_fkey", "drills", {"client_id": "'sandbox_2'"}),
    ("drills_leased_until_check", "drills", {"claim_id": CLAIM}),
    ("drills_leased_until_check", "drills", {"leased_until": AT}),
    ("drills_ended_at_check", "drills", {"claim_id": CLAIM, "leased_until": AT, "ended_at": AT}),
    ("drill_steps_drill_id_fkey", "drill_steps", {"drill_id": "'drl_2'"}),
    ("drill_steps_number_check", "drill_steps", {"number": "0"}),
    ("drill_steps_exercise_check", "drill_steps", {"exercise": "'late'"}),
    ("drill_steps_sent_at_check", "drill_steps", {"sent_at": AT}),
    ("drill_steps_sent_at_check", "drill_steps", {"headers": "''"}),
    ("drill_steps_answered_at_check", "drill_steps", ANSWERED | {"headers": "NULL", "sent_at": "NULL"}),
    ("drill_steps_status_check", "drill_steps", SENT | {"status": "200"}),
    ("drill_steps_status_check", "drill_steps", ANSWERED | {"status": "NULL"}),
    ("drill_steps_status_check", "drill_steps", ANSWERED | {"unreachable": "'no answer'"}),
    ("drill_steps_total_us_check", "drill_steps", ANSWERED | {"total_us": "NULL"}),
    ("drill_steps_total_us_check", "drill_steps", {"answer_bytes": "0"}),
    (
        "drill_steps_refusal_check",
        "drill_steps",
        ANSWERED | {"status": "NULL", "unreachable": "'no answer'", "refusal": "'no'"},
    ),
    ("provider_keys_key_version_check", "provider_keys", {"key_version": "0"}),
    ("provider_keys_activates_at_check", "provider_keys", {"activates_at": AT + " - interval '1 s'"}),
    ("provider_keys_withdraws_at_check", "provider_keys", {"withdraws_at": AT + " - interval '1 s'"}),
    ("health_minutes_amount_check", "health_minutes", {"amount": "-1"}),
    ("processes_kind_check", "processes", {"kind": "'proxy'"}),
    ("processes_seen_at_check", "processes", {"seen_at": AT + " - interval '1 s'"}),
    ("processes_cpu_permille_check", "processes", {"cpu_permille": "-1"}),
    ("processes_memory_bytes_check", "processes", {"memory_bytes": "-1"}),
]


@pytest.mark.parametrize(("constraint", "table", "changes"), REFUSED)
def test_a_row_against_an_invariant_is_refused_by_its_name(connection, constraint, table, changes):
    prepare(connection, table)
    with pytest.raises((CheckViolation, ForeignKeyViolation)) as caught:
        insert(connection, table, **changes)
    named = caught.value.diag.constraint_name
    # A state that is none breaks every rule about states; PostgreSQL names the first by its name.
    assert named == constraint or (constraint.endswith("_state_check") and named.startswith(table))


UNIQUE = [
    ("payments_pkey", "payments", {"payment_request_id": "'order-2'"}),
    ("payments_payment_request_id_key", "payments", {"payment_id": "'pay_2'"}),
    ("events_pkey", "events", {"payment_id": "'pay_2'"}),
    ("events_payment_id_key", "events", {"event_id": "'evt_2'"}),
    ("events_sequence_key", "events", TEST_EVENT | {"sequence": "5"}),
    ("deliveries_pkey", "deliveries", {}),
    ("event_counters_pkey", "event_counters", {"last_sequence": "2"}),
    ("failing_lanes_pkey", "failing_lanes", {"failures": "2"}),
    ("merchants_pkey", "merchants", {"name": "'Other'"}),
    ("merchant_keys_pkey", "merchant_keys", {"fingerprint": "'g'"}),
    ("merchant_keys_fingerprint_proven", "merchant_keys", {"key_version": "2"}),
    ("key_uses_pkey", "key_uses", {}),
    ("key_minutes_pkey", "key_minutes", {}),
    ("refusal_minutes_pkey", "refusal_minutes", {}),
    ("refused_requests_pkey", "refused_requests", {}),
    ("drills_pkey", "drills", {"client_id": "'sandbox_2'"}),
    ("drills_running", "drills", {"drill_id": "'drl_2'"}),
    ("drill_steps_pkey", "drill_steps", {"exercise": "'old'"}),
    ("provider_keys_pkey", "provider_keys", {"public_key_pem": "'other'"}),
    ("health_minutes_pkey", "health_minutes", {"amount": "1"}),
    ("processes_pkey", "processes", {"pid": "18"}),
]


@pytest.mark.parametrize(("constraint", "table", "changes"), UNIQUE)
def test_what_is_unique_is_there_once(connection, constraint, table, changes):
    prepare(connection, table)
    insert(connection, table, **{"sequence": "5"} if constraint == "events_sequence_key" else {})
    if constraint == "events_pkey":
        insert(connection, "payments", payment_id="'pay_2'", payment_request_id="'order-2'")
    with pytest.raises(UniqueViolation) as caught:
        insert(connection, table, **changes)
    assert caught.value.diag.constraint_name == constraint


def test_one_fingerprint_belongs_to_one_merchant_even_when_it_is_retired(connection):
    prepare(connection, "merchant_keys")
    insert(connection, "merchant_keys", state="'RETIRED'", retired_at=AT)
    insert(connection, "merchants", client_id="'sandbox_2'")
    with pytest.raises(UniqueViolation):
        insert(connection, "merchant_keys", client_id="'sandbox_2'")


def test_a_key_is_claimed_by_its_proof_and_not_by_uploading_it(connection):
    prepare(connection, "merchant_keys")
    insert(connection, "merchants", client_id="'sandbox_2'")
    insert(connection, "merchant_keys", **PENDING_KEY)
    insert(connection, "merchant_keys", client_id="'sandbox_2'", **PENDING_KEY)
    with pytest.raises(UniqueViolation) as caught, connection.transaction():
        insert(connection, "merchant_keys", key_version="2", **PENDING_KEY)
    assert caught.value.diag.constraint_name == "merchant_keys_fingerprint_pending"
    insert(connection, "merchant_keys", key_version="2")


@pytest.mark.parametrize("table", TABLES)
def test_what_is_needed_cannot_be_left_out(connection, table):
    optional = {
        "payments": {"notify_url", "external_store_id", "extend_info", "answer", "failure_code", "event_id"}
        | {"due_at", "final_at", "request_time", "key_version", "signature"},
        "events": {"payment_id", "sequence"},
        "deliveries": {"next_at", "claim_id", "leased_until", "final_at"},
        "attempts": {"status"},
        "failing_lanes": {"opened_at"},
        "merchants": {"webhook_url", "rate_limit"},
        "merchant_keys": {"activated_at", "retired_at", "proof_nonce"},
        "provider_keys": {"withdraws_at"},
        "refused_requests": {"skew_ms"},
        "drills": {"claim_id", "leased_until", "ended_at"},
        "drill_steps": {"headers", "sent_at", "answered_at", "status", "refusal", "unreachable"}
        | {"total_us", "answer_bytes"},
    }
    prepare(connection, table)
    for name in TABLES[table].keys() - optional.get(table, set()):
        with pytest.raises(NotNullViolation), connection.transaction():
            insert(connection, table, **{name: "NULL"})


@pytest.mark.parametrize("table", ["deployment", "directory"])
def test_there_is_one_row_of_what_is_one(connection, table):
    rows = connection.execute(f"SELECT singleton FROM {table}".encode()).fetchall()  # noqa: S608
    assert rows == [(True,)]
    columns = {"deployment": "environment, allow_http, allow_private, created_at", "directory": "version"}[
        table
    ]
    values = {"deployment": f"'sandbox', false, false, {AT}", "directory": "1"}[table]
    for singleton, error in (("true", UniqueViolation), ("false", CheckViolation)):
        with pytest.raises(error), connection.transaction():
            connection.execute(
                f"INSERT INTO {table} (singleton, {columns}) VALUES ({singleton}, {values})".encode()  # noqa: S608
            )


def test_there_are_exactly_256_buckets(connection):
    assert connection.execute("SELECT count(*), min(bucket), max(bucket) FROM buckets").fetchone() == (
        256,
        0,
        255,
    )
    for bucket, error in (("256", CheckViolation), ("-1", CheckViolation), ("0", UniqueViolation)):
        with pytest.raises(error), connection.transaction():
            connection.execute(f"INSERT INTO buckets VALUES ({bucket})".encode())  # noqa: S608


# The rules that keep the schema fit for being sharded by bucket


def test_every_constraint_has_a_name_we_gave_it(database_url):
    rows = fetch_all(
        database_url,
        "SELECT conname, relname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid"
        " WHERE connamespace = 'public'::regnamespace AND contype <> 'n' AND NOT relispartition",
    )
    assert rows
    assert all(name.startswith(f"{table}_") for name, table in rows)


@pytest.mark.parametrize("table", ["payments", "events", "deliveries", "payloads", "attempts"])
def test_the_bucket_is_part_of_every_key(database_url, table):
    rows = fetch_all(
        database_url,
        "SELECT c.conname, array_agg(a.attname::text) FROM pg_constraint AS c"
        " JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)"
        " WHERE c.conrelid = %s::regclass AND c.contype IN ('p', 'u', 'f') GROUP BY 1",
        table,
    )
    assert rows
    assert all("bucket" in columns for _, columns in rows)


def test_there_are_no_triggers_no_generated_columns_and_no_sequences(database_url):
    assert fetch_all(database_url, "SELECT FROM pg_trigger WHERE NOT tgisinternal") == []
    assert (
        fetch_all(database_url, "SELECT FROM information_schema.columns WHERE is_generated = 'ALWAYS'") == []
    )
    assert fetch_all(database_url, "SELECT FROM information_schema.sequences") == []


def test_payments_refer_to_no_merchant(database_url):
    rows = fetch_all(
        database_url,
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'",
    )
    of_payments = [row for row in rows if row[0] in {"payments", "events", "deliveries"}]
    assert sorted(of_payments) == [("deliveries", "events"), ("events", "payments")]
