-- name: bump_directory
-- Every change of merchants and keys starts here: the row's lock puts the changes in order.
UPDATE directory SET version = version + 1 RETURNING version;

-- name: select_directory_version
-- Polled by every process several times a second.
SELECT version FROM directory;

-- name: select_changed_merchants
-- Whose cached credentials are stale.
SELECT client_id FROM merchants WHERE directory_version > %(version)s;

-- name: insert_merchant
INSERT INTO merchants (
    client_id, name, state, base_bucket, spread, duplicates, webhook_url, rate_limit, created_at, updated_at,
    directory_version
) VALUES (
    %(client_id)s, %(name)s, %(state)s, %(base_bucket)s, %(spread)s, %(duplicates)s, %(webhook_url)s,
    %(rate_limit)s, %(created_at)s, %(updated_at)s, %(directory_version)s
);

-- name: update_merchant
UPDATE merchants
SET name = %(name)s, state = %(state)s, spread = %(spread)s, duplicates = %(duplicates)s,
    webhook_url = %(webhook_url)s, rate_limit = %(rate_limit)s, updated_at = %(updated_at)s,
    directory_version = %(directory_version)s
WHERE client_id = %(client_id)s;

-- name: touch_merchant
-- A change of its keys is a change of the merchant's credentials.
UPDATE merchants SET directory_version = %(directory_version)s, updated_at = %(updated_at)s
WHERE client_id = %(client_id)s;

-- name: select_merchants
SELECT client_id, name, state, base_bucket, spread, duplicates, webhook_url, rate_limit, created_at, updated_at
FROM merchants
WHERE client_id = ANY(%(client_id)s);

-- name: select_all_merchants
SELECT client_id, name, state, base_bucket, spread, duplicates, webhook_url, rate_limit, created_at, updated_at
FROM merchants
ORDER BY created_at, client_id;

-- name: select_keys
SELECT
    client_id, key_version, state, public_key_pem, fingerprint, created_at, activated_at, retired_at, proof_nonce
FROM merchant_keys
WHERE client_id = ANY(%(client_id)s)
ORDER BY client_id, key_version;

-- name: select_other_claims
-- Who else has registered this key, active or retired; a pending one is claimed by nobody but its own merchant.
SELECT client_id, key_version, state FROM merchant_keys
WHERE fingerprint = %(fingerprint)s AND (client_id, key_version) <> (%(client_id)s, %(key_version)s)
    AND (state IN ('ACTIVE', 'RETIRED') OR (state = 'PENDING' AND client_id = %(client_id)s))
ORDER BY state = 'PENDING';

-- name: insert_key
INSERT INTO merchant_keys (
    client_id, key_version, state, public_key_pem, fingerprint, created_at, activated_at, retired_at, proof_nonce
) VALUES (
    %(client_id)s, %(key_version)s, %(state)s, %(public_key_pem)s, %(fingerprint)s, %(created_at)s,
    %(activated_at)s, %(retired_at)s, %(proof_nonce)s
);

-- name: update_key
-- A key is what it is for good; only its state goes on.
UPDATE merchant_keys
SET state = %(state)s, activated_at = %(activated_at)s, retired_at = %(retired_at)s, proof_nonce = %(proof_nonce)s
WHERE client_id = %(client_id)s AND key_version = %(key_version)s;

-- name: has_payments
-- Whether the merchant has taken a payment: its spread is fixed from then on.
SELECT EXISTS (SELECT FROM payments WHERE bucket = ANY(%(bucket)s) AND client_id = %(client_id)s);
