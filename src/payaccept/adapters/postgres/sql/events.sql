-- A merchant's events, read through its buckets, and deliveries that somebody has sent again.

-- name: set_statement_timeout
SELECT set_config('statement_timeout', %(statement_timeout)s, false);

-- name: select_events_after
-- The first after a number: from each bucket as many as are wanted, in the order of the index, then the first of all.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM unnest(%(buckets)b) AS k (bucket)
CROSS JOIN LATERAL (
    SELECT x.bucket, x.event_id, x.client_id, x.payment_id, x.event_type, x.sequence, x.created_at
    FROM events AS x
    LEFT JOIN deliveries AS y ON y.bucket = x.bucket AND y.event_id = x.event_id
    WHERE x.bucket = k.bucket AND x.client_id = %(client_id)b AND x.sequence > %(after)b
        AND coalesce(y.state, 'UNSENT') = ANY(%(statuses)b)
    ORDER BY x.sequence
    LIMIT %(limit)b
) AS e
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
ORDER BY e.sequence
LIMIT %(limit)b;

-- name: select_events_latest
-- The last ones, the latest first.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM unnest(%(buckets)b) AS k (bucket)
CROSS JOIN LATERAL (
    SELECT x.bucket, x.event_id, x.client_id, x.payment_id, x.event_type, x.sequence, x.created_at
    FROM events AS x
    LEFT JOIN deliveries AS y ON y.bucket = x.bucket AND y.event_id = x.event_id
    WHERE x.bucket = k.bucket AND x.client_id = %(client_id)b AND x.sequence > 0
        AND coalesce(y.state, 'UNSENT') = ANY(%(statuses)b)
    ORDER BY x.sequence DESC
    LIMIT %(limit)b
) AS e
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
ORDER BY e.sequence DESC
LIMIT %(limit)b;

-- name: select_dead_after
-- The dead have an index of their own: they are few among many.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM deliveries AS d
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id
WHERE d.client_id = %(client_id)b AND d.state = 'DEAD' AND e.sequence > %(after)b
ORDER BY e.sequence
LIMIT %(limit)b;

-- name: select_dead_latest
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM deliveries AS d
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id
WHERE d.client_id = %(client_id)b AND d.state = 'DEAD' AND e.sequence > 0
ORDER BY e.sequence DESC
LIMIT %(limit)b;

-- name: select_last_sequence
SELECT c.last_sequence
FROM event_counters AS c
WHERE c.client_id = %(client_id)b;

-- name: select_unnumbered
-- Of the first few events of all that wait for their number, those of one merchant.
SELECT u.event_id
FROM (
    SELECT e.event_id, e.client_id FROM events AS e WHERE e.sequence IS NULL ORDER BY e.event_id LIMIT 1000
) AS u
WHERE u.client_id = %(client_id)b;

-- name: select_event
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM events AS e
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
WHERE e.bucket = %(bucket)b AND e.event_id = %(event_id)b;

-- name: select_event_of_payment
-- A payment has one event at most.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM events AS e
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
WHERE e.bucket = %(bucket)b AND e.payment_id = %(payment_id)b;

-- name: select_events_before
-- A page of the log, the latest first: of so many numbers below one, as many events as are wanted. The numbers have
-- no gap, so that their difference is how many events are looked at.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM unnest(%(buckets)b) AS k (bucket)
CROSS JOIN LATERAL (
    SELECT x.bucket, x.event_id, x.client_id, x.payment_id, x.event_type, x.sequence, x.created_at
    FROM events AS x
    LEFT JOIN deliveries AS y ON y.bucket = x.bucket AND y.event_id = x.event_id
    WHERE x.bucket = k.bucket AND x.client_id = %(client_id)b
        AND x.sequence < %(before)b AND x.sequence > %(floor)b
        AND coalesce(y.state, 'UNSENT') = ANY(%(statuses)b)
    ORDER BY x.sequence DESC
    LIMIT %(limit)b
) AS e
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
ORDER BY e.sequence DESC
LIMIT %(limit)b;

