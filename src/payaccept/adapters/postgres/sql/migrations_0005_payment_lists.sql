-- Every list of a merchant's payments, in the order of time: their ids begin with it. Safe while the previous version
-- still runs, but creates wait until it is built; who has many payments builds it CONCURRENTLY before.
CREATE INDEX IF NOT EXISTS payments_of_merchant ON payments (client_id, payment_id);
