-- The set of buckets restricts `u`, the batch, and not the table: a restriction on the table's own column would
-- offer the planner the whole bucket as the outer side of the join, for which it asks whenever its statistics are
-- old. So the one way left is a look-up by primary key for each row of the batch.

-- name: insert_payments
-- A batch of new payments; those whose request id (or id) exists are left out of what is returned.
INSERT INTO payments (
    bucket, payment_id, client_id, payment_request_id, operation, state, currency, amount_minor,
    notify_url, external_store_id, extend_info, request_body, answer, created_at, expires_at, due_at,
    request_time, key_version, signature
)
SELECT
    u.bucket, u.payment_id, u.client_id, u.payment_request_id, u.operation, 'PROCESSING', u.currency,
    u.amount_minor, u.notify_url, u.external_store_id, u.extend_info, u.request_body, u.answer,
    u.created_at, u.expires_at, u.due_at, u.request_time, u.key_version, u.signature
FROM buckets AS k
JOIN unnest(
    %(bucket)b, %(payment_id)b, %(client_id)b, %(payment_request_id)b, %(operation)b, %(currency)b,
    %(amount_minor)b, %(notify_url)b, %(external_store_id)b, %(extend_info)b, %(request_body)b, %(answer)b,
    %(created_at)b, %(expires_at)b, %(due_at)b, %(request_time)b, %(key_version)b, %(signature)b
) AS u (
    bucket, payment_id, client_id, payment_request_id, operation, currency, amount_minor, notify_url,
    external_store_id, extend_info, request_body, answer, created_at, expires_at, due_at, request_time,
    key_version, signature
) ON u.bucket = k.bucket
WHERE k.bucket = ANY(%(buckets)b)
ON CONFLICT DO NOTHING
RETURNING payment_id;

-- name: select_payments_by_request
-- Whole payments, by the merchant's own id.
SELECT
    p.bucket, p.payment_id, p.client_id, p.payment_request_id, p.operation, p.state, p.currency,
    p.amount_minor, p.notify_url, p.external_store_id, p.extend_info, p.request_body, p.answer,
    p.failure_code, p.event_id, p.created_at, p.expires_at, p.due_at, p.final_at, p.request_time,
    p.key_version, p.signature
FROM payments AS p
JOIN unnest(%(bucket)b, %(client_id)b, %(payment_request_id)b) AS u (bucket, client_id, payment_request_id)
    ON p.bucket = u.bucket AND p.client_id = u.client_id AND p.payment_request_id = u.payment_request_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: select_payments_by_id
-- Whole payments, by our id; whose they are is the caller's to check.
SELECT
    p.bucket, p.payment_id, p.client_id, p.payment_request_id, p.operation, p.state, p.currency,
    p.amount_minor, p.notify_url, p.external_store_id, p.extend_info, p.request_body, p.answer,
    p.failure_code, p.event_id, p.created_at, p.expires_at, p.due_at, p.final_at, p.request_time,
    p.key_version, p.signature
FROM payments AS p
JOIN unnest(%(bucket)b, %(payment_id)b) AS u (bucket, payment_id)
    ON p.bucket = u.bucket AND p.payment_id = u.payment_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: select_standings_by_request
-- What an inquiry tells, by the merchant's own id.
SELECT
    p.payment_id, p.client_id, p.payment_request_id, p.state, p.currency, p.amount_minor, p.failure_code,
    p.final_at
FROM payments AS p
JOIN unnest(%(bucket)b, %(client_id)b, %(payment_request_id)b) AS u (bucket, client_id, payment_request_id)
    ON p.bucket = u.bucket AND p.client_id = u.client_id AND p.payment_request_id = u.payment_request_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: select_standings_by_id
-- What an inquiry tells, by our id; whose payment it is, is the caller's to check.
SELECT
    p.payment_id, p.client_id, p.payment_request_id, p.state, p.currency, p.amount_minor, p.failure_code,
    p.final_at
FROM payments AS p
JOIN unnest(%(bucket)b, %(payment_id)b) AS u (bucket, payment_id)
    ON p.bucket = u.bucket AND p.payment_id = u.payment_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: update_payments_final
