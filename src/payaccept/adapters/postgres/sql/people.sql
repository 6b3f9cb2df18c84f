-- name: select_members
SELECT u.user_id, u.email, u.name, u.staff, u.totp_secret IS NOT NULL, u.created_at, u.password_changed_at,
    m.role, m.created_at
FROM memberships AS m
JOIN users AS u ON u.user_id = m.user_id
WHERE m.client_id = %(client_id)s AND m.ended_at IS NULL
ORDER BY m.created_at, u.user_id;

-- name: lock_members
-- Every change of who is in a merchant takes these first, so that two owners cannot remove each other at once.
SELECT user_id, role
FROM memberships
WHERE client_id = %(client_id)s AND ended_at IS NULL
ORDER BY user_id
FOR UPDATE;

-- name: update_role
UPDATE memberships SET role = %(role)s
WHERE client_id = %(client_id)s AND user_id = %(user_id)s AND ended_at IS NULL;

-- name: end_membership
UPDATE memberships SET ended_at = %(now)s
WHERE client_id = %(client_id)s AND user_id = %(user_id)s AND ended_at IS NULL;

-- name: insert_membership
-- Who comes back gets the row it had.
INSERT INTO memberships (client_id, user_id, role, created_at)
VALUES (%(client_id)s, %(user_id)s, %(role)s, %(now)s)
ON CONFLICT (client_id, user_id) DO UPDATE
SET role = excluded.role, created_at = excluded.created_at, ended_at = NULL
WHERE memberships.ended_at IS NOT NULL;

-- name: insert_link
INSERT INTO one_time_links (
    link_id, token_hash, purpose, email, email_key, client_id, role, created_by, created_at, expires_at
) VALUES (
    %(link_id)s, %(token_hash)s, %(purpose)s, %(email)s, %(email_key)s, %(client_id)s, %(role)s, %(created_by)s,
    %(created_at)s, %(expires_at)s
);

-- name: replace_links
-- Of one kind for one person, the newest link is the one that works.
UPDATE one_time_links SET revoked_at = %(now)s
WHERE email_key = %(email_key)s AND purpose = %(purpose)s AND client_id IS NOT DISTINCT FROM %(client_id)s::text
    AND used_at IS NULL AND revoked_at IS NULL;

-- name: select_link
SELECT l.link_id, l.purpose, l.email, l.client_id, k.name, l.role, l.created_by, l.created_at, l.expires_at
FROM one_time_links AS l
LEFT JOIN merchants AS k ON k.client_id = l.client_id
WHERE l.token_hash = %(token_hash)s AND l.used_at IS NULL AND l.revoked_at IS NULL AND l.expires_at > %(now)s;

-- name: select_links_of_merchant
SELECT l.link_id, l.purpose, l.email, l.client_id, k.name, l.role, l.created_by, l.created_at, l.expires_at
FROM one_time_links AS l
JOIN merchants AS k ON k.client_id = l.client_id
WHERE l.client_id = %(client_id)s AND l.used_at IS NULL AND l.revoked_at IS NULL AND l.expires_at > %(now)s
ORDER BY l.created_at, l.link_id;

-- name: use_link
-- Of any number of attempts with one link, one changes a row.
UPDATE one_time_links SET used_at = %(now)s
WHERE link_id = %(link_id)s AND used_at IS NULL AND revoked_at IS NULL AND expires_at > %(now)s;

-- name: revoke_link
UPDATE one_time_links SET revoked_at = %(now)s
WHERE client_id = %(client_id)s AND link_id = %(link_id)s AND used_at IS NULL AND revoked_at IS NULL;
