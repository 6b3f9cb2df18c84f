-- The core: buckets, merchants and their keys, provider keys, payments, events, deliveries.

-- Batched inserts join this table, so that the same text is routed by bucket where tables are sharded.
CREATE TABLE buckets (
    bucket integer NOT NULL,
    CONSTRAINT buckets_pkey PRIMARY KEY (bucket),
    CONSTRAINT buckets_bucket_check CHECK (bucket BETWEEN 0 AND 255)
);
INSERT INTO buckets (bucket) SELECT generate_series(0, 255);

-- One row: which environment this database serves, for good, and which URLs its service takes.
CREATE TABLE deployment (
    singleton boolean NOT NULL DEFAULT true,
    environment text NOT NULL,
    allow_http boolean NOT NULL,
    allow_private boolean NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT deployment_pkey PRIMARY KEY (singleton),
    CONSTRAINT deployment_singleton_check CHECK (singleton),
    CONSTRAINT deployment_environment_check CHECK (environment IN ('sandbox', 'production'))
);

-- One row: counts the changes to merchants, their keys and the provider's keys. Every change locks it,
-- so versions become visible in order, and a reader that saw version n has seen all changes up to n.
CREATE TABLE directory (
    singleton boolean NOT NULL DEFAULT true,
    version bigint NOT NULL,
    CONSTRAINT directory_pkey PRIMARY KEY (singleton),
    CONSTRAINT directory_singleton_check CHECK (singleton)
);
INSERT INTO directory (version) VALUES (0);

