-- name: select_due_lanes
-- Which lanes have something due, in order, from a lane on: one look into the index for each lane, however much
-- is due in it. `since` bounds how far back it looks: while somebody holds a transaction open, the index keeps
-- an entry of each delivery made since, and they are not to be read through again and again.
WITH RECURSIVE walk (lane) AS (
    (
        SELECT d.lane
        FROM deliveries AS d
        WHERE d.state = 'PENDING' AND d.lane > %(after)b AND d.next_at > %(since)b AND d.next_at <= %(now)b
        ORDER BY d.lane
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.lane
        FROM deliveries AS d
        WHERE d.state = 'PENDING' AND d.lane > w.lane AND d.next_at > %(since)b AND d.next_at <= %(now)b
        ORDER BY d.lane
        LIMIT 1
    )
    FROM walk AS w
    WHERE w.lane IS NOT NULL
)
SELECT w.lane
FROM walk AS w
WHERE w.lane IS NOT NULL
LIMIT %(limit)b;

-- name: select_due_deliveries
-- Of each lane as many as it has room for, those that have been due the longest first. Nobody's lease is on them:
-- none, one that has ended, or one that ends later than any that is taken now (the clock was set back since).
-- What this worker has in hand it leaves out itself, for the clock may have been set forward since.
SELECT
    d.bucket, d.event_id, d.client_id, d.url, d.lane, d.attempts, d.attempts_before, d.faults, d.created_at,
    e.sequence, e.payment_id, d.next_at
FROM unnest(%(lane)b, %(room)b, %(since)b) AS l (lane, room, since)
CROSS JOIN LATERAL (
    SELECT
        p.bucket, p.event_id, p.client_id, p.url, p.lane, p.attempts, p.attempts_before, p.faults, p.created_at,
        p.next_at
    FROM deliveries AS p
    WHERE p.lane = l.lane AND p.state = 'PENDING' AND p.next_at > l.since AND p.next_at <= %(now)b
        AND (p.leased_until IS NULL OR p.leased_until <= %(now)b OR p.leased_until > %(latest)b)
        AND p.event_id <> ALL(%(in_hand)b)
    ORDER BY p.next_at
    LIMIT l.room
) AS d
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id;

-- name: update_deliveries_leased
-- The lease: whoever writes the outcome must still hold this claim. The attempt is counted now. Only what is as it
-- was found: another worker may have been faster. That it is not final is said by the missing time, for naming the
-- state would offer the planner the index of what is pending.
UPDATE deliveries AS d
SET claim_id = %(claim_id)b, leased_until = %(lease_until)b, attempts = d.attempts + 1, last_attempt_at = %(at)b
FROM unnest(%(bucket)b, %(event_id)b, %(attempts)b) AS u (bucket, event_id, attempts)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b)
    AND d.final_at IS NULL AND d.attempts = u.attempts AND d.next_at <= %(now)b
    AND (d.leased_until IS NULL OR d.leased_until <= %(now)b OR d.leased_until > %(latest)b)
RETURNING d.event_id;

-- name: select_payloads
-- What is sent. The ids name the days, so that the planner sees which partitions to look into.
SELECT p.event_id, p.body
FROM payloads AS p
WHERE p.bucket = ANY(%(buckets)b) AND p.event_id = ANY(%(event_id)b);

-- name: update_deliveries_without_payload
-- What was to be sent is not kept any more: nobody can send it.
UPDATE deliveries AS d
SET state = 'DEAD', next_at = NULL, claim_id = NULL, leased_until = NULL, final_at = %(at)b,
    last_status = NULL, last_reason = 'the notification is too old: it is not kept any more',
    attempts = greatest(d.attempts - 1, d.attempts_before)
FROM unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b)
    AND d.claim_id = %(claim_id)b;

