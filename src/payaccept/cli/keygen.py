"""`payaccept keygen`: make the key pair that signs a merchant's requests."""

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from payaccept.cli import terminal
from payaccept.cli.merchant_options import JsonOption
from payaccept.sdk import keys

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def keygen(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write both files.")] = Path(),
    name: Annotated[str, typer.Option("--name", help="What the files are called.")] = "merchant",
    json: JsonOption = False,
) -> None:
    """Make an RSA-2048 key pair: NAME-key.pem to keep secret, NAME-public.pem to register."""
    if _NAME.fullmatch(name) is None:
        raise terminal.Mistake("--name takes letters, digits, dots, dashes and underscores")
    private_file, public_file = out / f"{name}-key.pem", out / f"{name}-public.pem"
    for file in (private_file, public_file):
        if file.exists():
            raise terminal.Failed(f"{file} exists; a key is never overwritten, so choose another --name")
    pair = keys.generate()
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(private_file, pair.private_pem, 0o600)
        _write(public_file, pair.public_pem, 0o644)
    except OSError as error:
        raise terminal.Failed(f"cannot write {error.filename or out}: {error.strerror}") from None
    if json:
        terminal.print_json({"privateKeyFile": str(private_file), "publicKeyFile": str(public_file)})
        return
    terminal.heading("RSA-2048 key pair made")
    terminal.rows(
        [("private key", f"{private_file}  (mode 0600; keep it secret)"), ("public key", public_file)]
    )
    terminal.say(f"\nNext: register the public key: `payaccept key add CLIENT_ID {public_file}`.")


def _write(path: Path, content: bytes, mode: int) -> None:
    # O_EXCL: of two keygens at once one fails, and no link planted here is followed.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
