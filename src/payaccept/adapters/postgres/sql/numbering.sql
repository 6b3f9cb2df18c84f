-- Several workers number at once. Each takes the counters of its merchants in one order, and reads which events
-- are still without a number only then: what it reads stays true until it commits.

-- name: select_counted_clients
-- Merchants that have a counter: it is never taken away.
SELECT c.client_id
FROM event_counters AS c
WHERE c.client_id = ANY(%(client_id)b);

-- name: insert_counters
-- The counters of merchants whose first events these are. It waits for who is changing one that is there.
INSERT INTO event_counters (client_id, last_sequence)
SELECT u.client_id, 0
FROM unnest(%(client_id)b) AS u (client_id)
ORDER BY u.client_id
ON CONFLICT DO NOTHING;

-- name: select_counters
-- Locked in the order of their names, so that nobody waits in a circle.
SELECT c.client_id, c.last_sequence
FROM event_counters AS c
WHERE c.client_id = ANY(%(client_id)b)
ORDER BY c.client_id
FOR NO KEY UPDATE OF c;

-- name: select_counters_at_hand
-- The same, passing over those that somebody else has: whoever it is numbers their events.
SELECT c.client_id, c.last_sequence
FROM event_counters AS c
WHERE c.client_id = ANY(%(client_id)b)
ORDER BY c.client_id
FOR NO KEY UPDATE OF c SKIP LOCKED;

-- name: select_sequences
-- The numbers that the events have by now.
SELECT e.event_id, e.sequence
FROM events AS e
JOIN unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id) ON e.bucket = u.bucket AND e.event_id = u.event_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: update_event_sequences
UPDATE events AS e
SET sequence = u.sequence
FROM unnest(%(bucket)b, %(event_id)b, %(sequence)b) AS u (bucket, event_id, sequence)
WHERE e.bucket = u.bucket AND e.event_id = u.event_id AND u.bucket = ANY(%(buckets)b);

-- name: update_counters
UPDATE event_counters AS c
SET last_sequence = u.last_sequence
FROM unnest(%(client_id)b, %(last_sequence)b) AS u (client_id, last_sequence)
WHERE c.client_id = u.client_id;

-- name: add_day_totals
-- What the events just numbered came to. Whoever numbers a merchant's events has its counter, so nobody else adds to
-- its rows meanwhile. Every event of a payment has its payment: the join is an outer one so that it comes last, a
-- look-up by primary key. An inner one the planner would begin with, on a small table, by the bucket alone.
INSERT INTO day_totals AS t (client_id, day, currency, operation, outcome, payments, amount_minor)
SELECT
    p.client_id, (p.final_at AT TIME ZONE 'UTC')::date, p.currency, p.operation, coalesce(p.failure_code, 'SUCCESS'),
    count(*), sum(p.amount_minor)
FROM unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id)
JOIN events AS e ON e.bucket = u.bucket AND e.event_id = u.event_id
LEFT JOIN payments AS p ON p.bucket = e.bucket AND p.payment_id = e.payment_id
WHERE u.bucket = ANY(%(buckets)b) AND e.payment_id IS NOT NULL
GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (client_id, day, currency, operation, outcome) DO UPDATE
SET payments = t.payments + excluded.payments, amount_minor = t.amount_minor + excluded.amount_minor;

-- name: select_waiting_events
-- Events without a number, the oldest first, from an id on. An event's id begins with its time.
SELECT e.bucket, e.event_id, e.client_id
FROM events AS e
WHERE e.sequence IS NULL AND e.event_id > %(after)b
ORDER BY e.event_id
LIMIT %(limit)b;
