-- Keys that wait for a proof of possession; what a merchant signed, beside each payment; and what the API records of
-- requests for their merchant to see.
-- Nothing older than this is released: stop every process of the previous version before it runs.

-- A PENDING key waits for the proof that its merchant holds the private half; a DISCARDED one never became active.
ALTER TABLE merchant_keys ADD COLUMN activated_at timestamptz;
-- What a proof by a signed text has to sign, besides the rest of the text.
ALTER TABLE merchant_keys ADD COLUMN proof_nonce text;
UPDATE merchant_keys SET activated_at = created_at;
ALTER TABLE merchant_keys DROP CONSTRAINT merchant_keys_state_check;
ALTER TABLE merchant_keys DROP CONSTRAINT merchant_keys_retired_at_check;
ALTER TABLE merchant_keys ADD CONSTRAINT merchant_keys_state_check
    CHECK (state IN ('PENDING', 'ACTIVE', 'RETIRED', 'DISCARDED'));
ALTER TABLE merchant_keys ADD CONSTRAINT merchant_keys_retired_at_check
    CHECK ((state IN ('RETIRED', 'DISCARDED')) = (retired_at IS NOT NULL));
ALTER TABLE merchant_keys ADD CONSTRAINT merchant_keys_activated_at_check
    CHECK ((state IN ('ACTIVE', 'RETIRED')) = (activated_at IS NOT NULL));
ALTER TABLE merchant_keys ADD CONSTRAINT merchant_keys_proof_nonce_check
    CHECK ((state = 'PENDING') = (proof_nonce IS NOT NULL));
-- One key belongs to one merchant, once, even after it is retired; but only from its proof on. A public key is no
-- secret: whoever could claim it by uploading it would keep its owner from using it.
ALTER TABLE merchant_keys DROP CONSTRAINT merchant_keys_fingerprint_key;
CREATE UNIQUE INDEX merchant_keys_fingerprint_proven ON merchant_keys (fingerprint)
    WHERE state IN ('ACTIVE', 'RETIRED');
CREATE UNIQUE INDEX merchant_keys_fingerprint_pending ON merchant_keys (client_id, fingerprint)
    WHERE state = 'PENDING';

-- With operation, Client-Id and body, all it takes to verify the merchant's signature again. NULL for payments that
-- were created before this was kept.
ALTER TABLE payments ADD COLUMN request_time text;
ALTER TABLE payments ADD COLUMN key_version integer;
ALTER TABLE payments ADD COLUMN signature bytea;
ALTER TABLE payments ADD CONSTRAINT payments_signature_check CHECK (
    num_nulls(request_time, key_version, signature) = 3
    OR (num_nulls(request_time, key_version, signature) = 0 AND octet_length(signature) = 256)
);

-- How a key was used since it was added, and in each minute of the last days, with how far the merchant's clock was
-- away from ours: negative when it was behind. Only requests that verified count.
CREATE TABLE key_uses (
    client_id text NOT NULL,
    key_version integer NOT NULL,
    uses bigint NOT NULL,
    first_used_at timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT key_uses_pkey PRIMARY KEY (client_id, key_version),
    CONSTRAINT key_uses_uses_check CHECK (uses > 0)
) WITH (fillfactor = 50);
CREATE TABLE key_minutes (
    client_id text NOT NULL,
    minute timestamptz NOT NULL,
    key_version integer NOT NULL,
    uses bigint NOT NULL,
    least_skew_ms integer NOT NULL,
    greatest_skew_ms integer NOT NULL,
    CONSTRAINT key_minutes_pkey PRIMARY KEY (client_id, minute, key_version),
    CONSTRAINT key_minutes_uses_check CHECK (uses > 0),
    CONSTRAINT key_minutes_skew_check CHECK (least_skew_ms <= greatest_skew_ms)
) WITH (fillfactor = 70);
CREATE INDEX key_minutes_minute ON key_minutes USING brin (minute);

-- How many requests of a merchant were refused in each minute, and of how many nothing more is known: under a flood,
-- the last ones are kept and the rest is only counted.
CREATE TABLE refusal_minutes (
    client_id text NOT NULL,
    minute timestamptz NOT NULL,
    result_code text NOT NULL,
    refused bigint NOT NULL,
    only_counted bigint NOT NULL,
    CONSTRAINT refusal_minutes_pkey PRIMARY KEY (client_id, minute, result_code),
    CONSTRAINT refusal_minutes_refused_check CHECK (refused > 0),
    CONSTRAINT refusal_minutes_only_counted_check CHECK (only_counted BETWEEN 0 AND refused)
) WITH (fillfactor = 70);
CREATE INDEX refusal_minutes_minute ON refusal_minutes USING brin (minute);

-- The last requests that were refused, as they came, of each merchant that they named; whether they came from it is
-- another question, for many were refused before their signature was looked at. Never an auth code.
CREATE TABLE refused_requests (
    client_id text NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    received_at timestamptz NOT NULL,
    method text NOT NULL,
    -- Path and query.
    target text NOT NULL,
    status integer NOT NULL,
    result_code text NOT NULL,
    message text NOT NULL,
    -- NULL when Request-Time is missing or malformed.
    skew_ms bigint,
    address text NOT NULL,
    host text NOT NULL,
    user_agent text NOT NULL,
    content_type text NOT NULL,
    request_time text NOT NULL,
    signature_header text NOT NULL,
    body bytea NOT NULL,
    body_bytes integer NOT NULL,
    -- Whether `body` is the whole body and nothing in it is masked: only then does it prove anything.
    body_is_whole boolean NOT NULL,
    CONSTRAINT refused_requests_pkey PRIMARY KEY (client_id, request_id),
    CONSTRAINT refused_requests_status_check CHECK (status BETWEEN 400 AND 599),
    CONSTRAINT refused_requests_body_check CHECK (octet_length(body) <= 8192)
);
CREATE INDEX refused_requests_received_at ON refused_requests (received_at);
