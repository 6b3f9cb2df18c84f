-- People: users, what they are in merchants, their sessions, one-time links, and the record of every change.
-- No payment touches these tables, and no secret rests in them in a form that opens anything.

CREATE TABLE users (
    user_id text NOT NULL,
    email text NOT NULL,
    -- The address folded, so that two spellings of it are one account.
    email_key text NOT NULL,
    name text NOT NULL,
    staff boolean NOT NULL,
    password_hash text NOT NULL,
    password_changed_at timestamptz NOT NULL,
    -- Sealed under the master key. A code's 30 seconds count once: the last used ones are kept.
    totp_secret text,
    totp_last_step bigint,
    created_at timestamptz NOT NULL,
    CONSTRAINT users_pkey PRIMARY KEY (user_id),
    CONSTRAINT users_email_key_key UNIQUE (email_key),
    CONSTRAINT users_email_check CHECK (length(email) BETWEEN 3 AND 254),
    CONSTRAINT users_name_check CHECK (length(name) BETWEEN 1 AND 80),
    CONSTRAINT users_totp_last_step_check CHECK ((totp_secret IS NULL) = (totp_last_step IS NULL))
);

-- Nothing is deleted: who has left has ended_at, and keeps the role it had.
CREATE TABLE memberships (
    client_id text NOT NULL,
    user_id text NOT NULL,
    role text NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT memberships_pkey PRIMARY KEY (client_id, user_id),
    CONSTRAINT memberships_client_id_fkey FOREIGN KEY (client_id) REFERENCES merchants (client_id),
    CONSTRAINT memberships_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (user_id),
    CONSTRAINT memberships_role_check CHECK (role IN ('owner', 'developer', 'viewer'))
);
CREATE INDEX memberships_user_id ON memberships (user_id);

CREATE TABLE sessions (
    session_id text NOT NULL,
    -- SHA-256 of the secret that the browser holds.
    token_hash bytea NOT NULL,
    user_id text NOT NULL,
    address text NOT NULL,
    user_agent text NOT NULL,
    created_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT sessions_pkey PRIMARY KEY (session_id),
    CONSTRAINT sessions_token_hash_key UNIQUE (token_hash),
    CONSTRAINT sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (user_id),
    CONSTRAINT sessions_token_hash_check CHECK (length(token_hash) = 32),
    CONSTRAINT sessions_user_agent_check CHECK (length(user_agent) <= 256)
);
CREATE INDEX sessions_user_id ON sessions (user_id, created_at) WHERE ended_at IS NULL;

-- Codes for who has lost the second factor, each for one use; proofs under a key that is not in the database.
CREATE TABLE recovery_codes (
    user_id text NOT NULL,
    code_mac text NOT NULL,
    created_at timestamptz NOT NULL,
    used_at timestamptz,
    replaced_at timestamptz,
    CONSTRAINT recovery_codes_pkey PRIMARY KEY (user_id, code_mac),
    CONSTRAINT recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (user_id)
);

-- Links that work once: into a merchant, into the provider's staff, or to a new password.
CREATE TABLE one_time_links (
    link_id text NOT NULL,
    token_hash bytea NOT NULL,
    purpose text NOT NULL,
    email text NOT NULL,
    email_key text NOT NULL,
    client_id text,
    role text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT one_time_links_pkey PRIMARY KEY (link_id),
    CONSTRAINT one_time_links_token_hash_key UNIQUE (token_hash),
    CONSTRAINT one_time_links_client_id_fkey FOREIGN KEY (client_id) REFERENCES merchants (client_id),
    CONSTRAINT one_time_links_token_hash_check CHECK (length(token_hash) = 32),
    CONSTRAINT one_time_links_purpose_check CHECK (purpose IN ('member', 'staff', 'password')),
    CONSTRAINT one_time_links_client_id_check CHECK ((purpose = 'member') = (client_id IS NOT NULL)),
    CONSTRAINT one_time_links_role_check
        CHECK ((client_id IS NULL) = (role IS NULL) AND role IN ('owner', 'developer', 'viewer')),
    CONSTRAINT one_time_links_used_at_check CHECK (used_at IS NULL OR revoked_at IS NULL),
    CONSTRAINT one_time_links_expires_at_check CHECK (expires_at > created_at)
);
CREATE INDEX one_time_links_client_id ON one_time_links (client_id) WHERE used_at IS NULL AND revoked_at IS NULL;
CREATE INDEX one_time_links_email_key ON one_time_links (email_key) WHERE used_at IS NULL AND revoked_at IS NULL;

-- Attempts to sign in, as buckets that leak. Their number is bounded: accounts, addresses and devices share
-- 2^20 slots of each kind by a keyed hash, which nobody outside can aim with.
CREATE TABLE attempt_buckets (
    kind text NOT NULL,
    slot integer NOT NULL,
    level double precision NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT attempt_buckets_pkey PRIMARY KEY (kind, slot),
    CONSTRAINT attempt_buckets_slot_check CHECK (slot BETWEEN 0 AND 1048575),
    CONSTRAINT attempt_buckets_level_check CHECK (level >= 0)
);

-- Who changed what, when, from where; written in the transaction of the change, and never changed itself.
CREATE TABLE audit_log (
    -- Begins with its time, so that its order is that of the entries.
    entry_id text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    client_id text,
    user_id text,
    actor text NOT NULL,
    address text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    before jsonb,
    after jsonb,
    CONSTRAINT audit_log_pkey PRIMARY KEY (entry_id)
);
CREATE INDEX audit_log_client_id ON audit_log (client_id, entry_id);
CREATE INDEX audit_log_user_id ON audit_log (user_id, entry_id);
