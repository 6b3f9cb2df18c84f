"""`payaccept merchant`: create and configure merchants."""

from datetime import datetime
from typing import Annotated, Any

import typer
from msgspec import UNSET

from payaccept.cli import terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer, when
from payaccept.cli.merchant_options import JsonOption
from payaccept.cli.terminal import Mistake
from payaccept.domain.merchant import DuplicatePolicy, Merchant
from payaccept.operations.merchants import Changes
from payaccept.wire import timestamps
from payaccept.wiring import Administration

app = typer.Typer(help="Create and configure merchants.", no_args_is_help=True, rich_markup_mode=None)

ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID")]


def as_json(merchant: Merchant) -> dict[str, Any]:
    """Show a merchant in the API's spelling."""
    return {
        "clientId": merchant.client_id,
        "name": merchant.name,
        "state": merchant.state,
        "webhookUrl": merchant.webhook_url,
        "duplicates": merchant.duplicates,
        "rateLimit": merchant.rate_limit,
        "baseBucket": merchant.base_bucket,
        "spread": merchant.spread,
        "createTime": timestamps.write(merchant.created_at),
        "updateTime": timestamps.write(merchant.updated_at),
    }


def _show(merchant: Merchant, title: str, *, json: bool) -> None:
    if json:
        terminal.print_json(as_json(merchant))
        return
    terminal.heading(title)
    terminal.rows(
        [
            ("clientId", merchant.client_id),
            ("name", merchant.name),
            ("state", merchant.state),
            ("webhookUrl", merchant.webhook_url or "none: set it, or send paymentNotifyUrl"),
            ("duplicates", merchant.duplicates),
            ("rateLimit", f"{merchant.rate_limit} requests in any 60 s" if merchant.rate_limit else "none"),
            ("spread", merchant.spread),
            ("created", when(merchant.created_at)),
        ]
    )


@app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="The merchant's name.")],
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Create a merchant."""

    async def work(administration: Administration, now: datetime) -> Merchant:
        return await administration.merchants.create(name, now)

    merchant = administer(data_dir, database_url, work)
    _show(merchant, "Merchant created.", json=json)
    if not json:
        terminal.note(f"Next: payaccept keygen, then payaccept key add {merchant.client_id} PUBLIC_KEY_FILE")


@app.command("list")
def list_all(
    data_dir: DataDirOption = None, database_url: DatabaseUrlOption = None, json: JsonOption = False
) -> None:
    """List all merchants."""

    async def work(administration: Administration, _now: datetime) -> list[Merchant]:
        return await administration.merchants.list_all()

    merchants = administer(data_dir, database_url, work)
    if json:
        terminal.print_json([as_json(merchant) for merchant in merchants])
        return
    for merchant in merchants:
        terminal.say(f"{merchant.client_id}  {merchant.state:8}  {terminal.printable(merchant.name)}")
    if not merchants:
        terminal.note("No merchants yet: payaccept merchant create --name NAME")


@app.command()
def show(
    client_id: ClientId,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show one merchant."""

    async def work(administration: Administration, _now: datetime) -> Merchant:
        return await administration.merchants.get(client_id)

    _show(administer(data_dir, database_url, work), "Merchant", json=json)


@app.command()
def activate(
    client_id: ClientId,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Let a merchant take payments."""

    async def work(administration: Administration, now: datetime) -> Merchant:
        return await administration.merchants.activate(client_id, now)

    _show(administer(data_dir, database_url, work), "Merchant active.", json=json)


@app.command()
def deactivate(
    client_id: ClientId,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Stop a merchant from taking payments."""

    async def work(administration: Administration, now: datetime) -> Merchant:
        return await administration.merchants.deactivate(client_id, now)

    _show(administer(data_dir, database_url, work), "Merchant inactive.", json=json)


@app.command("set")
def change(
    client_id: ClientId,
    webhook_url: Annotated[
        str | None, typer.Option("--webhook-url", metavar="URL|none", help="Where events go by default.")
    ] = None,
    duplicates: Annotated[
        DuplicatePolicy | None, typer.Option("--duplicates", help="How a repeated request is answered.")
    ] = None,
    rate_limit: Annotated[
        str | None, typer.Option("--rate-limit", metavar="N|none", help="Requests in any 60 seconds.")
    ] = None,
    spread: Annotated[
        int | None,
        typer.Option(
            "--spread", metavar="N", help="Buckets its payments spread over; before the first payment."
        ),
    ] = None,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Change a merchant's settings."""
    changes = Changes(
        webhook_url=UNSET if webhook_url is None else None if webhook_url in {"none", ""} else webhook_url,
        duplicates=UNSET if duplicates is None else duplicates,
        rate_limit=UNSET if rate_limit is None else _limit(rate_limit),
        spread=UNSET if spread is None else spread,
    )
    if changes == Changes():
        raise Mistake("nothing to change: give --webhook-url, --duplicates, --rate-limit or --spread")

    async def work(administration: Administration, now: datetime) -> Merchant:
        return await administration.merchants.change(client_id, changes, now)

    _show(administer(data_dir, database_url, work), "Merchant changed.", json=json)


def _limit(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise Mistake(f"--rate-limit must be a whole number or none, not {text}")
    return int(text)
