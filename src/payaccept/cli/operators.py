"""`payaccept operator`: the provider's own people, and links to new passwords for everybody."""

import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer
from msgspec.structs import replace

from payaccept.adapters.postgres.embedded import default_data_dir
from payaccept.cli import terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, run_with, when
from payaccept.cli.merchant_options import FILE_NAME, JsonOption
from payaccept.cli.terminal import Failed
from payaccept.config import Settings
from payaccept.domain.user import COMMAND_LINE, User
from payaccept.operations.people import Sent
from payaccept.people_wiring import PeopleAdministration

T = TypeVar("T")

app = typer.Typer(
    help="The provider's own people, and links to new passwords.", no_args_is_help=True, rich_markup_mode=None
)

EmailOption = Annotated[str, typer.Option("--email", metavar="ADDRESS", help="Whose account it is.")]


def _work_on(
    data_dir: Path | None,
    database_url: str | None,
    work: Callable[[PeopleAdministration, datetime], Awaitable[T]],
) -> T:
    def opened(settings: Settings) -> PeopleAdministration:
        return PeopleAdministration(settings if database_url else _with_portal_of(settings, data_dir))

    return run_with(opened, data_dir, database_url, work)


def _with_portal_of(settings: Settings, data_dir: Path | None) -> Settings:
    """Have links begin where the sandbox of a data directory has its portal, unless the environment says it."""
    file = (data_dir or default_data_dir()) / FILE_NAME
    if "PAYACCEPT_WEB_BASE_URL" in os.environ or not file.exists():
        return settings
    told = msgspec.json.decode(file.read_bytes())
    return replace(settings, web_base_url=told.get("portalUrl", settings.web_base_url))


def _show_link(sent: Sent, title: str, *, json: bool) -> None:
    if json:
        terminal.print_json(
            {"email": sent.link.email, "url": sent.url, "expiresAt": when(sent.link.expires_at)}
        )
        return
    terminal.heading(title)
    terminal.rows([("for", sent.link.email), ("link", sent.url), ("until", when(sent.link.expires_at))])
    terminal.note("It works once. Pass it on to nobody else.")


@app.command()
def create(
    email: EmailOption,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Take somebody into the staff: whoever has an account at once, everybody else by a one-time link."""

    async def work(administration: PeopleAdministration, now: datetime) -> Sent | User:
        account = await administration.users.find_account(email)
        if account is None:
            return await administration.people.invite_staff(email, now)
        await administration.users.set_staff(account.user, now, staff=True)
        return account.user

    made = _work_on(data_dir, database_url, work)
    if isinstance(made, Sent):
        _show_link(made, "Invitation made.", json=json)
    elif json:
        terminal.print_json({"email": made.email, "userId": made.user_id})
    else:
        terminal.heading(f"{terminal.printable(made.email)} belongs to the staff now.")


@app.command("list")
def list_all(
    data_dir: DataDirOption = None, database_url: DatabaseUrlOption = None, json: JsonOption = False
) -> None:
    """List the staff."""

    async def work(administration: PeopleAdministration, _now: datetime) -> list[User]:
        return await administration.users.list_staff()

    staff = _work_on(data_dir, database_url, work)
    if json:
        terminal.print_json(
            [{"email": user.email, "name": user.name, "secondFactor": user.has_totp} for user in staff]
        )
        return
    for user in staff:
        second = "second factor on" if user.has_totp else "second factor off"
        terminal.say(f"{terminal.printable(user.email)}  {terminal.printable(user.name)}  {second}")
    if not staff:
        terminal.note("Nobody yet: payaccept operator create --email ADDRESS")


@app.command()
def remove(
    email: EmailOption,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
) -> None:
    """Take somebody out of the staff; the account stays."""

    async def work(administration: PeopleAdministration, now: datetime) -> None:
        user = await _user(administration, email)
        await administration.users.set_staff(user, now, staff=False)

    _work_on(data_dir, database_url, work)
    terminal.heading(f"{terminal.printable(email)} does not belong to the staff any more.")


@app.command("password-link")
def password_link(
    email: EmailOption,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make a one-time link to a new password, for whoever has lost the old one."""

    async def work(administration: PeopleAdministration, now: datetime) -> Sent:
        return await administration.people.send_password_link(await _user(administration, email), now)

    _show_link(_work_on(data_dir, database_url, work), "Link made.", json=json)


@app.command("second-factor-off")
def second_factor_off(
    email: EmailOption,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
) -> None:
    """Switch the second factor off for whoever has lost the phone and the recovery codes."""

    async def work(administration: PeopleAdministration, now: datetime) -> None:
        user = await _user(administration, email)
        if not user.has_totp:
            raise Failed(f"the second factor of {terminal.printable(email)} is off already")
        await administration.users.switch_totp_off(user, now, COMMAND_LINE)

    _work_on(data_dir, database_url, work)
    terminal.heading("The second factor is off: the password alone signs in.")


async def _user(administration: PeopleAdministration, email: str) -> User:
    account = await administration.users.find_account(email)
    if account is None:
        raise Failed(f"there is no account with the address {terminal.printable(email)}")
    return account.user
