-- name: select_provider_keys
SELECT key_version, public_key_pem, sealed_private_key, created_at, activates_at
FROM provider_keys
ORDER BY key_version;

-- name: insert_provider_key
INSERT INTO provider_keys (key_version, public_key_pem, sealed_private_key, created_at, activates_at)
VALUES (%(key_version)s, %(public_key_pem)s, %(sealed_private_key)s, %(created_at)s, %(activates_at)s);
