-- name: add_key_minutes
-- In one order by all processes, so that none waits for another in a circle.
INSERT INTO key_minutes AS k (client_id, minute, key_version, uses, least_skew_ms, greatest_skew_ms)
SELECT u.client_id, u.minute, u.key_version, u.uses, u.least_skew_ms, u.greatest_skew_ms
FROM unnest(
    %(client_id)b, %(minute)b, %(key_version)b, %(uses)b, %(least_skew_ms)b, %(greatest_skew_ms)b
) AS u (client_id, minute, key_version, uses, least_skew_ms, greatest_skew_ms)
ORDER BY u.client_id, u.minute, u.key_version
ON CONFLICT (client_id, minute, key_version) DO UPDATE
SET uses = k.uses + excluded.uses,
    least_skew_ms = least(k.least_skew_ms, excluded.least_skew_ms),
    greatest_skew_ms = greatest(k.greatest_skew_ms, excluded.greatest_skew_ms);

-- name: add_key_uses
INSERT INTO key_uses AS k (client_id, key_version, uses, first_used_at, last_used_at)
SELECT u.client_id, u.key_version, sum(u.uses), min(u.first_used_at), max(u.last_used_at)
FROM unnest(%(client_id)b, %(key_version)b, %(uses)b, %(first_used_at)b, %(last_used_at)b)
    AS u (client_id, key_version, uses, first_used_at, last_used_at)
GROUP BY u.client_id, u.key_version
ORDER BY u.client_id, u.key_version
ON CONFLICT (client_id, key_version) DO UPDATE
SET uses = k.uses + excluded.uses,
    first_used_at = least(k.first_used_at, excluded.first_used_at),
    last_used_at = greatest(k.last_used_at, excluded.last_used_at);

-- name: add_refusal_minutes
-- A request may name a merchant that does not exist.
INSERT INTO refusal_minutes AS r (client_id, minute, result_code, refused, only_counted)
SELECT u.client_id, u.minute, u.result_code, u.refused, u.only_counted
FROM unnest(%(client_id)b, %(minute)b, %(result_code)b, %(refused)b, %(only_counted)b)
    AS u (client_id, minute, result_code, refused, only_counted)
JOIN merchants AS m ON m.client_id = u.client_id
ORDER BY u.client_id, u.minute, u.result_code
ON CONFLICT (client_id, minute, result_code) DO UPDATE
SET refused = r.refused + excluded.refused, only_counted = r.only_counted + excluded.only_counted;

-- name: insert_refused_requests
INSERT INTO refused_requests (
    client_id, request_id, received_at, method, target, status, result_code, message, skew_ms, address, host,
    user_agent, content_type, request_time, signature_header, body, body_bytes, body_is_whole
)
SELECT
    u.client_id, u.request_id, u.received_at, u.method, u.target, u.status, u.result_code, u.message, u.skew_ms,
    u.address, u.host, u.user_agent, u.content_type, u.request_time, u.signature_header, u.body, u.body_bytes,
    u.body_is_whole = 1
FROM unnest(
    %(client_id)b, %(request_id)b, %(received_at)b, %(method)b, %(target)b, %(status)b, %(result_code)b,
    %(message)b, %(skew_ms)b, %(address)b, %(host)b, %(user_agent)b, %(content_type)b, %(request_time)b,
    %(signature_header)b, %(body)b, %(body_bytes)b, %(body_is_whole)b
) AS u (
    client_id, request_id, received_at, method, target, status, result_code, message, skew_ms, address, host,
    user_agent, content_type, request_time, signature_header, body, body_bytes, body_is_whole
)
JOIN merchants AS m ON m.client_id = u.client_id
ON CONFLICT DO NOTHING;

-- name: trim_refused_requests
-- All but the newest of each merchant; ids are in the order of time.
DELETE FROM refused_requests AS r
USING unnest(%(client_id)b) AS u (client_id)
CROSS JOIN LATERAL (
    SELECT o.request_id FROM refused_requests AS o
    WHERE o.client_id = u.client_id
    ORDER BY o.request_id DESC
    OFFSET %(keep)b
    LIMIT 1
) AS newest_of_the_rest
WHERE r.client_id = u.client_id AND r.request_id <= newest_of_the_rest.request_id;

-- name: expire_refused_requests
DELETE FROM refused_requests WHERE received_at < %(before)s;

-- name: expire_refusal_minutes
DELETE FROM refusal_minutes WHERE minute < %(before)s;

-- name: expire_key_minutes
DELETE FROM key_minutes WHERE minute < %(before)s;

-- name: select_key_uses
SELECT key_version, uses, first_used_at, last_used_at FROM key_uses WHERE client_id = %(client_id)s;

-- name: select_key_minutes
SELECT minute, key_version, uses, least_skew_ms, greatest_skew_ms
FROM key_minutes
WHERE client_id = %(client_id)s AND minute >= %(since)s
ORDER BY minute, key_version;

-- name: select_refusal_counts
SELECT result_code, sum(refused)::bigint, sum(only_counted)::bigint, max(minute)
FROM refusal_minutes
WHERE client_id = %(client_id)s AND minute >= %(since)s
GROUP BY result_code
ORDER BY sum(refused) DESC, result_code;

-- name: select_refused_requests
-- Newest first; the last one shown is where the next page begins.
SELECT
    client_id, request_id, received_at, method, target, status, result_code, message, skew_ms, address, host,
    user_agent, content_type, request_time, signature_header, body, body_bytes, body_is_whole
FROM refused_requests
WHERE client_id = %(client_id)s AND request_id < %(before_id)s
    AND (%(result_code)s::text IS NULL OR result_code = %(result_code)s)
ORDER BY request_id DESC
LIMIT %(limit)s;

-- name: select_refused_request
SELECT
    client_id, request_id, received_at, method, target, status, result_code, message, skew_ms, address, host,
    user_agent, content_type, request_time, signature_header, body, body_bytes, body_is_whole
FROM refused_requests
WHERE client_id = %(client_id)s AND request_id = %(request_id)s;

-- name: select_accepted_requests
-- The newest payments of a merchant, by the index of its lists.
SELECT p.payment_id, p.payment_request_id, p.operation, p.state, p.created_at, p.key_version, p.request_time
FROM payments AS p
WHERE p.client_id = %(client_id)s AND p.payment_id < %(before_id)s
ORDER BY p.payment_id DESC
LIMIT %(limit)s;
