"""The keys of a merchant: added, proved, watched, rotated; and ours, which sign what it is sent."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain import merchant_keys
from payaccept.domain.errors import KeyNotFound, KeyRefused, ProofRefused
from payaccept.domain.key_proofs import PENDING_LIFE, is_lapsed, text_to_sign
from payaccept.domain.merchant import KeyState, MerchantKey
from payaccept.domain.user import Membership, Permission
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.commands import signed_request
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.key_views import KeyRow, chart_of, is_in_use, rotation, rows_of
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services

_PRIVATE: Final = b"PRIVATE KEY"
# Asks for a payment that does not exist.
_PROOF: Final = '{"paymentRequestId":"key-proof"}'
_SPOILT: Final = (
    "This is a private key, and it has now left your machine: do not use it. Make a new pair, and upload the"
    " public half of that."
)
_NOTHING: Final = "Paste the public key, or choose the file it is in."
_BOTH: Final = "Either paste the key or choose a file, not both: they might differ."


@get("/m/{client_id:str}/keys", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Page:
    """Show all keys and how they are used."""
    now = services.clock()
    rows = await _rows(services, membership)
    used = [row for row in rows if row.traffic.last_hour]
    return page(
        request,
        "keys/keys.html",
        may_manage=membership.grants(Permission.MANAGE_KEYS),
        current=[row for row in rows if row.is_active or row.is_pending],
        former=[row for row in rows if not row.is_active and not row.is_pending],
        used=used,
        chart=chart_of(used) if used else None,
        steps=rotation(rows, membership, now),
        published=await services.list_published_keys(),
    )


@get("/m/{client_id:str}/keys/new", guards=[member(Permission.MANAGE_KEYS)])
async def show_new(request: PortalRequest) -> Page:
    """Ask for a public key."""
    return page(request, "keys/new.html")


@post("/m/{client_id:str}/keys/new", guards=[member(Permission.MANAGE_KEYS)])
async def add(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Add a key, which waits for its proof from then on."""
    form = await Form.of(request)
    pem = await _pem_of(request, form)
    if form.is_valid:
        try:
            key = await services.key_proofs.offer(membership.client_id, pem, services.clock(), actor(request))
        except KeyRefused as refused:
            form.fail("pem", _sentence(str(refused)))
        else:
            told = f"The key is good: it is keyVersion {key.key_version}. One step is left."
            return go(request, f"/m/{membership.client_id}/keys/{key.key_version}", told)
    return page(request, "keys/new.html", form=form, status=422)


@post("/m/{client_id:str}/keys/verdict", guards=[member(Permission.MANAGE_KEYS)])
async def judge(request: PortalRequest) -> Response[dict[str, object]]:
    """Say what is thought of a key while the form is filled in; nothing is kept."""
    form = await Form.of(request)
    pem = await _pem_of(request, form)
    if not form.is_valid:
        return Response({"good": False, "text": form.errors["pem"]})
    try:
        accepted = merchant_keys.accept(pem)
    except KeyRefused as refused:
        return Response({"good": False, "text": _sentence(str(refused))})
    text = f"A good key: RSA with 2048 bits. Its fingerprint is {accepted.fingerprint}."
    return Response({"good": True, "text": text})


@get("/m/{client_id:str}/keys/{key_version:str}", guards=[member(Permission.VIEW)])
async def show_one(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    key_version: FromPath[str],
) -> Page:
    """Show one key: what it takes to prove it, how it is used, how to give it up."""
    return await _one(request, services, membership, key_version)


@post("/m/{client_id:str}/keys/{key_version:str}/proof", guards=[member(Permission.MANAGE_KEYS)])
async def prove(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    key_version: FromPath[str],
) -> Response[Any]:
    """Check the signature of the text, and make the key active."""
    version = _version(key_version)
    form = await Form.of(request)
    signature = form.text("signature")
    if _PRIVATE.decode() in signature:
        form.secret("signature")
    try:
        await services.key_proofs.prove_by_text(
            membership.client_id, version, signature, services.clock(), actor(request)
        )
    except KeyNotFound:
        raise PageNotFound from None
    except (KeyRefused, ProofRefused) as refused:
        form.fail("signature", _sentence(str(refused)))
        return await _one(request, services, membership, key_version, form)
    told = f"Proved: keyVersion {version} is active. Requests under it are taken from now on."
    return go(request, f"/m/{membership.client_id}/keys/{version}", told)


