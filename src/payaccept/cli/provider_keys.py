"""`payaccept provider-key`: the keys that sign webhooks."""

from datetime import datetime
from typing import Annotated

import typer

from payaccept.cli import terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer
from payaccept.cli.merchant_options import JsonOption
from payaccept.operations import provider_keys
from payaccept.operations.provider_keys import PublishedKey
from payaccept.wiring import Administration

app = typer.Typer(
    help="List and rotate the keys that sign webhooks.", no_args_is_help=True, rich_markup_mode=None
)


def _show(key: PublishedKey) -> None:
    terminal.say(f"{key.key_version:>4}  {key.status:9}  signs from {key.activate_time}")


@app.command("list")
def list_all(
    data_dir: DataDirOption = None, database_url: DatabaseUrlOption = None, json: JsonOption = False
) -> None:
    """List the keys; merchants verify under any of them."""

    async def work(administration: Administration, now: datetime) -> list[PublishedKey]:
        return await provider_keys.list_published(administration.store, now)

    keys = administer(data_dir, database_url, work)
    if json:
        terminal.print_json(keys)
        return
    for key in keys:
        _show(key)


@app.command()
def rotate(
    lead_s: Annotated[
        float | None,
        typer.Option(
            "--lead", min=0, metavar="SECONDS", help="How long the new key is published before it signs."
        ),
    ] = None,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Publish a new key, which signs after the lead time; the old ones stay published."""

    async def work(administration: Administration, now: datetime) -> PublishedKey:
        store, vault = administration.store, administration.vault()
        lead = administration.settings.provider_key_lead_s if lead_s is None else lead_s
        key = await provider_keys.rotate(store, vault, now, lead)
        return provider_keys.published(key, await store.list_provider_keys(), now)

    key = administer(data_dir, database_url, work)
    if json:
        terminal.print_json(key)
        return
    terminal.heading("New key published.")
    _show(key)
    terminal.note("Merchants who read the webhook keys by keyVersion need do nothing.")
