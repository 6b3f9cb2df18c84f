"""Settings of a deployment: from the environment, checked once, given by hand from then on."""

import os
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from payaccept.domain.delivery import RETRY_SCHEDULE_S
from payaccept.domain.egress_proxy import EgressProxy
from payaccept.domain.merchant import Environment
from payaccept.domain.provider_key import default_keep_s
from payaccept.domain.urls import UrlPolicy, UrlRefused, host_of

T = TypeVar("T")

KEYS_MAX_AGE_S: Final = 300
"""How long a copy of the published keys may be kept at most: so long, too, may a withdrawn key be believed."""


class SettingInvalid(ValueError):
    """A setting cannot be used; the message names it."""


class Settings(Struct, frozen=True, kw_only=True):
    """Everything a process needs to know. `docs/configuration.md` tells the same for people."""

    environment: Environment = Environment.SANDBOX
    database_url: str = ""
    web_base_url: str = "http://127.0.0.1:8081"
    api_base_url: str = "http://127.0.0.1:8080"
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    smtp_url: str = ""
    mail_from: str = ""
    settle_delay_s: float = 2.0
    order_expiry_s: float = 900.0
    retry_schedule_s: tuple[float, ...] = RETRY_SCHEDULE_S
    webhook_timeout_s: float = 10.0
    webhook_concurrency: int = 256
    webhook_per_lane: int = 4
    webhook_per_merchant: int = 32
    webhook_lease_s: float = 30.0
    payload_days: int = 90
    attempt_days: int = 30
    allow_http: bool = False
    allow_private: bool = False
    egress_proxy: EgressProxy | None = None
    request_deadline_s: float = 12.0
    failure_limit: int | None = 600
    provider_key_lead_s: float = 3600.0
    provider_key_keep_s: float | None = None
    master_key_file: Path | None = None
    bucket_lanes: bool = False

    @property
    def urls(self) -> UrlPolicy:
        """Which URLs merchants may give."""
        own_host = None if self.allow_private else host_of(self.web_base_url)
        return UrlPolicy(allow_http=self.allow_http, allow_private=self.allow_private, own_host=own_host)

    @property
    def provider_keys_keep_s(self) -> float:
        """How long a provider key that has stopped signing stays published; by default the longest retry."""
        given = self.provider_key_keep_s
        return default_keep_s(self.retry_schedule_s) if given is None else given

    @property
    def provider_keys_max_age_s(self) -> int:
        """How long others may keep a copy of the published keys: well below the time a new one waits."""
        return int(min(KEYS_MAX_AGE_S, self.provider_key_lead_s / 4))

    def to_environ(self) -> dict[str, str]:
        """Write the settings as the environment of a child process."""
        environ = {}
        for name, field in _FIELDS.items():
            value = getattr(self, field.attribute)
            if value is not None:
                environ[name] = field.write(value)
            elif field.attribute == "failure_limit":
                environ[name] = "none"
        return environ


class _Field(Struct, frozen=True):
    attribute: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 10_000_000:  # noqa: PLR2004 - also refuses NaN
        raise ValueError("must be a number of seconds, 0 or more")
    return value


def _schedule(text: str) -> tuple[float, ...]:
    steps = tuple(_seconds(step) for step in text.split(",") if step.strip())
    if not steps:
        raise ValueError("must be seconds separated by commas, for example 5,30,120")
    return steps


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError("must be a whole number of 1 or more")
    return value


def _limit(text: str) -> int | None:
    return None if text == "none" else _count(text)


def _yes(text: str) -> bool:
    if text not in {"0", "1"}:
        raise ValueError("must be 0 or 1")
    return text == "1"


def _base_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("must start with https:// (or http://)")
    try:
        host_of(text)
    except UrlRefused as refused:
        raise ValueError(str(refused)) from None
    return text.rstrip("/")


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(network.strip()) for network in text.split(",") if network.strip())


