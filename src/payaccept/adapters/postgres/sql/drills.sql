-- name: lock_merchant
-- Whoever asks for a drill of the merchant's waits here for whoever asks at the same moment.
SELECT client_id
FROM merchants
WHERE client_id = %(client_id)s
FOR NO KEY UPDATE;

-- name: insert_drill
INSERT INTO drills (drill_id, client_id, url, asked_by, created_at)
VALUES (%(drill_id)s, %(client_id)s, %(url)s, %(asked_by)s, %(created_at)s);

-- name: insert_step
INSERT INTO drill_steps (drill_id, number, exercise, event_id, sequence, attempt, body)
VALUES (%(drill_id)s, %(number)s, %(exercise)s, %(event_id)s, %(sequence)s, %(attempt)s, %(body)s);

-- name: trim_drills
-- All but the newest of a merchant's, by the id of the oldest that stays; their steps go with them.
DELETE FROM drills
WHERE client_id = %(client_id)s AND ended_at IS NOT NULL AND drill_id < %(oldest_kept)s;

-- name: select_drills
-- The newest first.
SELECT drill_id, client_id, url, asked_by, created_at, ended_at
FROM drills
WHERE client_id = %(client_id)s
ORDER BY drill_id DESC
LIMIT %(limit)s;

-- name: select_drill
SELECT drill_id, client_id, url, asked_by, created_at, ended_at
FROM drills
WHERE client_id = %(client_id)s AND drill_id = %(drill_id)s;

-- name: select_steps
SELECT
    drill_id, number, exercise, event_id, sequence, attempt, body, headers, sent_at, answered_at, status, refusal,
    unreachable, total_us, answer_bytes
FROM drill_steps
WHERE drill_id = ANY(%(drill_ids)s)
ORDER BY drill_id, number;

-- name: lock_open_drills
-- Those that no worker has, or whose worker has not been heard of for as long as its lease.
SELECT drill_id, client_id, url, asked_by, created_at, ended_at
FROM drills
WHERE ended_at IS NULL AND (leased_until IS NULL OR leased_until < %(now)s)
ORDER BY drill_id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: claim_drills
UPDATE drills
SET claim_id = %(claim_id)s, leased_until = %(leased_until)s
WHERE drill_id = ANY(%(drill_ids)s);

-- name: extend_lease
UPDATE drills
SET leased_until = %(leased_until)s
WHERE drill_id = %(drill_id)s AND claim_id = %(claim_id)s
RETURNING drill_id;

-- name: begin_step
-- Once: what may have been sent is not sent again.
UPDATE drill_steps
SET sent_at = %(sent_at)s, headers = %(headers)s
WHERE drill_id = %(drill_id)s AND number = %(number)s AND sent_at IS NULL
RETURNING number;

-- name: record_step
UPDATE drill_steps
SET answered_at = %(answered_at)s, status = %(status)s, refusal = %(refusal)s, unreachable = %(unreachable)s,
    total_us = %(total_us)s, answer_bytes = %(answer_bytes)s
WHERE drill_id = %(drill_id)s AND number = %(number)s AND sent_at IS NOT NULL AND answered_at IS NULL;

-- name: end_drill
UPDATE drills
SET ended_at = %(now)s, claim_id = NULL, leased_until = NULL
WHERE drill_id = %(drill_id)s AND claim_id = %(claim_id)s;

-- name: give_back_drill
UPDATE drills
SET claim_id = NULL, leased_until = NULL
WHERE drill_id = %(drill_id)s AND claim_id = %(claim_id)s;
