-- What the provider's staff sees over all merchants.

-- name: search_merchants
-- The newest first; merchants are few enough to be looked through. A page begins behind a merchant of the one before.
SELECT
    m.client_id, m.name, m.state, m.base_bucket, m.spread, m.duplicates, m.webhook_url, m.rate_limit, m.created_at,
    m.updated_at
FROM merchants AS m
WHERE (%(pattern)s::text IS NULL OR m.name ILIKE %(pattern)s OR m.client_id ILIKE %(pattern)s)
    AND (%(state)s::text IS NULL OR m.state = %(state)s)
    AND (
        %(behind)s::text IS NULL
        OR (m.created_at, m.client_id)
            < (SELECT b.created_at, b.client_id FROM merchants AS b WHERE b.client_id = %(behind)s)
    )
ORDER BY m.created_at DESC, m.client_id DESC
LIMIT %(limit)s;

-- name: select_names
SELECT m.client_id, m.name
FROM merchants AS m
WHERE m.client_id = ANY(%(client_id)s);

-- name: count_dead
-- Of the latest ones only: after a long outage of a large merchant there may be millions.
SELECT d.client_id, m.name, d.reason, count(*), min(d.final_at), max(d.final_at)
FROM (
    SELECT x.client_id, coalesce(x.last_reason, 'unknown') AS reason, x.final_at
    FROM deliveries AS x
    WHERE x.state = 'DEAD'
    ORDER BY x.final_at DESC, x.event_id DESC
    LIMIT %(looked_at)s
) AS d
JOIN merchants AS m ON m.client_id = d.client_id
GROUP BY d.client_id, m.name, d.reason
ORDER BY count(*) DESC, d.client_id, d.reason
LIMIT %(limit)s;

-- name: select_dead
-- The last given up first.
SELECT
    d.event_id, d.client_id, m.name, e.payment_id, d.url, d.attempts, d.last_status, d.last_reason, d.created_at,
    d.final_at
FROM (
    SELECT
        x.bucket, x.event_id, x.client_id, x.url, x.attempts, x.last_status, x.last_reason, x.created_at, x.final_at
    FROM deliveries AS x
    WHERE x.state = 'DEAD' AND (x.final_at, x.event_id) < (%(final_at)s, %(event_id)s)
    ORDER BY x.final_at DESC, x.event_id DESC
    LIMIT %(limit)s
) AS d
JOIN merchants AS m ON m.client_id = d.client_id
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id
ORDER BY d.final_at DESC, d.event_id DESC;

-- name: select_dead_of_merchant
-- The youngest event first: the index of a merchant's dead is in this order.
SELECT
    d.event_id, d.client_id, m.name, e.payment_id, d.url, d.attempts, d.last_status, d.last_reason, d.created_at,
    d.final_at
FROM (
    SELECT
        x.bucket, x.event_id, x.client_id, x.url, x.attempts, x.last_status, x.last_reason, x.created_at, x.final_at
    FROM deliveries AS x
    WHERE x.state = 'DEAD' AND x.client_id = %(client_id)s AND x.event_id < %(event_id)s
    ORDER BY x.event_id DESC
    LIMIT %(limit)s
) AS d
JOIN merchants AS m ON m.client_id = d.client_id
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id
ORDER BY d.event_id DESC;
