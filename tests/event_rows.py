"""Events made without their payments' whole life: rows, as the settling statements leave them."""

from collections.abc import Sequence
from datetime import datetime

import psycopg

from deployment import fetch_all
from payaccept.domain import identifiers


def insert_events(
    database_url: str,
    client_id: str,
    times: Sequence[datetime],
    *,
    bucket: int | None = None,
    state: str | None = "ACKNOWLEDGED",
    notify_url: str | None = None,
    url: str = "https://shop.example/hook",
    currency: str = "EUR",
    failure_code: str | None = None,
) -> list[str]:
    """Make a final payment with its event and payload at each time; `state` None leaves the delivery out.

    They are in the merchant's bucket, or in 7 when there is no such merchant. Returns: the events' ids.
    """
    if bucket is None:
        found = fetch_all(database_url, "SELECT base_bucket FROM merchants WHERE client_id = %s", client_id)
        bucket = found[0][0] if found else 7
    outcome, event_type = (
        ("SUCCESS", "payment.succeeded") if failure_code is None else ("FAIL", "payment.failed")
    )
    made = [
        (identifiers.new(identifiers.PAYMENT, bucket, int(at.timestamp() * 1000)),
         identifiers.new(identifiers.EVENT, bucket, int(at.timestamp() * 1000)), at)
        for at in times
    ]  # fmt: skip
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO payments (bucket, payment_id, client_id, payment_request_id, operation, state, currency,"
            " amount_minor, notify_url, request_body, failure_code, event_id, created_at, expires_at, final_at)"
            " VALUES (%s, %s, %s, %s, 'retailPay', %s, %s, 1999, %s, '', %s, %s, %s, %s, %s)",
            [
                (bucket, p, client_id, p, outcome, currency, notify_url, failure_code, e, at, at, at)
                for p, e, at in made
            ],
        )
        cursor.executemany(
            "INSERT INTO events (bucket, event_id, client_id, payment_id, event_type, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            [(bucket, e, client_id, p, event_type, at) for p, e, at in made],
        )
        cursor.executemany(
            "INSERT INTO payloads (bucket, event_id, body) VALUES (%s, %s, %s)",
            [(bucket, e, f'{{"eventId":"{e}"}}'.encode()) for _, e, _ in made],
        )
        if state is not None:
            pending = state == "PENDING"
            cursor.executemany(
                "INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, attempts, next_at,"
                " created_at, final_at) VALUES (%s, %s, %s, %s, %s, %s, 3, %s, %s, %s)",
                [
                    (bucket, e, client_id, url, f"{client_id} {url}", state,
                     at if pending else None, at, None if pending else at)
                    for _, e, at in made
                ],
            )  # fmt: skip
    return [event_id for _, event_id, _ in made]
