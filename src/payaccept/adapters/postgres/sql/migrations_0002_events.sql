-- Events with numbers, payloads and attempts in daily partitions, deliveries in lanes.
-- Nothing older than this is released: stop every process of the previous version before it runs.

-- What was notified, byte for byte, apart from the event, for it is kept for 90 days only. An event's id begins
-- with its time, so a range of ids is a day, and a day is dropped as one table. No foreign keys to or from a
-- partitioned table: dropping a partition would have to lock the table at their other end.
CREATE TABLE payloads (
    bucket integer NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT payloads_pkey PRIMARY KEY (bucket, event_id)
) PARTITION BY RANGE (event_id);
-- Takes what no day's partition takes: a clock that is days wrong must not stop a payment.
CREATE TABLE payloads_default PARTITION OF payloads DEFAULT;
INSERT INTO payloads (bucket, event_id, body) SELECT bucket, event_id, body FROM events;

-- Numbers of a merchant's events: given after the commit of the payment, 1, 2, 3 without a gap.
CREATE TABLE event_counters (
    client_id text NOT NULL,
    last_sequence bigint NOT NULL,
    CONSTRAINT event_counters_pkey PRIMARY KEY (client_id),
    CONSTRAINT event_counters_last_sequence_check CHECK (last_sequence >= 0)
);

ALTER TABLE events DROP COLUMN body;
ALTER TABLE events ADD COLUMN sequence bigint;
ALTER TABLE events ALTER COLUMN payment_id DROP NOT NULL;
ALTER TABLE events DROP CONSTRAINT events_event_type_check;
ALTER TABLE events ADD CONSTRAINT events_event_type_check
    CHECK (event_type IN ('payment.succeeded', 'payment.failed', 'webhook.test'));
-- A test event is no payment's; every other is exactly one payment's.
ALTER TABLE events ADD CONSTRAINT events_payment_id_check
    CHECK ((event_type = 'webhook.test') = (payment_id IS NULL));
ALTER TABLE events ADD CONSTRAINT events_sequence_check CHECK (sequence > 0);
ALTER TABLE events ADD CONSTRAINT events_sequence_key UNIQUE (bucket, client_id, sequence);
CREATE INDEX events_unnumbered ON events (event_id, bucket) WHERE sequence IS NULL;

-- A delivery is PENDING until it is acknowledged or dead. A lease is no state: it ends by itself, and taking it
-- changes no indexed column, so that it leaves nothing behind in the index that claims are made by.
DROP INDEX deliveries_due;
ALTER TABLE deliveries DROP CONSTRAINT deliveries_state_check;
ALTER TABLE deliveries DROP CONSTRAINT deliveries_next_at_check;
ALTER TABLE deliveries DROP CONSTRAINT deliveries_claim_id_check;
UPDATE deliveries SET state = 'PENDING', claim_id = NULL WHERE state IN ('DUE', 'LEASED');
ALTER TABLE deliveries ADD COLUMN leased_until timestamptz;
-- How many attempts had been made when the present run through the schedule began: somebody may start it anew.
ALTER TABLE deliveries ADD COLUMN attempts_before integer NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD CONSTRAINT deliveries_state_check
    CHECK (state IN ('PENDING', 'ACKNOWLEDGED', 'DEAD'));
ALTER TABLE deliveries ADD CONSTRAINT deliveries_next_at_check
    CHECK ((state = 'PENDING') = (next_at IS NOT NULL));
ALTER TABLE deliveries ADD CONSTRAINT deliveries_leased_until_check
    CHECK ((claim_id IS NULL) = (leased_until IS NULL));
ALTER TABLE deliveries ADD CONSTRAINT deliveries_claim_id_check CHECK (claim_id IS NULL OR state = 'PENDING');
ALTER TABLE deliveries ADD CONSTRAINT deliveries_attempts_before_check
    CHECK (attempts_before BETWEEN 0 AND attempts);
-- The order claims are made in: lane by lane, the oldest of each first.
CREATE INDEX deliveries_pending ON deliveries (lane, next_at) WHERE state = 'PENDING';
CREATE INDEX deliveries_dead ON deliveries (client_id, event_id) WHERE state = 'DEAD';
-- Room on each page for the lease, which is then written beside the row it leases.
ALTER TABLE deliveries SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- Every attempt, for 30 days. Times are microseconds; NULL where the exchange did not get that far, or did not
-- need to: a kept connection is not looked up, dialled and secured again.
CREATE TABLE attempts (
    bucket integer NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    client_id text NOT NULL,
    url text NOT NULL,
    started_at timestamptz NOT NULL,
    key_version integer NOT NULL,
    outcome text NOT NULL,
    status integer,
    reason text NOT NULL,
    resolve_us integer,
    connect_us integer,
    tls_us integer,
    first_byte_us integer,
    total_us integer NOT NULL,
    -- The first 4 KiB of the answer: for the operator, never for the merchant's pages.
    answer bytea NOT NULL,
    CONSTRAINT attempts_pkey PRIMARY KEY (bucket, event_id, attempt, started_at),
    CONSTRAINT attempts_attempt_check CHECK (attempt > 0),
    CONSTRAINT attempts_outcome_check CHECK (outcome IN ('ACKNOWLEDGED', 'REFUSED', 'UNREACHABLE')),
    CONSTRAINT attempts_status_check CHECK ((outcome = 'UNREACHABLE') = (status IS NULL)),
    CONSTRAINT attempts_answer_check CHECK (length(answer) <= 4096)
) PARTITION BY RANGE (started_at);
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;

-- Destinations that are failing; a healthy one has no row. `opened_at` is when its circuit breaker opened.
CREATE TABLE failing_lanes (
    lane text NOT NULL,
    client_id text NOT NULL,
    failures integer NOT NULL,
    failing_since timestamptz NOT NULL,
    opened_at timestamptz,
    last_reason text NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT failing_lanes_pkey PRIMARY KEY (lane),
    CONSTRAINT failing_lanes_failures_check CHECK (failures > 0)
);
CREATE INDEX failing_lanes_client_id ON failing_lanes (client_id);

-- From when a provider key is neither published nor used any more: written when its successor is made, or when it
-- is taken out of use at once. NULL while nobody knows.
ALTER TABLE provider_keys ADD COLUMN withdraws_at timestamptz;
ALTER TABLE provider_keys ADD CONSTRAINT provider_keys_withdraws_at_check CHECK (withdraws_at >= created_at);
