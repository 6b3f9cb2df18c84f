-- name: select_provider_keys
SELECT key_version, public_key_pem, sealed_private_key, created_at, activates_at, withdraws_at
FROM provider_keys
ORDER BY key_version;

-- name: insert_provider_key
INSERT INTO provider_keys (key_version, public_key_pem, sealed_private_key, created_at, activates_at, withdraws_at)
VALUES (%(key_version)s, %(public_key_pem)s, %(sealed_private_key)s, %(created_at)s, %(activates_at)s,
    %(withdraws_at)s);

-- name: update_provider_key
-- The key itself never changes, only its times.
UPDATE provider_keys SET activates_at = %(activates_at)s, withdraws_at = %(withdraws_at)s
WHERE key_version = %(key_version)s;