CREATE TABLE merchants (
    client_id text NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    base_bucket integer NOT NULL,
    spread integer NOT NULL,
    duplicates text NOT NULL,
    webhook_url text,
    rate_limit integer,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    directory_version bigint NOT NULL,
    CONSTRAINT merchants_pkey PRIMARY KEY (client_id),
    CONSTRAINT merchants_name_check CHECK (length(name) BETWEEN 1 AND 128),
    CONSTRAINT merchants_state_check CHECK (state IN ('PENDING', 'ACTIVE', 'INACTIVE')),
    CONSTRAINT merchants_base_bucket_check CHECK (base_bucket BETWEEN 0 AND 255),
    CONSTRAINT merchants_spread_check CHECK (spread IN (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    CONSTRAINT merchants_duplicates_check CHECK (duplicates IN ('strict', 'replay')),
    CONSTRAINT merchants_rate_limit_check CHECK (rate_limit > 0)
);
CREATE INDEX merchants_directory_version ON merchants (directory_version);

CREATE TABLE merchant_keys (
    client_id text NOT NULL,
    key_version integer NOT NULL,
    state text NOT NULL,
    public_key_pem text NOT NULL,
    fingerprint text NOT NULL,
    created_at timestamptz NOT NULL,
    retired_at timestamptz,
    CONSTRAINT merchant_keys_pkey PRIMARY KEY (client_id, key_version),
    CONSTRAINT merchant_keys_client_id_fkey FOREIGN KEY (client_id) REFERENCES merchants (client_id),
    -- One key belongs to one merchant, once, even after it is retired.
    CONSTRAINT merchant_keys_fingerprint_key UNIQUE (fingerprint),
    CONSTRAINT merchant_keys_key_version_check CHECK (key_version > 0),
    CONSTRAINT merchant_keys_state_check CHECK (state IN ('ACTIVE', 'RETIRED')),
    CONSTRAINT merchant_keys_retired_at_check CHECK ((state = 'RETIRED') = (retired_at IS NOT NULL))
);

-- A key is published when it is made and signs from activates_at on, until a younger one does: which
-- key signs is a matter of time alone, so no process has to be awake to switch.
CREATE TABLE provider_keys (
    key_version integer NOT NULL,
    public_key_pem text NOT NULL,
    sealed_private_key bytea NOT NULL,
    created_at timestamptz NOT NULL,
    activates_at timestamptz NOT NULL,
    CONSTRAINT provider_keys_pkey PRIMARY KEY (key_version),
    CONSTRAINT provider_keys_key_version_check CHECK (key_version > 0),
    CONSTRAINT provider_keys_activates_at_check CHECK (activates_at >= created_at)
);

CREATE TABLE payments (
    bucket integer NOT NULL,
    payment_id text NOT NULL,
    client_id text NOT NULL,
    payment_request_id text NOT NULL,
    operation text NOT NULL,
    state text NOT NULL,
    currency text NOT NULL,
    amount_minor bigint NOT NULL,
    notify_url text,
    external_store_id text,
    extend_info text,
    -- What the merchant signed, byte for byte, and the first answer it got.
    request_body bytea NOT NULL,
    answer bytea,
    failure_code text,
    event_id text,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    due_at timestamptz,
    final_at timestamptz,
    CONSTRAINT payments_pkey PRIMARY KEY (bucket, payment_id),
    -- The idempotency key: a payment is created at most once.
    CONSTRAINT payments_payment_request_id_key UNIQUE (bucket, client_id, payment_request_id),
    CONSTRAINT payments_bucket_check CHECK (bucket BETWEEN 0 AND 255),
    CONSTRAINT payments_operation_check CHECK (operation IN ('createQROrder', 'retailPay', 'linkPayCreate')),
    CONSTRAINT payments_state_check CHECK (state IN ('PROCESSING', 'SUCCESS', 'FAIL')),
    CONSTRAINT payments_currency_check CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT payments_amount_minor_check CHECK (amount_minor BETWEEN 1 AND 999999999999),
    CONSTRAINT payments_failure_code_check CHECK ((state = 'FAIL') = (failure_code IS NOT NULL)),
    CONSTRAINT payments_event_id_check CHECK ((state = 'PROCESSING') = (event_id IS NULL)),
    CONSTRAINT payments_final_at_check CHECK ((state = 'PROCESSING') = (final_at IS NULL)),
    CONSTRAINT payments_due_at_check CHECK ((state = 'PROCESSING') = (due_at IS NOT NULL))
);
CREATE INDEX payments_due ON payments (due_at, bucket) WHERE state = 'PROCESSING';

CREATE TABLE events (
    bucket integer NOT NULL,
    event_id text NOT NULL,
    client_id text NOT NULL,
    payment_id text NOT NULL,
    event_type text NOT NULL,
    -- Serialised once; the same bytes on every attempt.
    body bytea NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (bucket, event_id),
    -- A final payment has exactly one event.
    CONSTRAINT events_payment_id_key UNIQUE (bucket, payment_id),
    CONSTRAINT events_payment_id_fkey FOREIGN KEY (bucket, payment_id) REFERENCES payments (bucket, payment_id),
    CONSTRAINT events_event_type_check CHECK (event_type IN ('payment.succeeded', 'payment.failed'))
);

CREATE TABLE deliveries (
    bucket integer NOT NULL,
    event_id text NOT NULL,
    client_id text NOT NULL,
    url text NOT NULL,
    lane text NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    -- When it is due; while leased, when the lease ends. NULL once it is final.
    next_at timestamptz,
    claim_id uuid,
    -- What the sandbox was asked to play with this notification and has not played yet.
    faults text[] NOT NULL DEFAULT '{}',
    last_attempt_at timestamptz,
    last_status integer,
    last_reason text,
    created_at timestamptz NOT NULL,
    final_at timestamptz,
    CONSTRAINT deliveries_pkey PRIMARY KEY (bucket, event_id),
    CONSTRAINT deliveries_event_id_fkey FOREIGN KEY (bucket, event_id) REFERENCES events (bucket, event_id),
    CONSTRAINT deliveries_state_check CHECK (state IN ('DUE', 'LEASED', 'ACKNOWLEDGED', 'DEAD')),
    CONSTRAINT deliveries_next_at_check CHECK ((state IN ('DUE', 'LEASED')) = (next_at IS NOT NULL)),
    CONSTRAINT deliveries_claim_id_check CHECK ((state = 'LEASED') = (claim_id IS NOT NULL)),
    CONSTRAINT deliveries_final_at_check CHECK ((state IN ('ACKNOWLEDGED', 'DEAD')) = (final_at IS NOT NULL))
);
CREATE INDEX deliveries_due ON deliveries (next_at, bucket) WHERE state IN ('DUE', 'LEASED');

-- The admitted requests of the last 60 s of each limited merchant, Unix microseconds, in order.
CREATE TABLE rate_windows (
    client_id text NOT NULL,
    times_us bigint[] NOT NULL,
    CONSTRAINT rate_windows_pkey PRIMARY KEY (client_id)
);

-- The simulated wallet's own: codes it has issued to its customer.
CREATE TABLE simulated_wallet_codes (
    code text NOT NULL,
    issued_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_by text,
    CONSTRAINT simulated_wallet_codes_pkey PRIMARY KEY (code)
);
