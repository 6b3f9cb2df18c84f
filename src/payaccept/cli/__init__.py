"""The `payaccept` command.

Every command lives in a module of its own that is imported when the command is run, and not before: the
table below has all that `payaccept --help` needs. To add a command, add a row. What a row names is a
function, or a `typer.Typer` that groups several.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from payaccept import __version__


class _Entry(NamedTuple):
    """Where a command stands (`module:name`), and its line in the help."""

    where: str
    summary: str


_MERCHANT_COMMANDS: Final = {
    "pay": _Entry("payaccept.cli.pay:pay", "Take a payment: qr, retail or link."),
    "inquire": _Entry("payaccept.cli.inquire:inquire", "Ask how a payment stands."),
    "listen": _Entry("payaccept.cli.listen:listen", "Receive webhooks here, verify and show them."),
    "sign": _Entry("payaccept.cli.sign:sign", "Show a request's signing string, headers and curl command."),
    "diagnose": _Entry("payaccept.cli.diagnose:diagnose", "Say which signing rule a captured request broke."),
    "keygen": _Entry("payaccept.cli.keygen:keygen", "Make an RSA-2048 key pair."),
}
# These need the `server` extra; without it they say so.
_SERVICE_COMMANDS: Final = {
    "sandbox": _Entry("payaccept.cli.sandbox:sandbox", "Run the whole service here, to try it out."),
    "merchant": _Entry("payaccept.cli.merchants:app", "Create and configure merchants."),
    "key": _Entry("payaccept.cli.keys:app", "Register and retire merchants' public keys."),
    "event": _Entry("payaccept.cli.events:app", "See what was notified, and have it sent again."),
    "report": _Entry("payaccept.cli.reports:app", "Write files for a merchant's bookkeeping."),
    "provider-key": _Entry(
        "payaccept.cli.provider_keys:app", "List, rotate and withdraw the keys that sign webhooks."
    ),
    "operator": _Entry("payaccept.cli.operators:app", "Manage the provider's own people in the portal."),
    "wallet": _Entry("payaccept.cli.wallet:app", "Play the customer of the simulated wallet."),
    "api": _Entry("payaccept.cli.processes:api", "Run the API process."),
    "portal": _Entry("payaccept.cli.processes:portal", "Run the process of the web pages."),
    "worker": _Entry("payaccept.cli.processes:worker", "Run the worker process."),
    "migrate": _Entry("payaccept.cli.processes:migrate", "Bring the database to this version."),
}
_COMMANDS: Final = {**_MERCHANT_COMMANDS, **_SERVICE_COMMANDS}

SERVICE_MISSING: Final = 'this command needs the service: pip install "payaccept[server]"'


class _LateGroup(TyperGroup):
    """A group that lists its commands from the table, and imports the one that is run."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, entry in _COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=entry.summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Swap the line of the table for the command itself."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _load(name) if name in _COMMANDS else command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the help of a merchant's commands apart from the service's own."""
        width = max(map(len, _COMMANDS))
        for title, commands in (("Merchant", _MERCHANT_COMMANDS), ("Service", _SERVICE_COMMANDS)):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in commands.items()])


def _load(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].where.partition(":")
    command = getattr(import_module(module), attribute)
    # Plain help starts in a third of the time that coloured boxes take.
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        holder.add_typer(command, name=name)
        return cast("TyperGroup", typer.main.get_command(holder)).commands[name]
    holder.command(name)(command)
    return typer.main.get_command(holder)


app = typer.Typer(
    cls=_LateGroup,
    name="payaccept",
    help="Payment acceptance: RSA-signed JSON in, durable payments and signed webhooks out.",
    epilog="Start with `payaccept sandbox`, then `payaccept pay qr` in another terminal.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(f"payaccept {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 refused or failed, 2 wrongly used.

    Whatever a user can bring about ends in one line on stderr; a traceback is a bug of ours.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot draw a QR code's blocks shall show something, not crash.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = typer.main.get_command(app)
    try:
        code = command.main(args=given, prog_name="payaccept", standalone_mode=False)
    except Exception as error:
        code = _explain(error, given)
        if code is None:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception, given: list[str]) -> int | None:
    """Say in one line what went wrong and return the exit code; None for a bug."""
    from payaccept.cli import terminal  # noqa: PLC0415 - only when something went wrong

    if isinstance(error, ImportError):
        first = next((word for word in given if not word.startswith("-")), "")
        if first in _SERVICE_COMMANDS and not (error.name or "").startswith("payaccept"):
            terminal.complain(SERVICE_MISSING)
            return 2
        return None
    return terminal.explain(error)