@post("/m/{client_id:str}/keys/{key_version:str}/discard", guards=[member(Permission.MANAGE_KEYS)])
async def discard(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    key_version: FromPath[str],
) -> Response[Any]:
    """Give up a key that was not proved."""
    version = _version(key_version)
    root = f"/m/{membership.client_id}/keys"
    try:
        await services.key_proofs.discard(membership.client_id, version, services.clock(), actor(request))
    except KeyNotFound:
        await _row(services, membership, version)
        return go(request, f"{root}/{version}", "That key waits for nothing any more.")
    return go(request, root, f"keyVersion {version} is discarded.")


@post("/m/{client_id:str}/keys/{key_version:str}/deactivate", guards=[member(Permission.MANAGE_KEYS)])
async def deactivate(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    key_version: FromPath[str],
) -> Response[Any]:
    """Refuse a key from now on; one that is in use, or the last, only when that is meant."""
    version = _version(key_version)
    form = await Form.of(request)
    row = await _row(services, membership, version)
    if await _costs(services, membership, row) and form.text("sure") != "yes":
        form.fail("sure", "Say that you mean it: requests will be refused.")
        return await _one(request, services, membership, key_version, form)
    root = f"/m/{membership.client_id}/keys"
    try:
        await services.merchants.retire_key(membership.client_id, version, services.clock(), actor(request))
    except KeyNotFound:
        return go(request, f"{root}/{version}", "That key is not active.")
    return go(
        request, root, f"keyVersion {version} is deactivated: what it signs is refused within a second."
    )


async def _one(
    request: PortalRequest,
    services: Services,
    membership: Membership,
    key_version: str,
    form: Form | None = None,
) -> Page:
    row = await _row(services, membership, _version(key_version))
    now = services.clock()
    return page(
        request,
        "keys/key.html",
        form=form,
        status=200 if form is None else 422,
        row=row,
        may_manage=membership.grants(Permission.MANAGE_KEYS),
        chart=chart_of([row]) if row.traffic.last_hour else None,
        lapsed=is_lapsed(row.key, now),
        lapses_at=row.key.created_at + PENDING_LIFE,
        sign_command=_sign_command(row.key) if row.is_pending else "",
        request_command=signed_request(
            services.site.api_base_url, row.key.client_id, row.key.key_version, "inquiryPayment", _PROOF
        ),
        in_use=is_in_use(row, now),
        costs=row.is_active and await _costs(services, membership, row),
    )


def _sign_command(key: MerchantKey) -> str:
    return (
        f"printf %s '{text_to_sign(key)}' \\\n  | openssl dgst -sha256 -sign private-key.pem | openssl base64"
    )


async def _costs(services: Services, membership: Membership, row: KeyRow) -> bool:
    """Tell whether requests would be refused if the key went now."""
    keys = await services.merchants.list_keys(membership.client_id)
    others = [k for k in keys if k.state is KeyState.ACTIVE and k.key_version != row.key.key_version]
    return not others or is_in_use(row, services.clock())


async def _rows(services: Services, membership: Membership) -> list[KeyRow]:
    keys = await services.merchants.list_keys(membership.client_id)
    now = services.clock()
    return rows_of(keys, await services.requests.traffic(membership.client_id, now), now)


async def _row(services: Services, membership: Membership, version: int) -> KeyRow:
    for row in await _rows(services, membership):
        if row.key.key_version == version:
            return row
    raise PageNotFound


async def _pem_of(request: PortalRequest, form: Form) -> bytes:
    """Return the key that was pasted or chosen. A private one is never shown again, nor any part of it."""
    pasted = form.text("pem", max_length=merchant_keys.MAX_PEM_BYTES).encode()
    chosen = await Form.file_of(request, "file")
    if _PRIVATE in pasted or _PRIVATE in chosen:
        form.secret("pem")
        form.fail("pem", _SPOILT)
    elif pasted and chosen:
        form.fail("pem", _BOTH)
    elif not pasted and not chosen:
        form.fail("pem", _NOTHING)
    return pasted or chosen


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):  # noqa: PLR2004
        raise PageNotFound
    return int(text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


routes = (show, show_new, add, judge, show_one, prove, discard, deactivate)
