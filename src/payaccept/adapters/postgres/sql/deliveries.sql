-- name: select_due_deliveries
-- Deliveries whose time has come, or whose worker's lease has ended without a word; locked until we have
-- leased those for which their lane has room.
SELECT d.bucket, d.event_id, d.client_id, d.url, d.lane, d.attempts, d.faults, e.body
FROM deliveries AS d
JOIN events AS e ON e.bucket = d.bucket AND e.event_id = d.event_id
WHERE d.bucket = ANY(%(bucket)b) AND d.state IN ('DUE', 'LEASED') AND d.next_at <= %(now)b
    AND d.lane <> ALL(%(full_lanes)b)
ORDER BY d.next_at
LIMIT %(limit)b
FOR UPDATE OF d SKIP LOCKED;

-- name: update_deliveries_leased
-- The lease: whoever writes the outcome must still hold this claim. The attempt is counted now.
UPDATE deliveries AS d
SET state = 'LEASED', claim_id = %(claim_id)b, next_at = %(lease_until)b, attempts = d.attempts + 1,
    last_attempt_at = %(now)b
FROM unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b);

-- name: update_deliveries_outcome
-- What became of the attempts, where the claim is still ours; only a LEASED delivery has a claim.
UPDATE deliveries AS d
SET state = u.state, next_at = u.next_at, claim_id = NULL, final_at = u.final_at, last_status = u.last_status,
    last_reason = u.last_reason, faults = coalesce(string_to_array(nullif(u.faults, ''), ','), '{}')
FROM unnest(
    %(bucket)b, %(event_id)b, %(claim_id)b, %(state)b, %(next_at)b, %(final_at)b, %(last_status)b,
    %(last_reason)b, %(faults)b
) AS u (bucket, event_id, claim_id, state, next_at, final_at, last_status, last_reason, faults)
WHERE d.bucket = u.bucket AND d.event_id = u.event_id AND u.bucket = ANY(%(buckets)b)
    AND d.claim_id = u.claim_id
RETURNING d.event_id;
