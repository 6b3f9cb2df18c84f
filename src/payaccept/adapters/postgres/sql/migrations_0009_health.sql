-- How the deployment has been, minute by minute, and the processes it consists of: written by the processes
-- themselves, looked at by the provider's staff. No payment touches these tables.
-- Of a figure, in a minute, over all processes: counts are added up, states keep their worst. An amount is a number of
-- things or of milliseconds.
CREATE TABLE health_minutes (
    minute timestamptz NOT NULL,
    figure text NOT NULL,
    label text NOT NULL,
    amount bigint NOT NULL,
    CONSTRAINT health_minutes_pkey PRIMARY KEY (minute, figure, label),
    CONSTRAINT health_minutes_amount_check CHECK (amount >= 0)
) WITH (fillfactor = 70);

-- A process has its row from its start to its end; one that was killed is silent from then on.
CREATE TABLE processes (
    process_id text NOT NULL,
    kind text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    -- Between the last two times it was seen, of one processor: 1000 is all of it.
    cpu_permille integer NOT NULL,
    memory_bytes bigint NOT NULL,
    CONSTRAINT processes_pkey PRIMARY KEY (process_id),
    CONSTRAINT processes_kind_check CHECK (kind IN ('api', 'worker', 'portal')),
    CONSTRAINT processes_seen_at_check CHECK (seen_at >= started_at),
    CONSTRAINT processes_cpu_permille_check CHECK (cpu_permille >= 0),
    CONSTRAINT processes_memory_bytes_check CHECK (memory_bytes >= 0)
) WITH (fillfactor = 50);

-- The dead over all merchants, the last given up first. Few rows of many, but the
-- table is read through for them: who has hundreds of millions builds it before, concurrently.
CREATE INDEX IF NOT EXISTS deliveries_dead_at ON deliveries (final_at, event_id) WHERE state = 'DEAD';
