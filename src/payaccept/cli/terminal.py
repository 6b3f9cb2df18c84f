"""How commands speak: results on stdout, notes and complaints on stderr, JSON where it is asked for."""

import os
import sys
from typing import Any

import msgspec
import typer

FAILED = 1
MISUSED = 2


class Mistake(Exception):
    """The command was given something it cannot use; the message is the one line shown. Exit code 2."""


class Failed(Exception):
    """The command was right and could not be done; the message is the one line shown. Exit code 1."""


def say(text: str = "") -> None:
    """Print a line of the result."""
    typer.echo(text)


def note(text: str) -> None:
    """Print a line beside the result."""
    typer.echo(styled(text, dim=True), err=True)


def complain(text: str) -> None:
    """Print the one line that tells what went wrong."""
    typer.echo(f"payaccept: {printable(' '.join(text.split()))}", err=True)


def styled(text: str, **style: Any) -> str:
    """Colour a text; `typer.echo` takes the colour away again where there is no terminal."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, **style)


def printable(text: str) -> str:
    """Show control characters by their codes: what others sent must not steer the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def rows(pairs: list[tuple[str, object]]) -> None:
    """Print names and values in two columns; absent values are left out."""
    shown = [(name, value) for name, value in pairs if value is not None and value is not msgspec.UNSET]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        say(f"  {styled(name.ljust(width), dim=True)}  {printable(str(value))}")


def heading(text: str, *, good: bool = True) -> None:
    """Print the line that says how it went."""
    say(styled(text, bold=True, fg="green" if good else "red"))


def print_json(value: Any, *, one_line: bool = False) -> None:
    """Print a value as JSON, members in the API's spelling."""
    encoded = msgspec.json.encode(value)
    say((encoded if one_line else msgspec.json.format(encoded, indent=2)).decode())
    sys.stdout.flush()


def print_error_json(error: Exception) -> None:
    """Print what went wrong as JSON, for `--json`: `{"error": {"kind": …, "message": …}}`."""
    told = {"kind": type(error).__name__, "message": str(error)}
    for attribute, member in _TOLD.items():
        value = getattr(error, attribute, None)
        if value is not None:
            told[member] = value
    print_json({"error": told})


_TOLD = {
    "result_code": "resultCode",
    "result_message": "resultMessage",
    "http_status": "httpStatus",
    "request_id": "requestId",
    "payment_request_id": "paymentRequestId",
    "retry_after_s": "retryAfterS",
    "payment": "payment",
}


def explain(error: Exception) -> int | None:
    """Say in one line what went wrong and return the exit code; None for what only a bug can raise."""
    if isinstance(error, Mistake):
        complain(str(error))
        return MISUSED
    if isinstance(error, Failed):
        complain(str(error))
        return FAILED
    if isinstance(error, typer.TyperException):
        return _explain_usage(error)
    if isinstance(error, typer.Abort):
        return 130
    return _explain_refusal(error)


def _explain_usage(error: typer.TyperException) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        return error.exit_code
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "payaccept"
    complain(f"{error.format_message().rstrip('.')} (see {command} --help)")
    return error.exit_code


def _explain_refusal(error: Exception) -> int | None:
    """Refused by the service, or by its operations when they run in this process."""
    from payaccept.domain.errors import Refusal  # noqa: PLC0415 - only when something went wrong
    from payaccept.sdk.errors import CredentialsUnusable, PayacceptError  # noqa: PLC0415

    if not isinstance(error, Refusal | PayacceptError):
        return None
    complain(str(error))
    return MISUSED if isinstance(error, CredentialsUnusable) else FAILED
