"""Who the merchant is, and where the service is."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from payaccept.sdk import keys
from payaccept.sdk.errors import CredentialsUnusable

_MAX_FILE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a signed request needs. The private key is in no repr and no message."""

    base_url: str
    client_id: str
    key_version: int
    private_key: RSAPrivateKey = field(repr=False)
    webhook_keys_url: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could never work before anything is sent."""
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"https", "http"} or not parts.hostname or parts.query or parts.fragment:
            raise CredentialsUnusable(f"base_url {self.base_url!r} is not an absolute http(s) URL")
        if not self.client_id.isascii() or not self.client_id.isprintable() or not self.client_id:
            raise CredentialsUnusable("client_id must be the Client-Id the service assigned")
        if self.key_version < 1:
            raise CredentialsUnusable("key_version must be the number the service assigned to the key")

    @property
    def path_prefix(self) -> str:
        """What of the base URL stands before `/v1/payments/` in the path that is signed."""
        return urlsplit(self.base_url).path.rstrip("/")

    @property
    def origin(self) -> str:
        """Scheme, host and port of the base URL."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"


class _CredentialsFile(msgspec.Struct, rename="camel"):
    base_url: str
    client_id: str
    key_version: int
    private_key_file: str
    webhook_keys_url: str | None = None


def load_credentials(path: Path | str) -> Credentials:
    """Read a credentials file, such as the sandbox's demo-merchant.json.

    Its members: `baseUrl`, `clientId`, `keyVersion`, `privateKeyFile` (a path, relative to the file
    itself unless absolute) and optionally `webhookKeysUrl`.
    Raises: CredentialsUnusable.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise CredentialsUnusable(f"{path} cannot be read: {error.strerror}") from None
    try:
        read = msgspec.json.decode(content, type=_CredentialsFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CredentialsUnusable(f"{path} is not a merchant's credentials file: {error}") from None
    return Credentials(
        base_url=read.base_url,
        client_id=read.client_id,
        key_version=read.key_version,
        private_key=keys.load_private(path.parent / read.private_key_file),
        webhook_keys_url=read.webhook_keys_url,
    )
