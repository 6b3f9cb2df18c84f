-- Days are partitions; `payloads_default` and `attempts_default` hold what no day's partition has taken.

-- name: set_lock_timeout
-- Who waits for a lock on a table keeps everybody who comes later waiting as well, payments among them.
SELECT set_config('lock_timeout', %(lock_timeout)s, false);

-- name: lock_maintenance
SELECT pg_advisory_lock(%(key)s);

-- name: unlock_maintenance
SELECT pg_advisory_unlock(%(key)s);

-- name: select_database_time
SELECT now();

-- name: select_partitions
-- The partitions of a table, and which constraint an earlier, unfinished attempt has left on its default.
SELECT c.relname, k.conname
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
LEFT JOIN pg_constraint AS k ON k.conrelid = c.oid AND k.conname = %(making)s
WHERE i.inhparent = to_regclass(%(table)s);

-- name: select_default_size
SELECT pg_relation_size(to_regclass(%(table)s));

-- name: payloads_default_holds
SELECT EXISTS (
    SELECT FROM payloads_default AS p WHERE p.event_id >= %(first)s AND p.event_id < %(end)s
);

-- name: attempts_default_holds
SELECT EXISTS (
    SELECT FROM attempts_default AS a
    WHERE a.started_at >= %(first)s::timestamptz AND a.started_at < %(end)s::timestamptz
);

-- name: payloads_awaited
-- Whether something is still to be sent of those days: with its payload it would be lost.
SELECT EXISTS (
    SELECT FROM deliveries AS d
    WHERE d.state = 'PENDING' AND d.event_id >= %(first)s AND d.event_id < %(end)s
);

-- name: attempts_awaited
-- An attempt that has been made is needed for nothing.
SELECT false;

-- name: select_expired_payloads
-- Of the default partition, what is too old by the time in its id, and not still to be sent: a clock that was
-- far behind gives an event an old id.
SELECT p.bucket, p.event_id
FROM payloads_default AS p
LEFT JOIN deliveries AS d ON d.bucket = p.bucket AND d.event_id = p.event_id AND d.state = 'PENDING'
WHERE p.event_id < %(end)s AND d.event_id IS NULL
LIMIT %(limit)s;

-- name: delete_payloads
DELETE FROM payloads_default AS p
USING unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id)
WHERE p.bucket = u.bucket AND p.event_id = u.event_id;

-- name: select_expired_attempts
-- An attempt is younger than its event: the id bounds what has to be looked at.
SELECT DISTINCT a.bucket, a.event_id
FROM attempts_default AS a
WHERE a.event_id < %(event_end)s AND a.started_at < %(end)s::timestamptz
LIMIT %(limit)s;

-- name: delete_attempts
DELETE FROM attempts_default AS a
USING unnest(%(bucket)b, %(event_id)b) AS u (bucket, event_id)
WHERE a.bucket = u.bucket AND a.event_id = u.event_id AND a.started_at < %(end)s::timestamptz;
