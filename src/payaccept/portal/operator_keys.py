"""The keys that sign webhooks, for the provider's staff: seen, rotated, withdrawn. Never a private half."""

import hashlib
from binascii import a2b_base64
from datetime import datetime, timedelta
from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from payaccept.domain.durations import in_words
from payaccept.domain.errors import KeyNotFound, KeyRefused
from payaccept.domain.provider_key import (
    ProviderKey,
    ProviderKeyStatus,
    Rotation,
    changes_ahead,
    retires_at,
    status_of,
)
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.operator_merchants import reason_of, sentence
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services

ROOT: Final = "/operator/keys"
_CALLED: Final = {
    ProviderKeyStatus.PUBLISHED: ("Signs later", "busy"),
    ProviderKeyStatus.ACTIVE: ("Signs now", "good"),
    ProviderKeyStatus.RETIRED: ("Signed before", "plain"),
    ProviderKeyStatus.WITHDRAWN: ("Withdrawn", "bad"),
}


class ProviderKeyRow(Struct, frozen=True, kw_only=True):
    """A key as the pages show it: its public half, and its times."""

    key_version: int
    status: ProviderKeyStatus
    called: str
    kind: str
    fingerprint: str
    public_key_pem: str
    created_at: datetime
    activates_at: datetime
    retires_at: datetime | None
    withdraws_at: datetime | None


class Walk(Struct, frozen=True, kw_only=True):
    """What a rotation brings, in words; `hasty`: it signs before every copy of the list is renewed."""

    plan: Rotation
    signs_in: str
    kept_for: str
    max_age: str
    hasty: bool


@get(ROOT, guards=[staff()])
async def show_list(request: PortalRequest, services: NamedDependency[Services]) -> Page:
    """Show all keys, and what a rotation would bring."""
    now = services.clock()
    keys = await services.key_ring.list_keys()
    try:
        walk, under_way = _walk(await services.key_ring.plan_rotation(now), services, now), None
    except KeyRefused:
        walk = None
        under_way = next(
            (k for k in keys if status_of(k, keys, now) is ProviderKeyStatus.PUBLISHED and k.ever_signs), None
        )
    return page(
        request,
        "operator/keys.html",
        rows=sorted(_rows(keys, now), key=lambda row: -row.key_version),
        ahead=[(change, in_words(change.at - now)) for change in changes_ahead(keys, now)],
        walk=walk,
        under_way=under_way,
    )


@post(f"{ROOT}/rotate", guards=[staff()])
async def rotate(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Publish a new key, which signs after the lead time."""
    try:
        key = await services.key_ring.rotate(services.clock(), actor(request))
    except KeyRefused:
        return go(request, ROOT, "A rotation is under way already: nothing was changed.")
    return go(request, ROOT, f"keyVersion {key.key_version} is published. All else happens by itself.")


@get(f"{ROOT}/{{key_version:str}}", guards=[staff()])
async def show(
    request: PortalRequest, services: NamedDependency[Services], key_version: FromPath[str]
) -> Page:
    """Show one key, and what withdrawing it would mean."""
    return await _one(request, services, key_version)


@post(f"{ROOT}/{{key_version:str}}/withdraw", guards=[staff()])
async def withdraw(
    request: PortalRequest, services: NamedDependency[Services], key_version: FromPath[str]
) -> Response[Any]:
    """Take a key out of use at once and for good."""
    row = await _row(services, key_version)
    form = await Form.of(request)
    reason = reason_of(form)
    if form.text("version", max_length=9) != str(row.key_version):
        form.fail("version", f"Type {row.key_version}, the version of the key that you mean.")
    if form.is_valid:
        try:
            await services.key_ring.withdraw(row.key_version, services.clock(), actor(request), reason)
        except (KeyRefused, KeyNotFound) as refused:
            form.fail("form", sentence(refused))
        else:
            return go(request, ROOT, f"keyVersion {row.key_version} is withdrawn.")
    return await _one(request, services, key_version, form)


async def _one(
    request: PortalRequest, services: Services, key_version: str, form: Form | None = None
) -> Page:
    row = await _row(services, key_version)
    signs = None
    if row.status is not ProviderKeyStatus.WITHDRAWN:
        try:
            signs = await services.key_ring.plan_withdrawal(row.key_version, services.clock())
        except KeyRefused:
            signs = None  # it is the only one, and its time has not come
    return page(
        request,
        "operator/key.html",
        form=form,
        status=200 if form is None else 422,
        row=row,
        signs=signs,
        is_new=signs not in {known.key_version for known in await services.key_ring.list_keys()},
        max_age=in_words(timedelta(seconds=services.key_ring.times.max_age_s)),
    )


def _walk(plan: Rotation, services: Services, now: datetime) -> Walk:
    max_age = timedelta(seconds=services.key_ring.times.max_age_s)
    return Walk(
        plan=plan,
        signs_in=in_words(plan.activates_at - now),
        kept_for=in_words(plan.keeps_until - plan.activates_at),
        max_age=in_words(max_age),
        hasty=plan.activates_at - now < max_age,
    )


def _rows(keys: list[ProviderKey], now: datetime) -> list[ProviderKeyRow]:
    rows = []
    for key in keys:
        status = status_of(key, keys, now)
        called, kind = _CALLED[status]
        rows.append(
            ProviderKeyRow(
                key_version=key.key_version,
                status=status,
                called=called,
                kind=kind,
                fingerprint=_fingerprint(key.public_key_pem),
                public_key_pem=key.public_key_pem,
                created_at=key.created_at,
                activates_at=key.activates_at,
                retires_at=retires_at(key, keys),
                withdraws_at=key.withdraws_at,
            )
        )
    return rows


async def _row(services: Services, key_version: str) -> ProviderKeyRow:
    for row in _rows(await services.key_ring.list_keys(), services.clock()):
        if str(row.key_version) == key_version:
            return row
    raise PageNotFound


def _fingerprint(pem: str) -> str:
    """Return SHA-256 of a public key's DER, in hexadecimal."""
    return hashlib.sha256(a2b_base64("".join(pem.splitlines()[1:-1]))).hexdigest()


routes = (show_list, rotate, show, withdraw)
