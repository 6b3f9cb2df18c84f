-- name: insert_entry
-- In the transaction of the change it tells of; no statement changes an entry.
INSERT INTO audit_log (entry_id, at, client_id, user_id, actor, address, action, subject, before, after)
VALUES (
    %(entry_id)s, %(at)s, %(client_id)s, %(user_id)s, %(actor)s, %(address)s, %(action)s, %(subject)s, %(before)s,
    %(after)s
);

-- name: select_entries_of_merchant
-- Newest first; ids are in the order of time, so the last one shown is where the next page begins.
SELECT entry_id, at, client_id, user_id, actor, address, action, subject, before, after
FROM audit_log
WHERE client_id = %(client_id)s AND entry_id < %(before_id)s
ORDER BY entry_id DESC
LIMIT %(limit)s;

-- name: select_entries_of_user
SELECT entry_id, at, client_id, user_id, actor, address, action, subject, before, after
FROM audit_log
WHERE user_id = %(user_id)s AND client_id IS NULL AND entry_id < %(before_id)s
ORDER BY entry_id DESC
LIMIT %(limit)s;

-- name: select_entries
-- Of everybody, for the provider's staff.
SELECT entry_id, at, client_id, user_id, actor, address, action, subject, before, after
FROM audit_log
WHERE entry_id < %(before_id)s
ORDER BY entry_id DESC
LIMIT %(limit)s;

-- name: select_entries_by_user
-- All that a person did, in merchants, too.
SELECT entry_id, at, client_id, user_id, actor, address, action, subject, before, after
FROM audit_log
WHERE user_id = %(user_id)s AND entry_id < %(before_id)s
ORDER BY entry_id DESC
LIMIT %(limit)s;

-- name: select_entries_of_merchant_by_user
SELECT entry_id, at, client_id, user_id, actor, address, action, subject, before, after
FROM audit_log
WHERE client_id = %(client_id)s AND user_id = %(user_id)s AND entry_id < %(before_id)s
ORDER BY entry_id DESC
LIMIT %(limit)s;
