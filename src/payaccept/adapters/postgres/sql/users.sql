-- name: insert_user
INSERT INTO users (user_id, email, email_key, name, staff, password_hash, password_changed_at, created_at)
VALUES (
    %(user_id)s, %(email)s, %(email_key)s, %(name)s, %(staff)s, %(password_hash)s, %(password_changed_at)s,
    %(created_at)s
);

-- name: select_account
SELECT user_id, email, name, staff, totp_secret IS NOT NULL, created_at, password_changed_at, password_hash, totp_secret,
    totp_last_step
FROM users
WHERE user_id = %(user_id)s;

-- name: select_account_by_email
SELECT user_id, email, name, staff, totp_secret IS NOT NULL, created_at, password_changed_at, password_hash, totp_secret,
    totp_last_step
FROM users
WHERE email_key = %(email_key)s;

-- name: select_staff
SELECT user_id, email, name, staff, totp_secret IS NOT NULL, created_at, password_changed_at
FROM users
WHERE staff
ORDER BY email_key;

-- name: update_staff
UPDATE users SET staff = %(staff)s WHERE user_id = %(user_id)s;

-- name: update_name
UPDATE users SET name = %(name)s WHERE user_id = %(user_id)s;

-- name: update_password
UPDATE users SET password_hash = %(password_hash)s, password_changed_at = %(now)s WHERE user_id = %(user_id)s;

-- name: update_password_hash
-- The same password under the cost of today, unless it was changed meanwhile.
UPDATE users SET password_hash = %(password_hash)s
WHERE user_id = %(user_id)s AND password_hash = %(old_password_hash)s;

-- name: update_totp
UPDATE users SET totp_secret = %(totp_secret)s, totp_last_step = %(totp_last_step)s WHERE user_id = %(user_id)s;

-- name: use_totp_step
-- Of any number of attempts with one code, one changes a row.
UPDATE users SET totp_last_step = %(step)s WHERE user_id = %(user_id)s AND totp_last_step < %(step)s;

-- name: insert_recovery_code
INSERT INTO recovery_codes (user_id, code_mac, created_at) VALUES (%(user_id)s, %(code_mac)s, %(now)s);

-- name: replace_recovery_codes
UPDATE recovery_codes SET replaced_at = %(now)s
WHERE user_id = %(user_id)s AND used_at IS NULL AND replaced_at IS NULL;

-- name: use_recovery_code
UPDATE recovery_codes SET used_at = %(now)s
WHERE user_id = %(user_id)s AND code_mac = %(code_mac)s AND used_at IS NULL AND replaced_at IS NULL;

-- name: count_recovery_codes
SELECT count(*) FROM recovery_codes WHERE user_id = %(user_id)s AND used_at IS NULL AND replaced_at IS NULL;

-- name: insert_session
INSERT INTO sessions (session_id, token_hash, user_id, address, user_agent, created_at, last_seen_at)
VALUES (
    %(session_id)s, %(token_hash)s, %(user_id)s, %(address)s, %(user_agent)s, %(created_at)s, %(last_seen_at)s
);

-- name: select_viewer
-- Everything about who is looking, in one look: a row for each merchant, or one without any.
SELECT s.session_id, s.user_id, s.address, s.user_agent, s.created_at, s.last_seen_at,
    u.user_id, u.email, u.name, u.staff, u.totp_secret IS NOT NULL, u.created_at, u.password_changed_at,
    m.client_id, k.name, m.role
FROM sessions AS s
JOIN users AS u ON u.user_id = s.user_id
LEFT JOIN memberships AS m ON m.user_id = s.user_id AND m.ended_at IS NULL
LEFT JOIN merchants AS k ON k.client_id = m.client_id
WHERE s.token_hash = %(token_hash)s AND s.ended_at IS NULL
ORDER BY k.name, m.client_id;

-- name: touch_session
UPDATE sessions SET last_seen_at = %(now)s
WHERE session_id = %(session_id)s AND last_seen_at < %(now)s AND ended_at IS NULL;

-- name: select_sessions
SELECT session_id, user_id, address, user_agent, created_at, last_seen_at
FROM sessions
WHERE user_id = %(user_id)s AND ended_at IS NULL AND created_at > %(created_after)s AND last_seen_at > %(seen_after)s
ORDER BY last_seen_at DESC, session_id
LIMIT 50;

-- name: end_session
UPDATE sessions SET ended_at = %(now)s
WHERE session_id = %(session_id)s AND user_id = %(user_id)s AND ended_at IS NULL;

-- name: end_replaced_session
-- The browser that has it is about to hold another.
UPDATE sessions SET ended_at = %(now)s WHERE session_id = %(session_id)s AND ended_at IS NULL;

-- name: end_sessions
UPDATE sessions SET ended_at = %(now)s WHERE user_id = %(user_id)s AND ended_at IS NULL AND session_id <> %(kept)s;
