"""The sandbox's demo merchant: its key, its sign-in to the portal, and the file that tells of both."""

import asyncio
import secrets
from pathlib import Path
from typing import Any, Final

import msgspec

from payaccept.cli.merchant_options import FILE_NAME
from payaccept.config import Settings
from payaccept.domain.user import Actor, Membership, Role
from payaccept.people_wiring import PeopleAdministration
from payaccept.sdk import keys
from payaccept.sdk.keys import KeyPair
from payaccept.wiring import now_utc

NAME: Final = "Demo merchant"
KEY_FILE: Final = "demo-merchant-key.pem"
EMAIL: Final = "demo@merchant.example"
_SETTING_UP: Final = Actor(user_id=None, name="sandbox", address="")
_KEPT: Final = ("clientId", "keyVersion", "privateKeyFile", "portalUser", "portalPassword")


def prepare(directory: Path, settings: Settings, base_url: str) -> None:
    """Make what is missing at the first start; later only see that the file tells the addresses of now."""
    path = directory / FILE_NAME
    told: dict[str, Any] = tell(directory) if path.exists() else {}
    addresses = {
        "webhookKeysUrl": f"{base_url}/.well-known/payaccept/webhook-keys",
        "portalUrl": settings.web_base_url,
    }
    if "clientId" not in told:
        pair = keys.generate()
        private_key = directory / KEY_FILE
        _write(private_key, pair.private_pem)
        told |= {**asyncio.run(_make_merchant(settings, pair)), "privateKeyFile": str(private_key)}
        # Now, so that a start that is cut short goes on with this merchant, and knows its user from another's.
        _keep(path, {"baseUrl": base_url, **told, **addresses})
    if "portalUser" not in told:
        told |= asyncio.run(_make_user(settings, told["clientId"]))
    _keep(path, {"baseUrl": base_url, **{name: told[name] for name in _KEPT}, **addresses})


def tell(directory: Path) -> dict[str, Any]:
    """Return what the file tells."""
    told: dict[str, Any] = msgspec.json.decode((directory / FILE_NAME).read_bytes())
    return told


def _keep(path: Path, told: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    _write(partial, msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")
    partial.rename(path)


def _write(path: Path, secret: bytes) -> None:
    path.unlink(missing_ok=True)  # of a start that was killed
    path.touch(mode=0o600)
    path.write_bytes(secret)


async def _make_merchant(settings: Settings, pair: KeyPair) -> dict[str, Any]:
    async with PeopleAdministration(settings) as administration:
        merchant = await administration.merchants.create(NAME, now_utc(), _SETTING_UP)
        registered = await administration.merchants.add_key(
            merchant.client_id, pair.public_pem, now_utc(), _SETTING_UP
        )
    return {"clientId": merchant.client_id, "keyVersion": registered.key_version}


async def _make_user(settings: Settings, client_id: str) -> dict[str, Any]:
    """Make the owner, or give the one of a first start that was killed a new password.

    Another data directory may have its demo merchant in the same database: its owner keeps address and password.
    """
    now, password = now_utc(), secrets.token_urlsafe(15)
    membership = Membership(client_id=client_id, merchant_name=NAME, role=Role.OWNER)
    async with PeopleAdministration(settings) as administration:
        people, users = administration.people, administration.users
        members = await people.list_members(client_id)
        if members:
            user = members[0].user
            await users.change_password(user, password, now, _SETTING_UP)
            return {"portalUser": user.email, "portalPassword": password}
        is_taken = await users.find_account(EMAIL) is not None
        email = f"demo-{client_id[-8:]}@merchant.example" if is_taken else EMAIL
        link = (await people.invite(membership, email, Role.OWNER, now, _SETTING_UP)).link
        await people.accept_as_new(link, "Demo owner", password, now, "")
    return {"portalUser": email, "portalPassword": password}
