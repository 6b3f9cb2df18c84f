-- Failing destinations of which a merchant's people are to be told something new.

-- name: select_due_alarms
-- First: what there may be to tell. Of destinations to which nothing was sent for long, nothing.
SELECT f.lane, f.client_id, f.failures, f.failing_since, f.opened_at, f.last_reason
FROM failing_lanes AS f
LEFT JOIN lane_alarms AS a ON a.lane = f.lane AND a.failing_since >= f.failing_since
WHERE f.failing_since <= %(hour_ago)s AND f.updated_at > %(quiet_since)s
    AND coalesce(a.told, 0) < CASE WHEN f.failing_since <= %(day_ago)s THEN 2 ELSE 1 END
    AND (a.leased_until IS NULL OR a.leased_until <= %(now)s)
ORDER BY f.failing_since
LIMIT %(limit)s;

-- name: claim_alarms
-- Second: this worker tells it, unless another has been faster.
INSERT INTO lane_alarms AS a (lane, client_id, failing_since, told, claim_id, leased_until)
SELECT u.lane, u.client_id, u.failing_since, 0, %(claim_id)s, %(leased_until)s
FROM unnest(%(lane)b, %(client_id)b, %(failing_since)b) AS u (lane, client_id, failing_since)
ORDER BY u.lane
ON CONFLICT (lane) DO UPDATE
SET failing_since = excluded.failing_since, claim_id = excluded.claim_id, leased_until = excluded.leased_until,
    told = CASE WHEN a.failing_since < excluded.failing_since THEN 0 ELSE a.told END
WHERE a.leased_until IS NULL OR a.leased_until <= %(now)s
RETURNING a.lane, a.told;

-- name: select_recovered
-- Destinations that people were told of, and that are not failing any more.
SELECT a.lane
FROM lane_alarms AS a
LEFT JOIN failing_lanes AS f ON f.lane = a.lane
WHERE f.lane IS NULL AND a.told > 0 AND (a.leased_until IS NULL OR a.leased_until <= %(now)s)
ORDER BY a.lane
LIMIT %(limit)s;

-- name: claim_recovered
UPDATE lane_alarms AS a
SET claim_id = %(claim_id)s, leased_until = %(leased_until)s
WHERE a.lane = ANY(%(lane)b) AND a.told > 0 AND (a.leased_until IS NULL OR a.leased_until <= %(now)s)
RETURNING a.lane, a.client_id, a.failing_since;

-- name: update_told
-- Third, when the mail is out: it is not sent again.
UPDATE lane_alarms
SET told = %(told)s, claim_id = NULL, leased_until = NULL
WHERE lane = %(lane)s AND claim_id = %(claim_id)s;

-- name: update_quiet
-- Nothing is sent there any more: it has not recovered, but is about to be forgotten.
UPDATE lane_alarms AS a
SET told = 0
FROM failing_lanes AS f
WHERE f.lane = a.lane AND f.updated_at <= %(quiet_since)s AND a.told > 0;
