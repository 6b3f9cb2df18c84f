-- What people were told of failing destinations, and replays that a page has asked for.
-- New tables only: the previous version may run on while this is applied.

-- The last alarm that a merchant's people were sent of a destination, so that each is sent once, whichever worker
-- does: 1 after an hour, 2 after a day, 0 when they were told that it is over. A failing that began later is another.
CREATE TABLE lane_alarms (
    lane text NOT NULL,
    client_id text NOT NULL,
    failing_since timestamptz NOT NULL,
    told integer NOT NULL,
    -- Who is sending it now, and until when nobody else does.
    claim_id uuid,
    leased_until timestamptz,
    CONSTRAINT lane_alarms_pkey PRIMARY KEY (lane),
    CONSTRAINT lane_alarms_told_check CHECK (told BETWEEN 0 AND 2),
    CONSTRAINT lane_alarms_leased_until_check CHECK ((claim_id IS NULL) = (leased_until IS NULL))
);

-- A span of a merchant's events that is sent again, by whichever worker has the lease, behind the last event that was
-- looked at. The counts are of the whole replay, however often it was stopped and taken up.
CREATE TABLE replays (
    replay_id text COLLATE "C" NOT NULL,
    client_id text NOT NULL,
    state text NOT NULL,
    beginning timestamptz NOT NULL,
    until timestamptz NOT NULL,
    statuses text[] NOT NULL,
    rate_per_s integer NOT NULL,
    total bigint NOT NULL,
    looked_at bigint NOT NULL DEFAULT 0,
    resent bigint NOT NULL DEFAULT 0,
    in_flight bigint NOT NULL DEFAULT 0,
    nowhere bigint NOT NULL DEFAULT 0,
    body_gone bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    last_event_id text,
    started_by text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    ended_at timestamptz,
    -- When its next page is due; while leased, nobody else takes it before the lease ends.
    next_at timestamptz,
    claim_id uuid,
    leased_until timestamptz,
    CONSTRAINT replays_pkey PRIMARY KEY (replay_id),
    CONSTRAINT replays_state_check CHECK (state IN ('RUNNING', 'STOPPED', 'DONE')),
    CONSTRAINT replays_until_check CHECK (until > beginning),
    CONSTRAINT replays_rate_per_s_check CHECK (rate_per_s BETWEEN 1 AND 1000),
    CONSTRAINT replays_looked_at_check CHECK (looked_at = resent + in_flight + nowhere + body_gone + changed),
    CONSTRAINT replays_next_at_check CHECK ((state = 'RUNNING') = (next_at IS NOT NULL)),
    CONSTRAINT replays_ended_at_check CHECK ((state = 'RUNNING') = (ended_at IS NULL)),
    CONSTRAINT replays_leased_until_check CHECK ((claim_id IS NULL) = (leased_until IS NULL))
);
-- One at a time for each merchant: two would only be in each other's way.
CREATE UNIQUE INDEX replays_running ON replays (client_id) WHERE state = 'RUNNING';
CREATE INDEX replays_client_id ON replays (client_id, replay_id);