-- name: update_deliveries_outcome
-- What became of the attempts, where the claim is still ours.
UPDATE deliveries AS d
SET state = u.state, next_at = u.next_at, claim_id = NULL, leased_until = NULL, final_at = u.final_at,
    last_status = u.last_status, last_reason = u.last_reason,
    faults = coalesce(string_to_array(nullif(u.faults, ''), ','), '{}')
FROM unnest(
    %(bucket)b, %(event_id)b, %(claim_id)b, %(state)b, %(next_at)b, %(final_at)b, %(last_status)b,
    %(last_reason)b, %(faults)b
) AS u (bucket, event_id, claim_id, state, next_at, final_at, last_status, last_reason, faults)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b)
    AND d.claim_id = u.claim_id
RETURNING d.event_id;

-- name: insert_attempts
-- The attempts that were made, whoever holds the claims now.
INSERT INTO attempts (
    bucket, event_id, attempt, client_id, url, started_at, key_version, outcome, status, reason, resolve_us,
    connect_us, tls_us, first_byte_us, total_us, answer
)
SELECT
    u.bucket, u.event_id, u.attempt, u.client_id, u.url, u.started_at, u.key_version, u.outcome, u.status,
    u.reason, u.resolve_us, u.connect_us, u.tls_us, u.first_byte_us, u.total_us, u.answer
FROM buckets AS k
JOIN unnest(
    %(bucket)b, %(event_id)b, %(attempt)b, %(client_id)b, %(url)b, %(started_at)b, %(key_version)b, %(outcome)b,
    %(status)b, %(reason)b, %(resolve_us)b, %(connect_us)b, %(tls_us)b, %(first_byte_us)b, %(total_us)b, %(answer)b
) AS u (
    bucket, event_id, attempt, client_id, url, started_at, key_version, outcome, status, reason, resolve_us,
    connect_us, tls_us, first_byte_us, total_us, answer
) ON u.bucket = k.bucket
WHERE k.bucket = ANY(%(buckets)b)
ON CONFLICT DO NOTHING;

-- name: update_deliveries_given_back
-- Leased and not sent: as if it had not been leased.
UPDATE deliveries AS d
SET claim_id = NULL, leased_until = NULL, attempts = greatest(d.attempts - 1, d.attempts_before)
FROM unnest(%(bucket)b, %(event_id)b, %(claim_id)b) AS u (bucket, event_id, claim_id)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b)
    AND d.claim_id = u.claim_id;

-- name: update_deliveries_out_of_reach
-- Due later than any attempt can be put off: a clock was wrong when it was.
UPDATE deliveries
SET next_at = %(now)b
WHERE state = 'PENDING' AND next_at > %(latest)b;

-- name: select_failing_lanes
SELECT f.lane, f.client_id, f.failures, f.failing_since, f.opened_at, f.last_reason
FROM failing_lanes AS f
ORDER BY f.updated_at DESC
LIMIT %(limit)b;

-- name: insert_failing_lanes
INSERT INTO failing_lanes (lane, client_id, failures, failing_since, opened_at, last_reason, updated_at)
SELECT u.lane, u.client_id, u.failures, u.failing_since, u.opened_at, u.last_reason, %(at)b
FROM unnest(
    %(lane)b, %(client_id)b, %(failures)b, %(failing_since)b, %(opened_at)b, %(last_reason)b
) AS u (lane, client_id, failures, failing_since, opened_at, last_reason)
ORDER BY u.lane
ON CONFLICT (lane) DO UPDATE
SET failures = excluded.failures, failing_since = excluded.failing_since, opened_at = excluded.opened_at,
    last_reason = excluded.last_reason, updated_at = excluded.updated_at;

-- name: delete_failing_lanes
-- They answer again.
DELETE FROM failing_lanes
WHERE lane = ANY(%(lane)b);

-- name: delete_failing_lanes_of_old
-- Nothing is sent there any more.
DELETE FROM failing_lanes
WHERE updated_at < %(before)b;
