"""The service's own keys: published when made, signing from a set time on, withdrawn at a set time.

Each of the three is a time that is written down beforehand, so no process has to be awake when it comes.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from payaccept.domain.delivery import RETRY_AFTER_AT_MOST
from payaccept.domain.errors import KeyNotFound, KeyRefused
from payaccept.wire import timestamps

KEEP_AT_LEAST_S: Final = 3600.0
"""However short the schedule of retries: merchants may keep a signature for minutes before they look at it."""

SealedPair = tuple[str, bytes]
"""A new key: the public half as PEM, and the private half sealed."""


class ProviderKeyStatus(StrEnum):
    """PUBLISHED will sign later, ACTIVE signs now, RETIRED has signed before and still verifies.

    WITHDRAWN neither signs nor verifies, for good: it is not published any more.
    """

    PUBLISHED = "PUBLISHED"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"
    WITHDRAWN = "WITHDRAWN"


class ProviderKey(Struct, frozen=True, kw_only=True):
    """One key. The private half is sealed and does not show in a repr.

    `withdraws_at` is None until a successor is made, for only then is it known.
    """

    key_version: int
    public_key_pem: str
    sealed_private_key: bytes
    created_at: datetime
    activates_at: datetime
    withdraws_at: datetime | None

    def __repr__(self) -> str:
        """Leave out even the sealed private key."""
        return (
            f"ProviderKey(key_version={self.key_version}, activates_at={self.activates_at},"
            f" withdraws_at={self.withdraws_at})"
        )

    def is_withdrawn(self, now: datetime) -> bool:
        """Tell whether it is neither published nor used any more."""
        return self.withdraws_at is not None and self.withdraws_at <= now

    @property
    def ever_signs(self) -> bool:
        """Whether its time comes at all: not when it is taken back before."""
        return self.withdraws_at is None or self.withdraws_at > self.activates_at


class Rotation(Struct, frozen=True):
    """What a rotation brings: `key_version` signs instead of `before`, which is published until `keeps_until`."""

    key_version: int
    activates_at: datetime
    before: int
    keeps_until: datetime


class Change(Struct, frozen=True, order=True):
    """What a key becomes by itself, and when."""

    at: datetime
    key_version: int
    status: ProviderKeyStatus


def longest_retry_s(schedule_s: Sequence[float]) -> float:
    """Return the longest that one notification can be on its way by the schedule.

    That is with every answer asking for the latest possible time by Retry-After, which goes beyond any jitter.
    """
    return RETRY_AFTER_AT_MOST * sum(schedule_s)


def default_keep_s(schedule_s: Sequence[float]) -> float:
    """Return how long a key that has stopped signing stays published, unless a deployment says otherwise."""
    return max(KEEP_AT_LEAST_S, longest_retry_s(schedule_s))


def signing_key(keys: Sequence[ProviderKey], now: datetime) -> ProviderKey:
    """Return the key that signs at `now`: the youngest whose time has come.

    Where none has come yet, a clock is behind the one that made the keys, and the oldest signs: it is published,
    and nothing else could. Raises: LookupError when none is published.
    """
    published = published_keys(keys, now)
    if not published:
        raise LookupError("no provider key signs now")
    ready = [key for key in published if key.activates_at <= now]
    choose = max if ready else min
    return choose(ready or published, key=lambda key: key.key_version)


def published_keys(keys: Sequence[ProviderKey], now: datetime) -> list[ProviderKey]:
    """Return the keys that merchants are told of at `now`: all of them verify."""
    return [key for key in keys if not key.is_withdrawn(now)]


def status_of(key: ProviderKey, keys: Sequence[ProviderKey], now: datetime) -> ProviderKeyStatus:
    """Return what a key is at `now`."""
    if key.is_withdrawn(now):
        return ProviderKeyStatus.WITHDRAWN
    signing = signing_key(keys, now)
    if key.key_version == signing.key_version:
        return ProviderKeyStatus.ACTIVE
    is_ahead = key.activates_at > now and key.key_version > signing.key_version
    return ProviderKeyStatus.PUBLISHED if is_ahead else ProviderKeyStatus.RETIRED


def retires_at(key: ProviderKey, keys: Sequence[ProviderKey]) -> datetime | None:
    """Return when a key stops signing; None while nobody knows, and for one that never signs."""
    if not key.ever_signs:
        return None
    ends = [other.activates_at for other in keys if other.key_version > key.key_version and other.ever_signs]
    if key.withdraws_at is not None:
        ends.append(key.withdraws_at)
    return min(ends, default=None)


def changes_ahead(keys: Sequence[ProviderKey], now: datetime) -> list[Change]:
    """Return what will become of the keys by itself, in the order of time."""
    found = []
    for key in published_keys(keys, now):
        if _is_waiting(key, keys, now) and key.ever_signs:
            found.append(Change(key.activates_at, key.key_version, ProviderKeyStatus.ACTIVE))
        if key.withdraws_at is not None:
            found.append(Change(key.withdraws_at, key.key_version, ProviderKeyStatus.WITHDRAWN))
    return sorted(found)


def first_key(pair: SealedPair, now: datetime) -> ProviderKey:
    """Return the first key of a deployment: it signs at once, for there is nothing to wait for."""
    return _made(1, pair, now, now)


def plan_rotation(keys: Sequence[ProviderKey], now: datetime, *, lead_s: float, keep_s: float) -> Rotation:
    """Return what a rotation at `now` would bring. Raises: KeyRefused while one is under way."""
    waiting = _waiting(keys, now)
    if waiting is not None:
        raise KeyRefused(
            f"keyVersion {waiting.key_version} is published and signs from"
            f" {timestamps.write_seconds(waiting.activates_at)} on: one rotation at a time"
            f" (`payaccept provider-key withdraw {waiting.key_version}` takes it back)"
        )
    activates_at = now + timedelta(seconds=lead_s)
    return Rotation(
        key_version=_next_version(keys),
        activates_at=activates_at,
        before=signing_key(keys, now).key_version,
        keeps_until=activates_at + timedelta(seconds=keep_s),
    )


def rotate(
    keys: Sequence[ProviderKey], pair: SealedPair, now: datetime, *, lead_s: float, keep_s: float
) -> list[ProviderKey]:
    """Return the keys with a new one: published now, signing after the lead; the old one is kept on.

    Raises: KeyRefused while another rotation is under way.
    """
    plan = plan_rotation(keys, now, lead_s=lead_s, keep_s=keep_s)
    rotated = [*keys, _made(plan.key_version, pair, now, plan.activates_at)]
    keep = timedelta(seconds=keep_s)
    for number, key in enumerate(rotated):
        ends_at = retires_at(key, rotated)
        # All that have an end and no withdrawal yet: the one that signs now, and any from before there was one.
        if key.withdraws_at is None and ends_at is not None:
            rotated[number] = replace(key, withdraws_at=ends_at + keep)
    return rotated


def withdraw(
    keys: Sequence[ProviderKey], key_version: int, now: datetime, replacement: SealedPair | None
) -> list[ProviderKey]:
    """Return the keys with one of them out of use at once and for good.

    `replacement` allows it for the key that signs now: the one that waits to sign does so at once, or, when
    there is none, the replacement. An older key never signs again: it may be why there is a younger one.
    Raises: KeyNotFound; KeyRefused.
    """
    by_version = {key.key_version: key for key in keys}
    key = by_version.get(key_version)
    if key is None:
        raise KeyNotFound(f"there is no provider key of version {key_version}")
    waiting = _waiting(keys, now)
    # A key may come from a clock ahead of ours, and no key is withdrawn before it was made.
    at = max([now, key.created_at, *([] if waiting is None else [waiting.created_at])])
    match status_of(key, keys, now):
        case ProviderKeyStatus.WITHDRAWN:
            raise KeyRefused(f"keyVersion {key_version} is withdrawn already")
        case ProviderKeyStatus.PUBLISHED:
            by_version |= _going_on(keys, now)
        case ProviderKeyStatus.RETIRED:
            pass
        case ProviderKeyStatus.ACTIVE:
            if replacement is None:
                raise KeyRefused(
                    f"keyVersion {key_version} signs now, and without it nothing would: give --replace,"
                    f" and keyVersion {_next_version(keys) if waiting is None else waiting.key_version}"
                    " signs at once"
                )
            successor = (
                _made(_next_version(keys), replacement, at, at)
                if waiting is None
                else replace(waiting, activates_at=at)
            )
            by_version[successor.key_version] = successor
    by_version[key_version] = replace(key, withdraws_at=at)
    return list(by_version.values())


def _waiting(keys: Sequence[ProviderKey], now: datetime) -> ProviderKey | None:
    """Return the key that is published and does not sign yet; there is one at most."""
    return next((key for key in keys if _is_waiting(key, keys, now)), None)


def _is_waiting(key: ProviderKey, keys: Sequence[ProviderKey], now: datetime) -> bool:
    return status_of(key, keys, now) is ProviderKeyStatus.PUBLISHED


def _going_on(keys: Sequence[ProviderKey], now: datetime) -> dict[int, ProviderKey]:
    """Return the key that signs, as it stands when its successor is taken back."""
    signing = signing_key(keys, now)
    return {signing.key_version: replace(signing, withdraws_at=None)}


def _next_version(keys: Sequence[ProviderKey]) -> int:
    return max((key.key_version for key in keys), default=0) + 1


def _made(key_version: int, pair: SealedPair, now: datetime, activates_at: datetime) -> ProviderKey:
    public_key_pem, sealed_private_key = pair
    return ProviderKey(
        key_version=key_version,
        public_key_pem=public_key_pem,
        sealed_private_key=sealed_private_key,
        created_at=now,
        activates_at=activates_at,
        withdraws_at=None,
    )
