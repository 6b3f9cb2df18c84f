-- What is left to do, for the figures. Each statement counts along one partial index, never through a table.

-- name: select_due
-- What is due, apart by whether the breaker of its lane is open. The oldest are those that nobody has in hand.
SELECT
    f.opened_at IS NOT NULL AS is_open, count(*) AS lanes, count(*) FILTER (WHERE l.oldest < %(late)s) AS late_lanes,
    sum(l.due)::bigint AS due, sum(l.leased)::bigint AS leased, min(l.oldest) AS oldest
FROM (
    SELECT
        d.lane, count(*) AS due, count(*) FILTER (WHERE d.leased_until > %(now)s) AS leased,
        min(d.next_at) FILTER (WHERE d.leased_until IS NULL OR d.leased_until <= %(now)s) AS oldest
    FROM deliveries AS d
    WHERE d.state = 'PENDING' AND d.next_at <= %(now)s
    GROUP BY d.lane
) AS l
LEFT JOIN failing_lanes AS f ON f.lane = l.lane
GROUP BY f.opened_at IS NOT NULL;

-- name: count_waiting
SELECT count(*)
FROM deliveries AS d
WHERE d.state = 'PENDING' AND d.next_at > %(now)s;

-- name: count_dead
SELECT count(*)
FROM deliveries AS d
WHERE d.state = 'DEAD';

-- name: count_unnumbered
SELECT count(*)
FROM events AS e
WHERE e.sequence IS NULL;

-- name: count_failing_lanes
SELECT count(*), count(f.opened_at)
FROM failing_lanes AS f;

-- name: select_oldest_due_payment
SELECT min(p.due_at)
FROM payments AS p
WHERE p.state = 'PROCESSING';
