-- name: lock_rate_windows
-- In the order of their names, so that two processes never wait for each other.
SELECT client_id, times_us FROM rate_windows
WHERE client_id = ANY(%(client_id)b)
ORDER BY client_id
FOR UPDATE;

-- name: insert_rate_windows
INSERT INTO rate_windows (client_id, times_us)
SELECT client_id, '{}' FROM unnest(%(client_id)b) AS client_id
ORDER BY client_id
ON CONFLICT DO NOTHING;

-- name: update_rate_window
UPDATE rate_windows SET times_us = %(times_us)s::bigint[] WHERE client_id = %(client_id)s;
