-- name: insert_code
INSERT INTO simulated_wallet_codes (code, issued_at, expires_at) VALUES (%(code)s, %(issued_at)s, %(expires_at)s);

-- name: use_code
-- Works once: the row's lock decides between two tills.
UPDATE simulated_wallet_codes SET used_by = %(payment_id)s
WHERE code = %(code)s AND used_by IS NULL AND expires_at > %(now)s
RETURNING code;

-- name: select_code
SELECT used_by FROM simulated_wallet_codes WHERE code = %(code)s;
