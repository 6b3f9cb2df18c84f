-- How the deployment has been: a row for each minute and figure, to which every process adds, and one for each process.

-- name: add_health_minutes
-- In one order by all processes, so that none waits for another in a circle.
INSERT INTO health_minutes AS h (minute, figure, label, amount)
SELECT u.minute, u.figure, u.label, u.amount
FROM unnest(%(minute)b, %(figure)b, %(label)b, %(amount)b) AS u (minute, figure, label, amount)
ORDER BY u.minute, u.figure, u.label
ON CONFLICT (minute, figure, label) DO UPDATE
SET amount = h.amount + excluded.amount;

-- name: raise_health_minutes
-- Of what is and does not add up, the worst of the minute stays.
INSERT INTO health_minutes AS h (minute, figure, label, amount)
SELECT u.minute, u.figure, u.label, u.amount
FROM unnest(%(minute)b, %(figure)b, %(label)b, %(amount)b) AS u (minute, figure, label, amount)
ORDER BY u.minute, u.figure, u.label
ON CONFLICT (minute, figure, label) DO UPDATE
SET amount = greatest(h.amount, excluded.amount);

-- name: insert_process
INSERT INTO processes AS p (
    process_id, kind, host, pid, version, started_at, seen_at, cpu_permille, memory_bytes
) VALUES (
    %(process_id)s, %(kind)s, %(host)s, %(pid)s, %(version)s, %(started_at)s, %(seen_at)s, %(cpu_permille)s,
    %(memory_bytes)s
)
ON CONFLICT (process_id) DO UPDATE
SET seen_at = greatest(p.seen_at, excluded.seen_at), cpu_permille = excluded.cpu_permille,
    memory_bytes = excluded.memory_bytes;

-- name: delete_process
-- It has ended in good order, and nobody needs to wonder where it is.
DELETE FROM processes WHERE process_id = %(process_id)s;

-- name: expire_health_minutes
DELETE FROM health_minutes WHERE minute < %(before)s;

-- name: expire_processes
DELETE FROM processes WHERE seen_at < %(before)s;

-- name: select_health
-- Spans of so many minutes, counted from 1970 on: counts summed, states at their worst.
SELECT
    date_bin(make_interval(mins => %(step)s), h.minute, 'epoch') AS at, h.figure, h.label,
    sum(h.amount)::bigint AS total, max(h.amount) AS most
FROM health_minutes AS h
WHERE h.minute >= %(since)s
GROUP BY at, h.figure, h.label
ORDER BY at, h.figure, h.label;

-- name: select_processes
SELECT
    p.process_id, p.kind, p.host, p.pid, p.version, p.started_at, p.seen_at, p.cpu_permille, p.memory_bytes
FROM processes AS p
ORDER BY p.kind, p.host, p.started_at, p.process_id
LIMIT %(limit)s;
