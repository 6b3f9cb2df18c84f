"""`payaccept key`: register and retire merchants' public keys."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from payaccept.cli import terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer, when
from payaccept.cli.merchant_options import JsonOption
from payaccept.cli.merchants import ClientId
from payaccept.cli.terminal import Mistake
from payaccept.domain.merchant import MerchantKey
from payaccept.wire import timestamps
from payaccept.wiring import Administration

app = typer.Typer(
    help="Register and retire merchants' public keys.", no_args_is_help=True, rich_markup_mode=None
)


def as_json(key: MerchantKey) -> dict[str, Any]:
    """Show a key in the API's spelling."""
    return {
        "clientId": key.client_id,
        "keyVersion": key.key_version,
        "state": key.state,
        "fingerprint": key.fingerprint,
        "publicKeyPem": key.public_key_pem,
        "createTime": timestamps.write(key.created_at),
        "retireTime": None if key.retired_at is None else timestamps.write(key.retired_at),
    }


def _show(key: MerchantKey, title: str, *, json: bool) -> None:
    if json:
        terminal.print_json(as_json(key))
        return
    terminal.heading(title)
    terminal.rows(
        [
            ("clientId", key.client_id),
            ("keyVersion", key.key_version),
            ("state", key.state),
            ("sha256", key.fingerprint),
            ("created", when(key.created_at)),
            ("retired", when(key.retired_at)),
        ]
    )


@app.command()
def add(
    client_id: ClientId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One RSA-2048 public key in PEM.")],
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Register a public key; it is accepted at once, beside the ones before it."""
    try:
        pem = file.read_bytes()
    except OSError as error:
        raise Mistake(f"{file} cannot be read: {error.strerror}") from None

    async def work(administration: Administration, now: datetime) -> MerchantKey:
        return await administration.merchants.add_key(client_id, pem, now)

    _show(administer(data_dir, database_url, work), "Key registered.", json=json)


@app.command("list")
def list_all(
    client_id: ClientId,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """List a merchant's keys."""

    async def work(administration: Administration, _now: datetime) -> list[MerchantKey]:
        return await administration.merchants.list_keys(client_id)

    keys = administer(data_dir, database_url, work)
    if json:
        terminal.print_json([as_json(key) for key in keys])
        return
    for key in keys:
        terminal.say(f"{key.key_version:>4}  {key.state:8}  {key.fingerprint}  {when(key.created_at)}")
    if not keys:
        terminal.note(f"No keys yet: payaccept key add {client_id} FILE")


@app.command()
def retire(
    client_id: ClientId,
    version: Annotated[int, typer.Argument(metavar="VERSION")],
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Refuse a key from now on, for good."""

    async def work(administration: Administration, now: datetime) -> MerchantKey:
        return await administration.merchants.retire_key(client_id, version, now)

    _show(administer(data_dir, database_url, work), "Key retired.", json=json)