-- First of the four statements that settle: only a payment still PROCESSING takes its event's id.
-- Said by the missing event, which a CHECK ties to the state: naming the state would offer the planner the
-- partial index of due payments, and with it all of a bucket's rows for each row of the batch.
UPDATE payments AS p
SET state = u.state, failure_code = u.failure_code, event_id = u.event_id, final_at = u.final_at,
    due_at = NULL, answer = coalesce(u.answer, p.answer)
FROM unnest(
    %(bucket)b, %(payment_id)b, %(state)b, %(failure_code)b, %(event_id)b, %(final_at)b, %(answer)b
) AS u (bucket, payment_id, state, failure_code, event_id, final_at, answer)
WHERE p.bucket = u.bucket AND p.payment_id = u.payment_id AND u.bucket = ANY(%(buckets)b)
    AND p.event_id IS NULL
RETURNING p.event_id;

-- name: insert_events_of_settled
-- Second: the event of each payment that the first statement settled, known by the id it took.
INSERT INTO events (bucket, event_id, client_id, payment_id, event_type, created_at)
SELECT u.bucket, u.event_id, u.client_id, u.payment_id, u.event_type, u.created_at
FROM payments AS p
JOIN unnest(
    %(bucket)b, %(event_id)b, %(client_id)b, %(payment_id)b, %(event_type)b, %(created_at)b
) AS u (bucket, event_id, client_id, payment_id, event_type, created_at)
    ON p.bucket = u.bucket AND p.payment_id = u.payment_id AND p.event_id = u.event_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: insert_payloads_of_events
-- Third: the bytes to be notified, of each event that the second statement wrote.
INSERT INTO payloads (bucket, event_id, body)
SELECT u.bucket, u.event_id, u.body
FROM events AS e
JOIN unnest(%(bucket)b, %(event_id)b, %(body)b) AS u (bucket, event_id, body)
    ON e.bucket = u.bucket AND e.event_id = u.event_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: insert_deliveries_of_events
-- Fourth: where there is a destination, the delivery of each event that the second statement wrote.
INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, next_at, faults, created_at)
SELECT
    u.bucket, u.event_id, u.client_id, u.url, u.lane, 'PENDING', u.next_at,
    coalesce(string_to_array(nullif(u.faults, ''), ','), '{}'), u.created_at
FROM events AS e
JOIN unnest(
    %(bucket)b, %(event_id)b, %(client_id)b, %(url)b, %(lane)b, %(next_at)b, %(faults)b, %(created_at)b
) AS u (bucket, event_id, client_id, url, lane, next_at, faults, created_at)
    ON e.bucket = u.bucket AND e.event_id = u.event_id
WHERE u.bucket = ANY(%(buckets)b);

-- name: select_due_payments
-- The payments the worker has to look at; locked until it has taken them, passing over another's.
SELECT
    p.bucket, p.payment_id, p.client_id, p.payment_request_id, p.operation, p.state, p.currency,
    p.amount_minor, p.notify_url, p.external_store_id, p.extend_info, CASE p.operation WHEN 'retailPay' THEN p.request_body ELSE ''::bytea END AS request_body,
    NULL::bytea AS answer, p.failure_code, p.event_id, p.created_at, p.expires_at, p.due_at, p.final_at,
    NULL::text AS request_time, NULL::integer AS key_version, NULL::bytea AS signature
FROM payments AS p
WHERE p.bucket = ANY(%(bucket)b) AND p.state = 'PROCESSING' AND p.due_at <= %(now)b
ORDER BY p.due_at
LIMIT %(limit)b
FOR UPDATE SKIP LOCKED;

-- name: update_payments_due
-- When the worker looks next: the end of its lease, or when the wallet is to be asked again.
UPDATE payments AS p
SET due_at = u.due_at
FROM unnest(%(bucket)b, %(payment_id)b, %(due_at)b) AS u (bucket, payment_id, due_at)
WHERE p.bucket = u.bucket AND p.payment_id = u.payment_id AND u.bucket = ANY(%(buckets)b)
    AND p.event_id IS NULL;

-- name: update_payment_answer
-- The first answer of a retailPay that waits for the customer, who may have decided by now.
UPDATE payments
SET answer = %(answer)b, due_at = CASE state WHEN 'PROCESSING' THEN %(due_at)b END
WHERE bucket = %(bucket)b AND payment_id = %(payment_id)b AND answer IS NULL;
