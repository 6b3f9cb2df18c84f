-- What a merchant's days came to, and its captured payments in the order of their ends.

-- name: set_statement_timeout
SELECT set_config('statement_timeout', %(statement_timeout)s, false);

-- name: select_day_totals
SELECT t.day, t.currency, t.operation, t.outcome, t.payments, t.amount_minor
FROM day_totals AS t
WHERE t.client_id = %(client_id)s AND t.day BETWEEN %(first)s AND %(last)s
ORDER BY t.day, t.currency, t.operation, t.outcome;

-- name: select_captured_between
-- Of each bucket the first ones after an id, which begins with the time of the payment's end. What the merchant asked
-- to be settled in stands in the bodies of one operation.
SELECT
    i.bucket, i.event_id, p.payment_id, p.payment_request_id, p.operation, p.external_store_id, p.currency,
    p.amount_minor, p.created_at, p.final_at, CASE WHEN p.operation = 'linkPayCreate' THEN p.request_body END
FROM unnest(%(buckets)b) AS k (bucket)
CROSS JOIN LATERAL (
    SELECT e.bucket, e.event_id, e.payment_id
    FROM events AS e
    WHERE e.bucket = k.bucket AND e.event_id > %(after)b AND e.event_id < %(end)b
        AND e.client_id = %(client_id)b AND e.event_type = 'payment.succeeded'
    ORDER BY e.event_id
    LIMIT %(limit)b
) AS i
JOIN payments AS p ON p.bucket = i.bucket AND p.payment_id = i.payment_id
ORDER BY i.event_id;
