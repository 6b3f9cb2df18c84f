"""What the API process shows to whoever asks: its health, its keys, its description."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from payaccept import __version__
from payaccept.api import openapi
from payaccept.api.gate import Answer, failure
from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.merchant import Environment
from payaccept.domain.payment import result
from payaccept.operations.provider_keys import PublishedKey
from payaccept.wire.codes import ResultCode

_encode = msgspec.json.Encoder().encode
_CACHE: Final = (("cache-control", "public, max-age=30"),)
_SUCCESS: Final = result(ResultCode.SUCCESS)


class Documents:
    """The paths that need no signature.

    `ping` raises OutcomeOpen while the database is away; `list_keys` reads the provider's keys, of which others
    may keep a copy for `keys_max_age_s`.
    """

    def __init__(
        self,
        environment: Environment,
        ping: Callable[[], Awaitable[None]],
        list_keys: Callable[[], Awaitable[list[PublishedKey]]],
        keys_max_age_s: int,
    ) -> None:
        self._environment = environment
        self._ping = ping
        self._list_keys = list_keys
        self._keys_cache = (("cache-control", f"public, max-age={keys_max_age_s}"),)
        self._openapi = openapi.document()

    def by_path(self) -> dict[str, Callable[[], Awaitable[Answer]]]:
        """Return the document of every path."""
        return {
            "/healthz": self.health,
            "/readyz": self.readiness,
            "/openapi.json": self.description,
            "/.well-known/payaccept/webhook-keys": self.webhook_keys,
            "/.well-known/jwks.json": self.jwks,
        }

    async def health(self) -> Answer:
        """Tell that the process answers."""
        return _ok({"result": _SUCCESS, "version": __version__, "environment": self._environment})

    async def readiness(self) -> Answer:
        """Tell whether payments can be taken now: not while the database is away."""
        try:
            await self._ping()
        except OutcomeOpen as away:
            return failure(ResultCode.SYSTEM_BUSY, str(away))
        return _ok({"result": _SUCCESS})

    async def description(self) -> Answer:
        """Serve the OpenAPI description."""
        return Answer(200, self._openapi, _CACHE, ResultCode.SUCCESS)

    async def webhook_keys(self) -> Answer:
        """Serve the keys that notifications verify under, as PEM."""
        try:
            keys = await self._list_keys()
        except OutcomeOpen as away:
            return failure(ResultCode.SYSTEM_BUSY, str(away))
        return _ok(keys, self._keys_cache)

    async def jwks(self) -> Answer:
        """Serve the same keys as a JSON Web Key Set (RFC 7517)."""
        try:
            keys = await self._list_keys()
        except OutcomeOpen as away:
            return failure(ResultCode.SYSTEM_BUSY, str(away))
        return _ok({"keys": [_jwk(key) for key in keys]}, self._keys_cache)


def _ok(value: Any, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(200, _encode(value), headers, ResultCode.SUCCESS)


def _jwk(key: PublishedKey) -> dict[str, str]:
    public_key = load_pem_public_key(key.public_key_pem.encode())
    if not isinstance(public_key, RSAPublicKey):
        raise TypeError("a provider key is no RSA key")
    numbers = public_key.public_numbers()
    return {
        "kty": "RSA",
        "use": "sig",
        "alg": "RS256",
        "kid": str(key.key_version),
        "n": _base64url(numbers.n),
        "e": _base64url(numbers.e),
    }


def _base64url(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
