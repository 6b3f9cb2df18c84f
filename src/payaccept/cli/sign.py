"""`payaccept sign`: show what is signed, and the headers and the curl command that come of it."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from payaccept.cli import terminal
from payaccept.cli.capture import read_input
from payaccept.cli.merchant_options import (
    BaseUrlOption,
    ClientIdOption,
    JsonOption,
    KeyOption,
    KeyVersionOption,
    MerchantOption,
    credentials_of,
)
from payaccept.sdk import Credentials
from payaccept.wire import signing, timestamps

MAX_BODY_BYTES: Final = 64 * 1024


def sign(
    *,
    path: Annotated[str, typer.Option("--path", help="As it is sent: /v1/payments/createQROrder.")],
    body: Annotated[str, typer.Option("--body", metavar="FILE|-", help="The body, byte for byte as sent.")],
    request_time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="Request-Time; now by default.")
    ] = None,
    merchant: MerchantOption = None,
    base_url: BaseUrlOption = None,
    client_id: ClientIdOption = None,
    key_version: KeyVersionOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Sign a request: print the signing string, the headers, and a curl command ready to paste."""
    if not path.startswith("/") or "?" in path:
        raise terminal.Mistake(
            "--path takes a path such as /v1/payments/inquiryPayment, without host and query"
        )
    content = read_input(body, MAX_BODY_BYTES)
    request_time = request_time or timestamps.write_seconds(datetime.now(UTC))
    try:
        timestamps.parse(request_time)
    except timestamps.TimestampMalformed as error:
        raise terminal.Mistake(f"--time {error}") from None
    of = credentials_of(merchant, base_url, client_id, key_version, key)
    string = signing.request_string("POST", path, of.client_id, request_time, content)
    headers = {
        "Client-Id": of.client_id,
        "Request-Time": request_time,
        "Signature": signing.write_header(of.key_version, signing.sign(of.private_key, string)),
    }
    curl = _curl(of, path, headers, body, content)
    if json:
        text = string.decode("utf-8", errors="replace")
        terminal.print_json({"signingString": text, "headers": headers, "curl": curl})
        return
    terminal.heading(f"Signing string ({len(string)} bytes, {chr(0x23CE)} is a line feed)")
    terminal.say(_visible(string))
    terminal.heading("\nHeaders")
    for name, value in headers.items():
        terminal.say(f"{name}: {value}")
    terminal.heading("\ncurl")
    terminal.say(curl)
    if content.endswith(b"\n"):
        terminal.note(
            "\nThe body ends with a line feed: it is signed, and must be sent (--data-binary keeps it)."
        )


def _visible(string: bytes) -> str:
    """Show the string with its line feeds marked, and no control character that acts on the terminal."""
    lines = string.decode("utf-8", errors="backslashreplace").split("\n")
    return f"{chr(0x23CE)}\n".join(map(terminal.printable, lines))


def _curl(of: Credentials, path: str, headers: dict[str, str], source: str, body: bytes) -> str:
    """Write a command that sends exactly the bytes that were signed."""
    parts = [f"curl -sS {shlex.quote(of.origin + path)}"]
    parts += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    parts.append("-H 'Content-Type: application/json'")
    if source != "-":
        return " \\\n  ".join([*parts, f"--data-binary {shlex.quote(f'@{Path(source)}')}"])
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise terminal.Mistake("the body is not UTF-8; give it as a file") from None
    return f"printf %s {shlex.quote(text)} | " + " \\\n  ".join([*parts, "--data-binary @-"])
