-- Payments of one merchant over its last days, final as the API and the worker leave them; see bench.pages.

-- name: create_made
-- A row for each payment to be, the oldest first: most captured, one in 25 failed, one in a thousand unfinished. What
-- an identifier needs besides its prefix is in `tail`.
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT
    t.n, t.at, t.operation, t.state, t.currency, t.amount_minor, t.number, t.store,
    CASE t.state WHEN 'PROCESSING' THEN NULL ELSE t.at + interval '4 seconds' END AS final_at,
    CASE t.state WHEN 'FAIL'
        THEN (ARRAY['ORDER_EXPIRED', 'INSUFFICIENT_BALANCE', 'USER_REJECTED', 'RISK_REJECT'])[1 + t.n / 25 %% 4]
    END AS failure_code,
    lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || t.rest AS tail,
    lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint + 4000), 12, '0') || t.rest AS event_tail
FROM (
    SELECT
        n, %(now)s::timestamptz - (%(count)s - n) * (%(days)s * interval '1 day' / %(count)s) AS at,
        (ARRAY['createQROrder', 'retailPay', 'createQROrder', 'linkPayCreate'])[1 + n %% 4] AS operation,
        CASE WHEN n %% 1000 = 999 THEN 'PROCESSING' WHEN n %% 25 = 0 THEN 'FAIL' ELSE 'SUCCESS' END AS state,
        CASE n %% 10 WHEN 7 THEN 'JPY' WHEN 8 THEN 'GBP' ELSE 'EUR' END AS currency,
        CASE n WHEN %(rare)s THEN 987654321 ELSE 100 + n::bigint * 7919 %% 50000 END AS amount_minor,
        'order-' || to_char(n, 'FM00000000') AS number,
        CASE n WHEN %(rare)s THEN 'store-rare' ELSE 'store-' || n %% 40 END AS store,
        lpad(to_hex(%(bucket)s::integer), 2, '0') || substr(md5(n::text), 1, 22) AS rest
    FROM generate_series(%(first)s::integer, %(last)s::integer) AS n
) AS t;

-- name: insert_payments
INSERT INTO payments (
    bucket, payment_id, client_id, payment_request_id, operation, state, currency, amount_minor, external_store_id,
    request_body, answer, failure_code, event_id, created_at, expires_at, due_at, final_at, request_time, key_version,
    signature
)
SELECT
    %(bucket)s, 'pay_' || m.tail, %(client_id)s, m.number, m.operation, m.state, m.currency, m.amount_minor, m.store,
    convert_to(json_build_object(
        'productCode', '51051000101000100031', 'paymentRequestId', m.number,
        'paymentAmount', json_build_object('currency', m.currency, 'value', m.amount_minor),
        'order', json_build_object(
            'orderDescription', 'Two pairs of running shoes',
            'merchant', json_build_object('store', json_build_object('externalStoreId', m.store))
        )
    )::text, 'UTF8'),
    convert_to(json_build_object(
        'result', json_build_object('resultStatus', 'A', 'resultCode', 'ACCEPTED', 'resultMessage', 'Accepted.'),
        'paymentRequestId', m.number, 'paymentId', 'pay_' || m.tail
    )::text, 'UTF8'),
    m.failure_code, CASE WHEN m.final_at IS NOT NULL THEN 'evt_' || m.event_tail END, m.at,
    m.at + interval '2 hours', CASE WHEN m.final_at IS NULL THEN m.at + interval '30 days' END, m.final_at,
    to_char(m.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 1, decode(repeat(md5(m.number), 16), 'hex')
FROM made AS m;

-- name: insert_events
INSERT INTO events (bucket, event_id, client_id, payment_id, event_type, created_at, sequence)
SELECT
    %(bucket)s, 'evt_' || m.event_tail, %(client_id)s, 'pay_' || m.tail,
    CASE m.state WHEN 'FAIL' THEN 'payment.failed' ELSE 'payment.succeeded' END, m.final_at,
    m.n + 1 - m.n / 1000
FROM made AS m
WHERE m.final_at IS NOT NULL;

-- name: insert_deliveries
-- Half of the payments were notified.
INSERT INTO deliveries (
    bucket, event_id, client_id, url, lane, state, attempts, last_attempt_at, last_status, last_reason, created_at,
    final_at
)
SELECT
    %(bucket)s, 'evt_' || m.event_tail, %(client_id)s, 'https://shop.example/webhooks',
    %(client_id)s || ' https://shop.example:443', 'ACKNOWLEDGED', 1, m.final_at, 200, 'HTTP 200', m.final_at,
    m.final_at + interval '80 milliseconds'
FROM made AS m
WHERE m.final_at IS NOT NULL AND m.n %% 2 = 0;

-- name: insert_payloads
INSERT INTO payloads (bucket, event_id, body)
SELECT
    %(bucket)s, 'evt_' || m.event_tail,
    convert_to(json_build_object('eventId', 'evt_' || m.event_tail, 'paymentId', 'pay_' || m.tail)::text, 'UTF8')
FROM made AS m
WHERE m.final_at IS NOT NULL;

-- name: insert_attempts
INSERT INTO attempts (
    bucket, event_id, attempt, client_id, url, started_at, key_version, outcome, status, reason, connect_us,
    first_byte_us, total_us, answer
)
SELECT
    %(bucket)s, 'evt_' || m.event_tail, 1, %(client_id)s, 'https://shop.example/webhooks', m.final_at, 1,
    'ACKNOWLEDGED', 200, 'HTTP 200', 20000, 60000, 80000, ''
FROM made AS m
WHERE m.final_at IS NOT NULL AND m.n %% 2 = 0;

-- name: insert_counter
INSERT INTO event_counters (client_id, last_sequence)
SELECT e.client_id, max(e.sequence) FROM events AS e GROUP BY e.client_id;

-- name: insert_day_totals
INSERT INTO day_totals (client_id, day, currency, operation, outcome, payments, amount_minor)
SELECT
    p.client_id, (p.final_at AT TIME ZONE 'UTC')::date, p.currency, p.operation, coalesce(p.failure_code, 'SUCCESS'),
    count(*), sum(p.amount_minor)
FROM payments AS p
WHERE p.final_at IS NOT NULL
GROUP BY 1, 2, 3, 4, 5;