-- name: select_dead_before
-- The dead in the order of their ids, which is that of time: their index has it.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at
FROM deliveries AS d
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id
WHERE d.client_id = %(client_id)b AND d.state = 'DEAD' AND d.event_id < %(before_id)b
ORDER BY d.event_id DESC
LIMIT %(limit)b;

-- name: count_dead
-- As far as anybody wants to know.
SELECT count(*)
FROM (
    SELECT FROM deliveries AS d WHERE d.client_id = %(client_id)b AND d.state = 'DEAD' LIMIT %(limit)b
) AS dead;

-- name: select_payload
SELECT p.body FROM payloads AS p WHERE p.bucket = %(bucket)b AND p.event_id = %(event_id)b;

-- name: select_attempts
-- The attempts of one event that are still kept, in order.
SELECT
    a.attempt, a.url, a.started_at, a.key_version, a.outcome, a.status, a.reason, a.resolve_us, a.connect_us,
    a.tls_us, a.first_byte_us, a.total_us, length(a.answer), CASE WHEN %(answers)b THEN a.answer END
FROM attempts AS a
WHERE a.bucket = %(bucket)b AND a.event_id = %(event_id)b
ORDER BY a.attempt, a.started_at;

-- name: select_ids_between
-- A page of the events to be sent again, in the order of their ids, which is that of time.
SELECT i.bucket, i.event_id
FROM unnest(%(buckets)b) AS k (bucket)
CROSS JOIN LATERAL (
    SELECT e.bucket, e.event_id
    FROM events AS e
    LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
    WHERE e.bucket = k.bucket AND e.event_id > %(after)b AND e.event_id < %(end)b
        AND e.client_id = %(client_id)b AND coalesce(d.state, 'UNSENT') = ANY(%(statuses)b)
    ORDER BY e.event_id
    LIMIT %(limit)b
) AS i
ORDER BY i.event_id
LIMIT %(limit)b;

-- name: select_dead_ids_between
SELECT d.bucket, d.event_id
FROM deliveries AS d
WHERE d.client_id = %(client_id)b AND d.state = 'DEAD' AND d.event_id > %(after)b AND d.event_id < %(end)b
ORDER BY d.event_id
LIMIT %(limit)b;

-- name: count_between
SELECT count(*)
FROM events AS e
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
WHERE e.bucket = ANY(%(buckets)b) AND e.event_id > %(after)b AND e.event_id < %(end)b
    AND e.client_id = %(client_id)b AND coalesce(d.state, 'UNSENT') = ANY(%(statuses)b);

-- name: count_dead_between
SELECT count(*)
FROM deliveries AS d
WHERE d.client_id = %(client_id)b AND d.state = 'DEAD' AND d.event_id > %(after)b AND d.event_id < %(end)b;

-- name: lock_deliveries
-- First of the statements that send again: what is decided about these stays true until it is written. Those that
-- a worker is writing just now are passed over: it takes several at a time, and not in our order.
SELECT d.bucket, d.event_id
FROM deliveries AS d
JOIN unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id) ON d.bucket = u.bucket AND d.event_id = u.event_id
WHERE u.bucket = ANY(%(buckets)b)
FOR NO KEY UPDATE OF d SKIP LOCKED;

-- name: lock_delivery
-- The same for one, which can be waited for.
SELECT d.bucket, d.event_id
FROM deliveries AS d
WHERE d.bucket = %(bucket)b AND d.event_id = %(event_id)b
FOR NO KEY UPDATE OF d;

