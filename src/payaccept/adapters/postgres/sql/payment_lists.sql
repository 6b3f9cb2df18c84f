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
-- The same of those that are looked for, among no more than `look_at`. The last one that was looked at is returned in
-- any case, and told apart by the last two columns: the next look begins there. Counting them in the inner query keeps the
-- planner from other indexes, whose order would have it read and sort whatever fits.
SELECT
    f.payment_id, f.payment_request_id, f.operation, f.state, f.failure_code, f.currency, f.amount_minor,
    f.external_store_id, f.event_id, f.created_at, f.final_at, f.is_found,
    f.place = %(look_at)s
FROM (
    SELECT
        n.*,
        (%(state)s::text IS NULL OR n.state = %(state)s)
        AND (%(operation)s::text IS NULL OR n.operation = %(operation)s)
        AND (%(currency)s::text IS NULL OR n.currency = %(currency)s)
        AND (%(least_minor)s::bigint IS NULL OR n.amount_minor >= %(least_minor)s)
        AND (%(most_minor)s::bigint IS NULL OR n.amount_minor <= %(most_minor)s)
        AND (%(store)s::text IS NULL OR coalesce(n.external_store_id = %(store)s, false)) AS is_found
    FROM (
        SELECT
            p.payment_id, p.payment_request_id, p.operation, p.state, p.failure_code, p.currency,
            p.amount_minor, p.external_store_id, p.event_id, p.created_at, p.final_at,
            row_number() OVER (ORDER BY p.payment_id DESC) AS place
        FROM payments AS p
        WHERE p.client_id = %(client_id)s AND p.payment_id >= %(first_id)s AND p.payment_id < %(before_id)s
        ORDER BY p.payment_id DESC
        LIMIT %(look_at)s
    ) AS n
) AS f
WHERE f.is_found OR f.place = %(look_at)s
ORDER BY f.payment_id DESC
LIMIT %(limit)s;
