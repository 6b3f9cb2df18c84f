"""`payaccept provider-key`: the keys that sign webhooks."""

import sys
import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from payaccept.cli import terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer, when
from payaccept.cli.merchant_options import JsonOption
from payaccept.cli.terminal import Failed
from payaccept.config import Settings
from payaccept.domain import provider_key
from payaccept.domain.durations import in_words
from payaccept.domain.provider_key import ProviderKey, ProviderKeyStatus, Rotation
from payaccept.operations import provider_keys
from payaccept.wiring import Administration

app = typer.Typer(
    help="List, rotate and withdraw the keys that sign webhooks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

VERIFIED_LATE: Final = timedelta(minutes=10)
"""A merchant takes a signature of up to this age, so a key should be published for longer than that."""
WIDTH: Final = 100

YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask. Without a terminal nothing is asked anyway.")
]


@app.command("list")
def list_all(
    data_dir: DataDirOption = None, database_url: DatabaseUrlOption = None, json: JsonOption = False
) -> None:
    """List the keys, and what becomes of them by itself; merchants verify under all but the withdrawn ones."""
    keys, now, _ = _read(data_dir, database_url)
    _print(keys, now, json=json)


@app.command()
def rotate(
    lead_s: Annotated[
        float | None,
        typer.Option(
            "--lead", min=0, metavar="SECONDS", help="How long the new key is published before it signs."
        ),
    ] = None,
    yes: YesOption = False,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Publish a new key, which signs after the lead time; the old one stays published for the longest retry.

    On a terminal it shows first what will happen when, and asks.
    """

    def lead(settings: Settings) -> float:
        return settings.provider_key_lead_s if lead_s is None else lead_s

    async def work(administration: Administration, now: datetime) -> tuple[list[ProviderKey], datetime]:
        settings = administration.settings
        return await provider_keys.rotate(
            administration.store,
            administration.vault(),
            now,
            lead_s=lead(settings),
            keep_s=settings.provider_keys_keep_s,
        ), now

    if _asks(yes=yes, json=json):
        keys, now, settings = _read(data_dir, database_url)
        plan = provider_key.plan_rotation(
            keys, now, lead_s=lead(settings), keep_s=settings.provider_keys_keep_s
        )
        _tell(_rotation_in_words(plan, now, settings))
        _ask("Rotate?")
    keys, now = administer(data_dir, database_url, work)
    if json:
        terminal.print_json(provider_keys.show(keys, now)[-1])
        return
    version = keys[-1].key_version
    signs = provider_key.status_of(keys[-1], keys, now) is ProviderKeyStatus.ACTIVE
    terminal.heading(f"keyVersion {version} is published{' and signs' if signs else ''}.")
    _print(keys, now)
    terminal.note("To watch it: payaccept provider-key list")
    if not signs:
        terminal.note(f"To take it back before it signs: payaccept provider-key withdraw {version}")


@app.command()
def withdraw(
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1)],
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Needed when it signs now: the key that waits to sign does so at once, or else a new one.",
        ),
    ] = False,
    yes: YesOption = False,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Take a key out of use at once and for good, because somebody else may have it: not published, not signing.

    It says first what merchants will see, and on a terminal it asks. A key that waits to sign is taken back by it.
    """

    async def work(administration: Administration, now: datetime) -> tuple[list[ProviderKey], datetime]:
        vault = administration.vault() if replace else None
        return await provider_keys.withdraw(administration.store, vault, now, version), now

    if not json:
        keys, now, settings = _read(data_dir, database_url)
        after = provider_key.withdraw(keys, version, now, ("", b"") if replace else None)
        _tell(_withdrawal_in_words(keys, after, version, now, settings))
    if _asks(yes=yes, json=json):
        _ask("Withdraw it?")
    keys, now = administer(data_dir, database_url, work)
    if json:
        [withdrawn] = [key for key in provider_keys.show(keys, now) if key.key_version == version]
        terminal.print_json(withdrawn)
        return
    terminal.heading(f"keyVersion {version} is withdrawn.")
    _print(keys, now)


def _read(
    data_dir: DataDirOption, database_url: DatabaseUrlOption
) -> tuple[list[ProviderKey], datetime, Settings]:
    async def work(
        administration: Administration, now: datetime
    ) -> tuple[list[ProviderKey], datetime, Settings]:
        return await administration.store.list_provider_keys(), now, administration.settings

    return administer(data_dir, database_url, work)


def _asks(*, yes: bool, json: bool) -> bool:
    """Tell whether there is somebody to ask: never in a script."""
    return not (yes or json) and sys.stdin.isatty()


def _tell(told: Sequence[str]) -> None:
    """Show what will happen, beside the result."""
    for text in (*told, ""):
        typer.echo(textwrap.fill(text, WIDTH, subsequent_indent="  " if text[:2] == "- " else ""), err=True)


def _ask(question: str) -> None:
    """Go on if that is wanted. Raises: Failed."""
    if not typer.confirm(question, err=True):
        raise Failed("nothing was changed")


def _print(keys: Sequence[ProviderKey], now: datetime, *, json: bool = False) -> None:
    if json:
        terminal.print_json(provider_keys.show(keys, now))
        return
    for key in keys:
        terminal.say(_line(key, keys, now))
    changes = provider_key.changes_ahead(keys, now)
    if changes:
        terminal.say()
        terminal.say("Next, by itself:")
    for change in changes:
        begins = change.status is ProviderKeyStatus.ACTIVE
        what = "signs, and no older one" if begins else "is not published any more"
        ahead = f"in {in_words(change.at - now)}"
        terminal.say(f"  {when(change.at)}  {ahead:15}  keyVersion {change.key_version} {what}")


def _line(key: ProviderKey, keys: Sequence[ProviderKey], now: datetime) -> str:
    status = provider_key.status_of(key, keys, now)
    ends_at, withdraws_at = provider_key.retires_at(key, keys), key.withdraws_at
    match status:
        case ProviderKeyStatus.PUBLISHED:
            told = [f"signs from {when(key.activates_at)}"]
        case ProviderKeyStatus.ACTIVE:
            told = [f"signs since {when(key.activates_at)}"]
            if ends_at is not None:
                told.append(f"until {when(ends_at)}")
        case ProviderKeyStatus.RETIRED:
            told = [f"signed until {when(ends_at)}"]
        case ProviderKeyStatus.WITHDRAWN:
            told = [f"published until {when(withdraws_at)}"]
    if status is not ProviderKeyStatus.WITHDRAWN and withdraws_at is not None:
        told.append(f"published until {when(withdraws_at)}")
    return f"{key.key_version:>4}  {status:9}  {', '.join(told)}"


def _rotation_in_words(plan: Rotation, now: datetime, settings: Settings) -> list[str]:
    """Say what will happen when, and what merchants have to do about it."""
    new, old = plan.key_version, plan.before
    signs_in, kept_for = plan.activates_at - now, plan.keeps_until - plan.activates_at
    max_age = timedelta(seconds=settings.provider_keys_max_age_s)
    told = [
        f"keyVersion {new} will sign webhooks instead of keyVersion {old} (times in UTC):",
        "",
        f"  {'now':20}  {new} is made and published; {old} goes on signing",
        f"  {when(plan.activates_at)}  {new} signs, in {in_words(signs_in)}; {old} stays published",
        f"  {when(plan.keeps_until)}  {old} is not published any more, {in_words(kept_for)} later",
        "",
        (
            "Merchants who choose the key by its keyVersion, as our SDK does, need do nothing: they have the new one"
            f" when their copy of the list is renewed (it is good for {in_words(max_age)}), or when they first"
            f" meet it. Those who have copied keyVersion {old} by hand must copy {new} as well before it signs."
        ),
    ]
    if signs_in < max_age:
        told.append(
            "CAREFUL: it signs before every copy of the list is renewed. Some webhooks may be refused first, and"
            " come again."
        )
    if kept_for < VERIFIED_LATE:
        told.append(
            f"CAREFUL: merchants take a signature that is up to {in_words(VERIFIED_LATE)} old, and after the last"
            f" one of keyVersion {old} it is not published for as long."
        )
    return told


def _withdrawal_in_words(
    keys: Sequence[ProviderKey],
    after: Sequence[ProviderKey],
    version: int,
    now: datetime,
    settings: Settings,
) -> list[str]:
    """Say what merchants will see; `after` is what the keys will be."""
    key = next(key for key in keys if key.key_version == version)
    signing = provider_key.signing_key(after, now).key_version
    renewed = (
        "- What anybody signs with it is believed until a merchant's copy of the list is renewed. That takes up to"
        f" {in_words(timedelta(seconds=settings.provider_keys_max_age_s))} where copies are kept for as long as we"
        " say, and longer elsewhere."
    )
    match provider_key.status_of(key, keys, now):
        case ProviderKeyStatus.PUBLISHED:
            return [
                f"keyVersion {version} leaves the published list now, for good. It has signed nothing yet.",
                f"keyVersion {signing} goes on signing, and merchants notice nothing.",
            ]
        case ProviderKeyStatus.ACTIVE:
            return [
                f"keyVersion {version} stops signing and leaves the published list now, for good.",
                f"keyVersion {signing} signs at once. What merchants see:",
                (
                    "- Who fetches the list at an unknown keyVersion may refuse a few webhooks until then. They come"
                    " again."
                ),
                (
                    f"- Who has copied keyVersion {version} by hand refuses every webhook until keyVersion {signing}"
                    " is copied. Tell them."
                ),
                renewed,
            ]
        case _:
            return [
                f"keyVersion {version} leaves the published list now, for good. It signs nothing any more, and",
                f"keyVersion {signing} goes on signing. What merchants see:",
                (
                    f"- A webhook of ours from before {when(provider_key.retires_at(key, keys))} that somebody"
                    " verifies only now is refused."
                ),
                renewed,
            ]