-- name: select_resendable
-- Second: how each stands, where its payment wants it, and whether its body is still kept. The bounds are those of
-- the batch: they tell which days' partitions to look into.
SELECT
    e.bucket, e.event_id, e.client_id, e.payment_id, e.event_type, e.sequence, e.created_at,
    d.url, d.lane, d.state, d.attempts, d.attempts_before, d.next_at, d.leased_until, d.last_attempt_at,
    d.last_status, d.last_reason, d.created_at, d.final_at,
    p.notify_url,
    EXISTS (
        SELECT FROM payloads AS b
        WHERE b.bucket = e.bucket AND b.event_id = e.event_id AND b.event_id >= %(first)b AND b.event_id <= %(last)b
    )
FROM unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id)
JOIN events AS e ON e.bucket = u.bucket AND e.event_id = u.event_id
LEFT JOIN payments AS p ON p.bucket = e.bucket AND p.payment_id = e.payment_id
LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: update_deliveries_again
-- Third: due now, to where it belongs now. A schedule that has ended starts anew, the attempts go on being counted.
UPDATE deliveries AS d
SET state = 'PENDING', next_at = %(now)b, url = u.url, lane = u.lane, final_at = NULL,
    attempts_before = CASE d.state WHEN 'PENDING' THEN d.attempts_before ELSE d.attempts END
FROM unnest(%(bucket)b, %(event_id)b, %(url)b, %(lane)b) AS u (bucket, event_id, url, lane)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b);

-- name: insert_deliveries_again
-- Fourth: the delivery of an event that had none. Should another have made it meanwhile, it is sent as well.
INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, next_at, created_at)
SELECT u.bucket, u.event_id, u.client_id, u.url, u.lane, 'PENDING', %(now)b, %(now)b
FROM buckets AS k
JOIN unnest(%(bucket)b, %(event_id)b, %(client_id)b, %(url)b, %(lane)b)
    AS u (bucket, event_id, client_id, url, lane) ON u.bucket = k.bucket
WHERE k.bucket = ANY(%(buckets)b)
ON CONFLICT DO NOTHING;

-- name: insert_test_event
INSERT INTO events (bucket, event_id, client_id, event_type, created_at)
VALUES (%(bucket)b, %(event_id)b, %(client_id)b, 'webhook.test', %(created_at)b);

-- name: insert_test_payload
INSERT INTO payloads (bucket, event_id, body)
VALUES (%(bucket)b, %(event_id)b, %(body)b);

-- name: insert_test_delivery
INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, next_at, created_at)
VALUES (%(bucket)b, %(event_id)b, %(client_id)b, %(url)b, %(lane)b, 'PENDING', %(created_at)b, %(created_at)b);

-- name: select_failing_lanes
-- Destinations that are failing, the open ones first, then by since when.
SELECT f.lane, f.client_id, f.failures, f.failing_since, f.opened_at, f.last_reason
FROM failing_lanes AS f
ORDER BY f.opened_at IS NULL, f.failing_since
LIMIT %(limit)b;

-- name: select_failing_lanes_of_merchant
-- A merchant's, with how many deliveries wait for each, as far as anybody wants to know, and when the first is due.
SELECT f.lane, f.client_id, f.failures, f.failing_since, f.opened_at, f.last_reason,
    (
        SELECT count(*)
        FROM (
            SELECT FROM deliveries AS d WHERE d.lane = f.lane AND d.state = 'PENDING' LIMIT %(most_waiting)b
        ) AS waiting
    ),
    (
        SELECT d.next_at FROM deliveries AS d
        WHERE d.lane = f.lane AND d.state = 'PENDING'
        ORDER BY d.next_at
        LIMIT 1
    )
FROM failing_lanes AS f
WHERE f.client_id = %(client_id)b
ORDER BY f.failing_since
LIMIT %(limit)b;

-- name: select_longest_failing_lane
-- For the banner of a merchant's pages: the one that has been failing the longest.
SELECT f.lane, f.client_id, f.failures, f.failing_since, f.opened_at, f.last_reason
FROM failing_lanes AS f
WHERE f.client_id = %(client_id)b
ORDER BY f.failing_since
LIMIT 1;