def _write_networks(networks: tuple[IPv4Network | IPv6Network, ...]) -> str:
    return ",".join(map(str, networks))


def _smtp_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise ValueError("must look like smtps://user:password@mail.example.com:465, or smtp:// for STARTTLS")
    return text


def _write_schedule(steps: tuple[float, ...]) -> str:
    return ",".join(map(str, steps))


def _write_yes(value: object) -> str:
    return "1" if value else "0"


_FIELDS: Final[dict[str, _Field]] = {
    "PAYACCEPT_ENVIRONMENT": _Field("environment", Environment),
    "PAYACCEPT_DATABASE_URL": _Field("database_url", str),
    "PAYACCEPT_WEB_BASE_URL": _Field("web_base_url", _base_url),
    "PAYACCEPT_API_BASE_URL": _Field("api_base_url", _base_url),
    "PAYACCEPT_TRUSTED_PROXIES": _Field("trusted_proxies", _networks, _write_networks),
    "PAYACCEPT_SMTP_URL": _Field("smtp_url", _smtp_url),
    "PAYACCEPT_MAIL_FROM": _Field("mail_from", str),
    "PAYACCEPT_SETTLE_DELAY_S": _Field("settle_delay_s", _seconds),
    "PAYACCEPT_ORDER_EXPIRY_S": _Field("order_expiry_s", _seconds),
    "PAYACCEPT_RETRY_SCHEDULE_S": _Field("retry_schedule_s", _schedule, _write_schedule),
    "PAYACCEPT_WEBHOOK_TIMEOUT_S": _Field("webhook_timeout_s", _seconds),
    "PAYACCEPT_WEBHOOK_CONCURRENCY": _Field("webhook_concurrency", _count),
    "PAYACCEPT_WEBHOOK_PER_LANE": _Field("webhook_per_lane", _count),
    "PAYACCEPT_WEBHOOK_PER_MERCHANT": _Field("webhook_per_merchant", _count),
    "PAYACCEPT_WEBHOOK_LEASE_S": _Field("webhook_lease_s", _seconds),
    "PAYACCEPT_PAYLOAD_DAYS": _Field("payload_days", _count),
    "PAYACCEPT_ATTEMPT_DAYS": _Field("attempt_days", _count),
    "PAYACCEPT_ALLOW_HTTP": _Field("allow_http", _yes, _write_yes),
    "PAYACCEPT_ALLOW_PRIVATE": _Field("allow_private", _yes, _write_yes),
    "PAYACCEPT_EGRESS_PROXY": _Field("egress_proxy", EgressProxy.from_url, EgressProxy.to_url),
    "PAYACCEPT_REQUEST_DEADLINE_S": _Field("request_deadline_s", _seconds),
    "PAYACCEPT_FAILURE_LIMIT": _Field("failure_limit", _limit),
    "PAYACCEPT_PROVIDER_KEY_LEAD_S": _Field("provider_key_lead_s", _seconds),
    "PAYACCEPT_PROVIDER_KEY_KEEP_S": _Field("provider_key_keep_s", _seconds),
    "PAYACCEPT_MASTER_KEY_FILE": _Field("master_key_file", Path),
    "PAYACCEPT_BUCKET_LANES": _Field("bucket_lanes", _yes, _write_yes),
}
VARIABLES: Final = tuple(_FIELDS)


def from_environ(environ: Mapping[str, str] = os.environ, defaults: Settings | None = None) -> Settings:
    """Read the settings; a variable that is absent or empty leaves the default.

    Raises: SettingInvalid.
    """
    given = {}
    for name, field in _FIELDS.items():
        text = environ.get(name, "").strip()
        if text:
            given[field.attribute] = read_setting(name, text)
    return replace(defaults or Settings(), **given)


def read_setting(name: str, text: str) -> Any:
    """Read one setting's value. Raises: SettingInvalid."""
    field = _FIELDS[name]
    try:
        return field.read(text)
    except ValueError as error:
        raise SettingInvalid(f"{name}: {error}") from None
