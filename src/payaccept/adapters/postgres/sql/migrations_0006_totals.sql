-- What a merchant's payments came to, by the UTC day on which they became final.
-- Nothing older than this is released: stop every process of the previous version before it runs, for its workers
-- would number events without counting them here.

-- Added to in the transaction that gives an event its number, which happens once: so each final payment counts once.
CREATE TABLE day_totals (
    client_id text NOT NULL,
    day date NOT NULL,
    currency text NOT NULL,
    operation text NOT NULL,
    -- SUCCESS, or the code of the failure.
    outcome text NOT NULL,
    payments bigint NOT NULL,
    -- Wider than a bigint: ten million payments of the greatest amount there is are more than that holds.
    amount_minor numeric(38) NOT NULL,
    CONSTRAINT day_totals_pkey PRIMARY KEY (client_id, day, currency, operation, outcome),
    CONSTRAINT day_totals_payments_check CHECK (payments > 0),
    CONSTRAINT day_totals_amount_minor_check CHECK (amount_minor >= payments)
) WITH (fillfactor = 50);

INSERT INTO day_totals (client_id, day, currency, operation, outcome, payments, amount_minor)
SELECT
    p.client_id, (p.final_at AT TIME ZONE 'UTC')::date, p.currency, p.operation, coalesce(p.failure_code, 'SUCCESS'),
    count(*), sum(p.amount_minor)
FROM events AS e
JOIN payments AS p ON p.bucket = e.bucket AND p.payment_id = e.payment_id
WHERE e.sequence IS NOT NULL
GROUP BY 1, 2, 3, 4, 5;
