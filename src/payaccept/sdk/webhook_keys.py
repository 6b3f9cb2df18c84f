"""The provider's public keys, by keyVersion: given, or fetched from where the service publishes them."""

import re
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from payaccept.sdk import keys
from payaccept.sdk.errors import CredentialsUnusable, KeysUnavailable

REFETCH_S: Final = 60.0
"""An unknown keyVersion makes us look for new keys at most this often: anybody can send one."""
MAX_AGE_S: Final = 3600.0
"""Fetched keys are looked at again after this time at the latest, so that a withdrawn key goes out of use."""
MIN_AGE_S: Final = 5.0
"""They are not looked at more often than this because of their age, whatever the service says."""
_TIMEOUT_S: Final = 5.0
_MAX_DOCUMENT_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 1000
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age=\"?(\d{1,9})(?=$|[\s,\"])", re.IGNORECASE)
_NOT_KEPT: Final = re.compile(r"(?:^|[\s,])no-(?:cache|store)(?=$|[\s,])", re.IGNORECASE)

_Keys = dict[int, RSAPublicKey]


class _Copy(NamedTuple):
    """What was fetched, and for how long it is good."""

    keys: _Keys
    fresh_s: float


_Fetch = Callable[[bool], _Copy]
"""Fetches the keys; told whether a cache on the way would do, or whether they are to be asked for anew."""


class _PublishedKey(msgspec.Struct, rename="camel"):
    key_version: int
    public_key_pem: str


class WebhookKeys:
    """Public keys of the provider. Make one, share it among threads, keep it for the process's life."""

    def __init__(self, known: Mapping[int, RSAPublicKey], fetch: _Fetch | None = None) -> None:
        self._keys: Mapping[int, RSAPublicKey] = dict(known)
        self._fetch = fetch
        self._lock = threading.Lock()
        self._fresh_until_s: float | None = None
        self._tried_at_s: float | None = None
        self._again_s = MIN_AGE_S

    @classmethod
    def from_url(cls, url: str, *, http: httpx.Client | None = None, allow_http: bool = False) -> Self:
        """Fetch the keys from `<service>/.well-known/payaccept/webhook-keys` when they are first needed.

        They are kept for as long as the service allows (`Cache-Control: max-age`), an hour at most; then a
        key that is not published any more is not believed any more. An unknown keyVersion has them fetched
        anew, at most once a minute. While they cannot be fetched, those that are known go on serving. A
        fetch blocks for at most about 5 s: in asyncio, call `verify` through `asyncio.to_thread`.
        Whoever can alter this document can forge webhooks, so plain http is for this machine only, unless
        `allow_http` says otherwise.
        Raises: ValueError for a URL that is not absolute, or not https.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"https", "http"} or not parts.hostname:
            raise ValueError(f"{url!r} is not an absolute URL")
        if parts.scheme == "http" and parts.hostname not in _LOCAL_HOSTS and not allow_http:
            raise ValueError(f"{url!r} is plain http: whoever can alter the keys can forge webhooks")
        return cls({}, lambda anew: _download(url, http, anew=anew))

    @classmethod
    def from_json(cls, document: bytes) -> Self:
        """Take the keys from the published document: a JSON list of `keyVersion` and `publicKeyPem`.

        Raises: KeysUnavailable when it is not such a document.
        """
        return cls(_read(document))

    @classmethod
    def from_pem(cls, pem_by_version: Mapping[int, bytes | str]) -> Self:
        """Take the keys as PEM, by keyVersion.

        Raises: CredentialsUnusable for what is no RSA-2048 public key.
        """
        return cls(
            {
                version: keys.load_public(pem.encode() if isinstance(pem, str) else pem)
                for version, pem in pem_by_version.items()
            }
        )

    def find(self, key_version: int) -> RSAPublicKey | None:
        """Return the key of that version, None when the provider has none.

        Raises: KeysUnavailable when the keys could not be fetched.
        """
        if self._fetch is not None:
            with self._lock:
                self._refresh(self._fetch, key_version, monotonic())
        return self._keys.get(key_version)

    def __repr__(self) -> str:
        return f"WebhookKeys(versions={sorted(self._keys)})"

    def _refresh(self, fetch: _Fetch, key_version: int, now_s: float) -> None:
        """Fetch when there is a reason to, and when the last attempt lies long enough back."""
        never = self._fresh_until_s is None
        aged = self._fresh_until_s is not None and now_s >= self._fresh_until_s
        unknown = key_version not in self._keys
        if not (never or aged or unknown):
            return
        pause_s = self._again_s if never or aged else REFETCH_S
        if self._tried_at_s is not None and now_s - self._tried_at_s < pause_s:
            if never:
                raise KeysUnavailable("the provider's keys could not be fetched a moment ago")
            return
        self._tried_at_s = now_s
        try:
            copy = fetch(unknown and not never)
        except KeysUnavailable:
            # An old copy goes on serving; what it lacks cannot be judged now.
            self._again_s = MIN_AGE_S if never else REFETCH_S
            if unknown:
                raise
        else:
            self._keys = copy.keys
            self._again_s = MIN_AGE_S
            self._fresh_until_s = now_s + min(max(copy.fresh_s, MIN_AGE_S), MAX_AGE_S)


def _download(url: str, http: httpx.Client | None, *, anew: bool) -> _Copy:
    client = httpx.Client() if http is None else http
    give_up_at_s = monotonic() + _TIMEOUT_S
    document = b""
    # A cache on the way may hold a copy of before the key that we look for.
    headers = {"Cache-Control": "no-cache"} if anew else {}
    try:
        with client.stream(
            "GET", url, headers=headers, timeout=_TIMEOUT_S, follow_redirects=False
        ) as response:
            for piece in response.iter_bytes():
                document += piece
                if len(document) > _MAX_DOCUMENT_BYTES or monotonic() > give_up_at_s:
                    raise KeysUnavailable(f"{url} answers too much, or too slowly")
    except httpx.HTTPError as error:
        raise KeysUnavailable(f"{url} does not answer: {error or type(error).__name__}") from None
    finally:
        if http is None:
            client.close()
    if response.status_code != httpx.codes.OK:
        raise KeysUnavailable(f"{url} answers HTTP {response.status_code}")
    return _Copy(_read(document), _fresh_s(response.headers))


def _fresh_s(headers: httpx.Headers) -> float:
    """Return for how long a copy may be kept: its max-age, less the age it had in a cache on the way (RFC 9111)."""
    control = headers.get("Cache-Control", "")
    if _NOT_KEPT.search(control):
        return 0.0
    found = _MAX_AGE.search(control)
    if found is None:
        return MAX_AGE_S
    age = headers.get("Age", "")
    return float(found[1]) - (float(age) if age.isdecimal() and len(age) < 10 else 0.0)  # noqa: PLR2004


def _read(document: bytes) -> _Keys:
    try:
        published = msgspec.json.decode(document, type=list[_PublishedKey])
        read = {key.key_version: keys.load_public(key.public_key_pem.encode()) for key in published}
    except (msgspec.DecodeError, UnicodeError, CredentialsUnusable) as error:
        raise KeysUnavailable(f"not a document of webhook keys: {error}") from None
    if len(read) != len(published) or len(read) > _MAX_KEYS:
        raise KeysUnavailable("not a document of webhook keys: a version twice, or too many")
    return read
