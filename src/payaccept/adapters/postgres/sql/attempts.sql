-- name: insert_buckets
-- What is to be locked has to be there first.
INSERT INTO attempt_buckets (kind, slot, level, updated_at)
SELECT u.kind, u.slot, 0, %(now)s FROM unnest(%(kind)s::text[], %(slot)s::integer[]) AS u (kind, slot)
ON CONFLICT DO NOTHING;

-- name: select_buckets
-- Locked in one order, so that two attempts never wait for each other in a circle.
SELECT kind, slot, level, updated_at
FROM attempt_buckets
WHERE (kind, slot) IN (
    SELECT u.kind, u.slot FROM unnest(%(kind)s::text[], %(slot)s::integer[]) AS u (kind, slot)
)
ORDER BY kind, slot
FOR UPDATE;

-- name: update_bucket
UPDATE attempt_buckets SET level = %(level)s, updated_at = %(now)s WHERE kind = %(kind)s AND slot = %(slot)s;
