-- A merchant's payments, read through the index payments_of_merchant. It names no bucket: where tables are sharded,
-- every shard is asked for the newest it has.

-- name: select_payments
-- The newest below an id, one after the other until there are enough.
SELECT
    p.payment_id, p.payment_request_id, p.operation, p.state, p.failure_code, p.currency, p.amount_minor,
    p.external_store_id, p.event_id, p.created_at, p.final_at
FROM payments AS p
WHERE p.client_id = %(client_id)s AND p.payment_id >= %(first_id)s AND p.payment_id < %(before_id)s
ORDER BY p.payment_id DESC
LIMIT %(limit)s;

-- name: search_payments
-- The newest of those that are looked for, among no more than `look_at`; beside them, in a row of its own when there
-- are none, the last that was looked at: the next look begins there. NULL when there are not so many.
SELECT
    f.payment_id, f.payment_request_id, f.operation, f.state, f.failure_code, f.currency, f.amount_minor,
    f.external_store_id, f.event_id, f.created_at, f.final_at,
    (
        SELECT p.payment_id
        FROM payments AS p
        WHERE p.client_id = %(client_id)s AND p.payment_id >= %(first_id)s AND p.payment_id < %(before_id)s
        ORDER BY p.payment_id DESC
        OFFSET %(look_at)s - 1
        LIMIT 1
    ) AS last_id
FROM (VALUES (1)) AS one (row)
LEFT JOIN (
    SELECT n.*
    FROM (
        -- Its LIMIT keeps the planner to the order of the index: another would have to be read to the end.
        SELECT
            p.payment_id, p.payment_request_id, p.operation, p.state, p.failure_code, p.currency,
            p.amount_minor, p.external_store_id, p.event_id, p.created_at, p.final_at
        FROM payments AS p
        WHERE p.client_id = %(client_id)s AND p.payment_id >= %(first_id)s AND p.payment_id < %(before_id)s
        ORDER BY p.payment_id DESC
        LIMIT %(look_at)s
    ) AS n
    WHERE (%(state)s::text IS NULL OR n.state = %(state)s)
        AND (%(operation)s::text IS NULL OR n.operation = %(operation)s)
        AND (%(currency)s::text IS NULL OR n.currency = %(currency)s)
        AND (%(least_minor)s::bigint IS NULL OR n.amount_minor >= %(least_minor)s)
        AND (%(most_minor)s::bigint IS NULL OR n.amount_minor <= %(most_minor)s)
        AND (%(store)s::text IS NULL OR n.external_store_id = %(store)s)
    ORDER BY n.payment_id DESC
    LIMIT %(limit)s
) AS f ON true
ORDER BY f.payment_id DESC;
