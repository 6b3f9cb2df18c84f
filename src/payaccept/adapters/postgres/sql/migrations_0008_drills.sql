-- Webhook drills of the sandbox: a merchant's endpoint is sent right and wrong notifications, and judged by its
-- answers. They are no events: nothing of them is numbered, retried or counted among the deliveries.

CREATE TABLE drills (
    drill_id text COLLATE "C" NOT NULL,
    client_id text NOT NULL,
    -- The endpoint as it was configured when the drill was asked for.
    url text NOT NULL,
    asked_by text NOT NULL,
    created_at timestamptz NOT NULL,
    -- The worker that sends it, and until when it is that worker's alone.
    claim_id uuid,
    leased_until timestamptz,
    ended_at timestamptz,
    CONSTRAINT drills_pkey PRIMARY KEY (drill_id),
    CONSTRAINT drills_client_id_fkey FOREIGN KEY (client_id) REFERENCES merchants (client_id),
    CONSTRAINT drills_leased_until_check CHECK ((claim_id IS NULL) = (leased_until IS NULL)),
    CONSTRAINT drills_ended_at_check CHECK (ended_at IS NULL OR claim_id IS NULL)
);
-- One at a time; and what workers look through.
CREATE UNIQUE INDEX drills_running ON drills (client_id) WHERE ended_at IS NULL;
CREATE INDEX drills_client_id ON drills (client_id, drill_id);

-- One row for each notification. With sent_at it may have been sent, and is not sent again; with answered_at it is
-- known what came of it.
CREATE TABLE drill_steps (
    drill_id text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    exercise text NOT NULL,
    event_id text NOT NULL,
    sequence bigint NOT NULL,
    attempt integer NOT NULL,
    -- As it was signed, which is not always as it was sent.
    body bytea NOT NULL,
    -- A line for each header, as they were sent.
    headers text,
    sent_at timestamptz,
    answered_at timestamptz,
    status integer,
    refusal text,
    unreachable text,
    total_us bigint,
    answer_bytes integer,
    CONSTRAINT drill_steps_pkey PRIMARY KEY (drill_id, number),
    CONSTRAINT drill_steps_drill_id_fkey FOREIGN KEY (drill_id) REFERENCES drills (drill_id) ON DELETE CASCADE,
    CONSTRAINT drill_steps_number_check CHECK (number > 0),
    CONSTRAINT drill_steps_exercise_check CHECK (
        exercise IN ('correct', 'duplicate', 'out of order', 'tampered', 'old', 'unknown key')
    ),
    CONSTRAINT drill_steps_sent_at_check CHECK ((sent_at IS NULL) = (headers IS NULL)),
    CONSTRAINT drill_steps_answered_at_check CHECK (answered_at IS NULL OR sent_at IS NOT NULL),
    -- A status or the reason why there is none, once it is known what came of it.
    CONSTRAINT drill_steps_status_check CHECK (
        num_nonnulls(status, unreachable) = CASE WHEN answered_at IS NULL THEN 0 ELSE 1 END
    ),
    CONSTRAINT drill_steps_total_us_check CHECK (
        num_nonnulls(total_us, answer_bytes) = CASE WHEN answered_at IS NULL THEN 0 ELSE 2 END
    ),
    CONSTRAINT drill_steps_refusal_check CHECK (refusal IS NULL OR status IS NOT NULL)
);
