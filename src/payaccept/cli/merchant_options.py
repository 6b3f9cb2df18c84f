"""Who the merchant is, as the command line says it: a credentials file, or its parts one by one."""

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from payaccept.cli.terminal import Mistake
from payaccept.sdk import keys
from payaccept.sdk.credentials import Credentials, load_credentials

MerchantOption = Annotated[
    Path | None,
    typer.Option(
        "--merchant",
        envvar="PAYACCEPT_MERCHANT",
        metavar="FILE",
        help="Credentials file; by default the local sandbox's demo merchant.",
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="Instead of the file's baseUrl.")
]
ClientIdOption = Annotated[
    str | None, typer.Option("--client-id", metavar="ID", help="Instead of the file's clientId.")
]
KeyVersionOption = Annotated[
    int | None, typer.Option("--key-version", min=1, metavar="N", help="Instead of the file's keyVersion.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Private key in PEM, instead of the file's privateKeyFile."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

FILE_NAME: Final = "demo-merchant.json"
HOW_TO: Final = (
    "start `payaccept sandbox`, or give --merchant FILE, or --base-url, --client-id, --key-version and --key"
)


def default_file() -> Path:
    """Where the local sandbox writes its demo merchant."""
    return _data_dir() / FILE_NAME


def _data_dir() -> Path:
    named = os.environ.get("PAYACCEPT_DATA_DIR")
    if named:
        return Path(named)
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/payaccept/sandbox")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "payaccept" / "sandbox"
    data_home = os.environ.get("XDG_DATA_HOME")
    root = Path(data_home) if data_home else Path.home() / ".local" / "share"
    return root / "payaccept" / "sandbox"


def credentials_of(
    merchant: Path | None,
    base_url: str | None = None,
    client_id: str | None = None,
    key_version: int | None = None,
    key: Path | None = None,
) -> Credentials:
    """Return the credentials: the file's, with whatever was given by itself put in its place.

    Raises: Mistake, CredentialsUnusable.
    """
    if base_url and client_id and key_version and key:
        return Credentials(base_url, client_id, key_version, keys.load_private(key))
    path = merchant or default_file()
    if merchant is None and not path.exists():
        raise Mistake(f"no merchant credentials at {path}: {HOW_TO}")
    read = load_credentials(path)
    return Credentials(
        base_url=base_url or read.base_url,
        client_id=client_id or read.client_id,
        key_version=key_version or read.key_version,
        private_key=keys.load_private(key) if key else read.private_key,
        webhook_keys_url=read.webhook_keys_url if base_url is None else None,
    )
