-- Spans of a merchant's events that are sent again, page by page.

-- name: insert_replay
-- Unless one is running already.
INSERT INTO replays (
    replay_id, client_id, state, beginning, until, statuses, rate_per_s, total, started_by, created_at, updated_at,
    next_at
)
VALUES (
    %(replay_id)s, %(client_id)s, 'RUNNING', %(beginning)s, %(until)s, %(statuses)b, %(rate_per_s)s, %(total)s,
    %(started_by)s, %(now)s, %(now)s, %(now)s
)
ON CONFLICT (client_id) WHERE state = 'RUNNING' DO NOTHING;

-- name: select_replay
SELECT
    replay_id, client_id, state, beginning, until, statuses, rate_per_s, total, looked_at, resent, in_flight, nowhere,
    body_gone, changed, last_event_id, started_by, created_at, updated_at, ended_at
FROM replays
WHERE client_id = %(client_id)s AND replay_id = %(replay_id)s;

-- name: select_replays
-- The latest first; their ids begin with their time.
SELECT
    replay_id, client_id, state, beginning, until, statuses, rate_per_s, total, looked_at, resent, in_flight, nowhere,
    body_gone, changed, last_event_id, started_by, created_at, updated_at, ended_at
FROM replays
WHERE client_id = %(client_id)s
ORDER BY replay_id DESC
LIMIT %(limit)s;

-- name: stop_replay
-- Its lease is left alone: whoever has a page under way writes how that went.
UPDATE replays
SET state = 'STOPPED', next_at = NULL, ended_at = %(now)s, updated_at = %(now)s
WHERE client_id = %(client_id)s AND replay_id = %(replay_id)s AND state = 'RUNNING';

-- name: resume_replay
UPDATE replays
SET state = 'RUNNING', next_at = %(now)s, ended_at = NULL, updated_at = %(now)s
WHERE client_id = %(client_id)s AND replay_id = %(replay_id)s AND state = 'STOPPED';

-- name: claim_replays
-- Those of which a page is due, and that nobody is at.
UPDATE replays AS r
SET claim_id = %(claim_id)s, leased_until = %(leased_until)s
FROM (
    SELECT replay_id FROM replays
    WHERE state = 'RUNNING' AND next_at <= %(now)s AND (leased_until IS NULL OR leased_until <= %(now)s)
    ORDER BY next_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS due
WHERE r.replay_id = due.replay_id
RETURNING
    r.replay_id, r.client_id, r.state, r.beginning, r.until, r.statuses, r.rate_per_s, r.total, r.looked_at, r.resent,
    r.in_flight, r.nowhere, r.body_gone, r.changed, r.last_event_id, r.started_by, r.created_at, r.updated_at,
    r.ended_at;

-- name: record_page
-- What a page came to, if the claim is still ours. Somebody may have stopped it meanwhile: then it stays stopped.
UPDATE replays
SET looked_at = looked_at + %(looked_at)s, resent = resent + %(resent)s, in_flight = in_flight + %(in_flight)s,
    nowhere = nowhere + %(nowhere)s, body_gone = body_gone + %(body_gone)s, changed = changed + %(changed)s,
    last_event_id = coalesce(%(last_event_id)s, last_event_id), claim_id = NULL, leased_until = NULL,
    state = CASE WHEN %(is_done)s THEN 'DONE' ELSE state END,
    next_at = CASE WHEN state = 'RUNNING' AND NOT %(is_done)s THEN %(next_at)s::timestamptz END,
    ended_at = CASE WHEN %(is_done)s THEN %(now)s ELSE ended_at END,
    updated_at = %(now)s
WHERE replay_id = %(replay_id)s AND claim_id = %(claim_id)s;

