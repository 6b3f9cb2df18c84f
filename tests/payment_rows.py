"""Payments made without their whole life: rows by the thousand, as the API and the worker leave them."""

import psycopg

# One a second, the last one a second before `at`; number n has the store, the amount and the state that n gives it.
_INSERT = """
    INSERT INTO payments (bucket, payment_id, client_id, payment_request_id, operation, state, currency, amount_minor,
        external_store_id, request_body, answer, failure_code, event_id, created_at, expires_at, due_at, final_at)
    SELECT %(bucket)s, 'pay_' || n.tail, %(client_id)s, 'order-' || n.n,
        (ARRAY['createQROrder', 'retailPay', 'linkPayCreate'])[1 + n.n %% 3],
        n.state, CASE n.n %% 10 WHEN 0 THEN 'KWD' ELSE 'EUR' END, 100 + n.n %% 1000, 'store-' || n.n %% 100,
        convert_to(repeat('x', %(body_bytes)s), 'UTF8'), convert_to(repeat('y', %(body_bytes)s), 'UTF8'),
        CASE n.state WHEN 'FAIL' THEN 'USER_REJECTED' END,
        CASE n.state WHEN 'PROCESSING' THEN NULL ELSE 'evt_' || n.tail END, n.at, n.at,
        CASE n.state WHEN 'PROCESSING' THEN n.at END, CASE n.state WHEN 'PROCESSING' THEN NULL ELSE n.at END
    FROM (
        SELECT g AS n, t.at,
            lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0')
                || lpad(to_hex(%(bucket)s::integer), 2, '0') || substr(md5(g::text), 1, 22) AS tail,
            CASE WHEN g %% 997 = 0 THEN 'PROCESSING' WHEN g %% 50 = 0 THEN 'FAIL' ELSE 'SUCCESS' END AS state
        FROM generate_series(1, %(count)s::integer) AS g
        CROSS JOIN LATERAL (SELECT %(at)s::timestamptz - (%(count)s - g + 1) * interval '1 second' AS at) AS t
    ) AS n
"""


def insert_payments(
    database_url: str, client_id: str, count: int, at: object, *, bucket: int = 7, body_bytes: int = 2
) -> None:
    """Make a merchant's payments, `order-1` the oldest: one second apart, the last one a second before `at`.

    Every 10th is of KWD, every 50th has failed, every 997th is PROCESSING; 100 stores take turns; amounts go from
    100 to 1099 minor units.
    """
    values = {"client_id": client_id, "count": count, "at": at, "bucket": bucket, "body_bytes": body_bytes}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_INSERT, values)
        connection.execute("VACUUM ANALYZE payments")
