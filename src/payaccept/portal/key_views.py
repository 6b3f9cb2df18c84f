"""What the pages of keys show besides the keys: the traffic of the last hour, and what comes next in a rotation."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from payaccept.domain.key_proofs import is_lapsed
from payaccept.domain.merchant import KeyState, MerchantKey
from payaccept.domain.user import Membership, Permission
from payaccept.operations.requests import KeyTraffic, Traffic
from payaccept.portal.home import Step

IN_USE: Final = timedelta(hours=1)
_CHART_HEIGHT: Final = 80
_BAR: Final = 8
_STEP: Final = 10


class KeyRow(Struct, frozen=True, kw_only=True):
    """A key, how it is used, and how its state is called. `share` is its part of the last hour's requests, percent."""

    key: MerchantKey
    traffic: KeyTraffic
    share: int
    state: str
    kind: str
    tint: int

    @property
    def is_pending(self) -> bool:
        """Whether the key waits for its proof."""
        return self.key.state is KeyState.PENDING

    @property
    def is_active(self) -> bool:
        """Whether the key is taken."""
        return self.key.state is KeyState.ACTIVE


class Bar(Struct, frozen=True):
    """A piece of the chart, in its own units."""

    x: int
    y: float
    height: float
    tint: int


class Chart(Struct, frozen=True, kw_only=True):
    """Requests in each of the last 60 minutes, stacked by key."""

    bars: tuple[Bar, ...]
    peak: int
    width: int = 60 * _STEP - (_STEP - _BAR)
    height: int = _CHART_HEIGHT
    bar: int = _BAR


def rows_of(keys: Sequence[MerchantKey], traffic: Traffic, now: datetime) -> list[KeyRow]:
    """Return the rows, the youngest key first; the youngest active one has the first tint."""
    newest = sorted(keys, key=lambda key: key.key_version, reverse=True)
    tinted = sorted(newest, key=lambda key: key.state is not KeyState.ACTIVE)
    tints = [key.key_version for key in tinted if key.activated_at is not None]
    rows = []
    for key in newest:
        state, kind = _called(key, now)
        rows.append(
            KeyRow(
                key=key,
                traffic=traffic.of(key.key_version),
                share=round(100 * traffic.share(key.key_version)),
                state=state,
                kind=kind,
                tint=min(tints.index(key.key_version), 3) if key.key_version in tints else 3,
            )
        )
    return rows


def _called(key: MerchantKey, now: datetime) -> tuple[str, str]:
    match key.state:
        case KeyState.PENDING if is_lapsed(key, now):
            return "Lapsed", "bad"
        case KeyState.PENDING:
            return "Waiting for proof", "busy"
        case KeyState.ACTIVE:
            return "Active", "good"
        case KeyState.RETIRED:
            return "Deactivated", "plain"
        case KeyState.DISCARDED:
            return "Discarded", "plain"


def chart_of(rows: Sequence[KeyRow]) -> Chart:
    """Return the chart of the last hour; the youngest key stands on the ground."""
    totals = [sum(row.traffic.minutes[minute] for row in rows) for minute in range(60)]
    peak = max(totals)
    bars = []
    for minute in range(60):
        top = float(_CHART_HEIGHT)
        for row in rows:
            uses = row.traffic.minutes[minute]
            if uses:
                height = max(2.0, uses / peak * _CHART_HEIGHT)
                top -= height
                bars.append(Bar(minute * _STEP, round(max(top, 0), 1), round(height, 1), row.tint))
    return Chart(bars=tuple(bars), peak=peak)


def is_in_use(row: KeyRow, now: datetime) -> bool:
    """Tell whether a key signed something in the last hour."""
    last = row.traffic.last_used_at
    return last is not None and now - last < IN_USE


def ago(at: datetime | None, now: datetime) -> str:
    """Say how long ago something was."""
    if at is None:
        return "never"
    seconds = max(0, int((now - at).total_seconds()))
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if seconds < 2 else f"{seconds} seconds ago"  # noqa: PLR2004


def rotation(rows: Sequence[KeyRow], membership: Membership, now: datetime) -> list[Step]:
    """Return the steps from one key to the next, as far as they have been taken."""
    root = f"/m/{membership.client_id}/keys"
    may = membership.grants(Permission.MANAGE_KEYS)
    active = [row for row in rows if row.is_active]
    waiting = next((row for row in rows if row.is_pending and row.kind != "bad"), None)
    new, old = (active[0], active[1]) if len(active) > 1 else (None, active[0] if active else None)
    return [
        Step(
            title="Add the new key",
            text="Make a pair where it will be used; only the public half leaves that place.",
            done=new is not None or waiting is not None,
            path=f"{root}/new" if may else "",
            label="Add a key",
        ),
        Step(
            title="Prove that you hold its private half",
            text="Sign a text, or send one signed request: until then, nothing else is changed.",
            done=new is not None,
            path=f"{root}/{waiting.key.key_version}" if may and waiting is not None else "",
            label="" if waiting is None else f"Prove keyVersion {waiting.key.key_version}",
        ),
        _moving(new, old, now),
        _leaving(new, old, root if may else "", now),
    ]


def _moving(new: KeyRow | None, old: KeyRow | None, now: datetime) -> Step:
    title = "Let your servers sign with it, and see the traffic move"
    if new is None or old is None:
        return Step(title=title, text="Both keys are taken meanwhile, so that nothing has to happen at once.")
    text = (
        f"In the last hour keyVersion {new.key.key_version} signed {new.share} % of your requests. The last one"
        f" under keyVersion {old.key.key_version} came {ago(old.traffic.last_used_at, now)}."
    )
    return Step(title=title, text=text, done=is_in_use(new, now) and not is_in_use(old, now))


def _leaving(new: KeyRow | None, old: KeyRow | None, root: str, now: datetime) -> Step:
    if new is None or old is None:
        return Step(
            title="Deactivate the old one", text="When an hour has passed without a request under it."
        )
    version = old.key.key_version
    still = is_in_use(old, now)
    return Step(
        title=f"Deactivate keyVersion {version}",
        text="Not yet: it is still in use. What it signs would be refused."
        if still
        else "It has signed nothing for an hour: it can go.",
        path="" if still or not root else f"{root}/{version}#deactivate",
        label=f"Deactivate keyVersion {version}",
    )
