"""The invariants of people's tables: whatever a statement tries, these rows cannot be."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import CheckViolation, ForeignKeyViolation, UniqueViolation

AT = "timestamptz '2026-03-01 12:00Z'"
HASH = "sha256('a')"

ROWS = {
    "merchants": {
        "client_id": "'sandbox_1'",
        "name": "'Shop'",
        "state": "'ACTIVE'",
        "base_bucket": "7",
        "spread": "1",
        "duplicates": "'strict'",
        "created_at": AT,
        "updated_at": AT,
        "directory_version": "1",
    },
    "users": {
        "user_id": "'usr_1'",
        "email": "'Anna@shop.example'",
        "email_key": "'anna@shop.example'",
        "name": "'Anna'",
        "staff": "false",
        "password_hash": "'h'",
        "password_changed_at": AT,
        "created_at": AT,
    },
    "memberships": {
        "client_id": "'sandbox_1'",
        "user_id": "'usr_1'",
        "role": "'owner'",
        "created_at": AT,
    },
    "sessions": {
        "session_id": "'ses_1'",
        "token_hash": HASH,
        "user_id": "'usr_1'",
        "address": "''",
        "user_agent": "''",
        "created_at": AT,
        "last_seen_at": AT,
    },
    "recovery_codes": {"user_id": "'usr_1'", "code_mac": "'m'", "created_at": AT},
    "one_time_links": {
        "link_id": "'lnk_1'",
        "token_hash": HASH,
        "purpose": "'member'",
        "email": "'b@shop.example'",
        "email_key": "'b@shop.example'",
        "client_id": "'sandbox_1'",
        "role": "'viewer'",
        "created_by": "'Anna'",
        "created_at": AT,
        "expires_at": AT + " + interval '1 day'",
    },
    "attempt_buckets": {"kind": "'pair'", "slot": "0", "level": "1.5", "updated_at": AT},
    "audit_log": {
        "entry_id": "'aud_1'",
        "at": AT,
        "actor": "'a'",
        "address": "''",
        "action": "'a.b'",
        "subject": "'s'",
    },
}
BEFORE = {
    "memberships": ["merchants", "users"],
    "sessions": ["users"],
    "recovery_codes": ["users"],
    "one_time_links": ["merchants"],
}
OWN = [name for name in ROWS if name != "merchants"]

REFUSED = [
    ("users_email_check", "users", {"email": "'a'"}),
    ("users_name_check", "users", {"name": "''"}),
    ("users_totp_last_step_check", "users", {"totp_secret": "'sealed'"}),
    ("users_totp_last_step_check", "users", {"totp_last_step": "5"}),
    ("memberships_role_check", "memberships", {"role": "'king'"}),
    ("memberships_user_id_fkey", "memberships", {"user_id": "'usr_2'"}),
    ("memberships_client_id_fkey", "memberships", {"client_id": "'sandbox_2'"}),
    ("sessions_user_id_fkey", "sessions", {"user_id": "'usr_2'"}),
    ("sessions_token_hash_check", "sessions", {"token_hash": "'the secret itself'"}),
    ("sessions_user_agent_check", "sessions", {"user_agent": "repeat('x', 257)"}),
    ("recovery_codes_user_id_fkey", "recovery_codes", {"user_id": "'usr_2'"}),
    (
        "one_time_links_purpose_check",
        "one_time_links",
        {"purpose": "'fun'", "client_id": "NULL", "role": "NULL"},
    ),
    ("one_time_links_client_id_check", "one_time_links", {"purpose": "'staff'"}),
    ("one_time_links_client_id_check", "one_time_links", {"client_id": "NULL", "role": "NULL"}),
    ("one_time_links_role_check", "one_time_links", {"role": "NULL"}),
    ("one_time_links_role_check", "one_time_links", {"role": "'king'"}),
    ("one_time_links_client_id_fkey", "one_time_links", {"client_id": "'sandbox_2'"}),
    ("one_time_links_token_hash_check", "one_time_links", {"token_hash": "'the secret itself'"}),
    ("one_time_links_used_at_check", "one_time_links", {"used_at": AT, "revoked_at": AT}),
    ("one_time_links_expires_at_check", "one_time_links", {"expires_at": AT}),
    ("attempt_buckets_slot_check", "attempt_buckets", {"slot": "1048576"}),
    ("attempt_buckets_slot_check", "attempt_buckets", {"slot": "-1"}),
    ("attempt_buckets_level_check", "attempt_buckets", {"level": "-0.1"}),
]
UNIQUE = [
    ("users_pkey", "users", {"email_key": "'b@shop.example'"}),
    ("users_email_key_key", "users", {"user_id": "'usr_2'"}),
    ("memberships_pkey", "memberships", {"role": "'viewer'"}),
    ("sessions_token_hash_key", "sessions", {"session_id": "'ses_2'"}),
    ("recovery_codes_pkey", "recovery_codes", {}),
    ("one_time_links_token_hash_key", "one_time_links", {"link_id": "'lnk_2'"}),
    ("attempt_buckets_pkey", "attempt_buckets", {"level": "0"}),
    ("audit_log_pkey", "audit_log", {"subject": "'t'"}),
]


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A transaction that is taken back."""
    with psycopg.connect(database_url) as opened:
        yield opened
        opened.rollback()


def insert(connection: psycopg.Connection, table: str, **changes: str) -> None:
    row = ROWS[table] | changes
    names, values = ", ".join(row), ", ".join(row.values())
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values})".encode())  # noqa: S608


def prepare(connection: psycopg.Connection, table: str) -> None:
    for other in BEFORE.get(table, []):
        insert(connection, other)


@pytest.mark.parametrize("table", OWN)
def test_a_usual_row_is_taken(connection, table):
    prepare(connection, table)
    insert(connection, table)


@pytest.mark.parametrize(("constraint", "table", "changes"), REFUSED)
def test_a_row_against_an_invariant_is_refused_by_its_name(connection, constraint, table, changes):
    prepare(connection, table)
    with pytest.raises((CheckViolation, ForeignKeyViolation)) as caught:
        insert(connection, table, **changes)
    assert caught.value.diag.constraint_name == constraint


@pytest.mark.parametrize(("constraint", "table", "changes"), UNIQUE)
def test_what_is_unique_is_there_once(connection, constraint, table, changes):
    prepare(connection, table)
    insert(connection, table)
    with pytest.raises(UniqueViolation) as caught:
        insert(connection, table, **changes)
    assert caught.value.diag.constraint_name == constraint
