"""The record of changes: who, when, from where, before and after."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from payaccept.domain.user import Actor, Session

Values = Mapping[str, Any]

SESSION_OPENED: Final = "session.opened"
SIGN_IN_REFUSED: Final = "sign-in.refused"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Entry(Struct, frozen=True, kw_only=True):
    """One change. `client_id` is the merchant that may read of it, `subject` what was changed, by its id.

    `user_id` is who made it, and may read of it; of a sign-in that was refused, whose account it was about.

    `action` is `noun.verb`; `before` and `after` hold the values that differ, never a secret.
    """

    entry_id: str
    at: datetime
    client_id: str | None
    user_id: str | None
    actor: str
    address: str
    action: str
    subject: str
    before: Values | None
    after: Values | None


def entry(
    by: Actor,
    at: datetime,
    action: str,
    subject: str,
    *,
    client_id: str | None = None,
    before: Values | None = None,
    after: Values | None = None,
) -> Entry:
    """Make an entry; of `before` and `after` only what differs is kept."""
    if before is not None and after is not None:
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        before = {name: value for name, value in before.items() if name in changed}
        after = {name: value for name, value in after.items() if name in changed}
    return Entry(
        entry_id=f"aud_{(at - _EPOCH) // _MICROSECOND:014x}{os.urandom(6).hex()}",
        at=at,
        client_id=client_id,
        user_id=by.user_id,
        actor=by.name,
        address=by.address,
        action=action,
        subject=subject,
        before=before,
        after=after,
    )


def refused_since(entries: Sequence[Entry], session: Session) -> list[Entry]:
    """Return the sign-ins refused since the user came in before this session; both newest first."""
    before = [
        one.at
        for one in entries
        if one.action == SESSION_OPENED and one.subject != session.session_id and one.at <= session.created_at
    ]
    return [one for one in entries if one.action == SIGN_IN_REFUSED and (not before or one.at >= before[0])]
