"""How long the SDK keeps the provider's keys, and when it asks for them again."""

import httpx
import pytest

from payaccept.sdk import WebhookKeys, errors
from payaccept.sdk.webhook_keys import MAX_AGE_S, MIN_AGE_S, REFETCH_S
from unit.test_sdk_notifications import document


class Cached:
    """Publishes keys with cache headers, to one `WebhookKeys` whose clock is ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **headers: str) -> None:
        self.versions: tuple[int, ...] = (1,)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.status = 200
        self.requests: list[httpx.Request] = []
        self.now_s = 1000.0
        monkeypatch.setattr("payaccept.sdk.webhook_keys.monotonic", lambda: self.now_s)
        http = httpx.Client(transport=httpx.MockTransport(self._answer))
        self.keys = WebhookKeys.from_url("https://service.test/keys", http=http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(self.status, content=document(*self.versions), headers=self.headers)

    def knows(self, version: int, *, after_s: float = 0) -> bool:
        self.now_s += after_s
        return self.keys.find(version) is not None


@pytest.mark.parametrize(
    ("headers", "fresh_s"),
    [
        ({"cache_control": "public, max-age=300"}, 300),
        ({"cache_control": "MAX-AGE=300,public"}, 300),
        ({"cache_control": 'max-age="300"'}, 300),
        ({"cache_control": "max-age=300", "age": "40"}, 260),
        ({"cache_control": "max-age=300", "age": "4000"}, MIN_AGE_S),
        ({"cache_control": "max-age=300", "age": "unknown"}, 300),
        ({"cache_control": "max-age=0"}, MIN_AGE_S),
        ({"cache_control": "max-age=300, no-cache"}, MIN_AGE_S),
        ({"cache_control": "no-store"}, MIN_AGE_S),
        ({"cache_control": "max-age=999999999"}, MAX_AGE_S),
        ({"cache_control": "s-max-age=7, max-age=x"}, MAX_AGE_S),
        ({}, MAX_AGE_S),
    ],
)
def test_keys_are_kept_as_long_as_the_service_says_and_then_a_withdrawn_one_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], fresh_s: float
) -> None:
    cached = Cached(monkeypatch, **headers)
    cached.versions = (1, 2)
    assert cached.knows(1)
    cached.versions = (2,)
    assert cached.knows(1, after_s=fresh_s - 0.001)
    assert len(cached.requests) == 1
    assert not cached.knows(1, after_s=0.002)
    assert cached.knows(2)
    assert len(cached.requests) == 2


def test_a_new_key_is_known_before_it_signs_when_it_is_published_for_longer_than_a_copy_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached = Cached(monkeypatch, cache_control="max-age=300")
    assert cached.knows(1)
    cached.versions = (1, 2)
    assert cached.knows(1, after_s=301)
    cached.status = 503
    assert cached.knows(2), "fetched already, so the service need not even be there"
    assert len(cached.requests) == 2


def test_a_key_met_for_the_first_time_is_asked_for_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Cached(monkeypatch, cache_control="max-age=300")
    assert cached.knows(1)
    cached.versions = (1, 2)
    assert cached.knows(2, after_s=REFETCH_S)
    first, second = cached.requests
    assert "Cache-Control" not in first.headers
    assert second.headers["Cache-Control"] == "no-cache"


def test_forged_versions_cause_no_more_than_a_request_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Cached(monkeypatch, cache_control="max-age=300")
    for second in range(600):
        assert not cached.knows(1000 + second, after_s=1)
    assert len(cached.requests) <= 600 / REFETCH_S + 1


def test_a_copy_without_a_lifetime_is_not_fetched_for_every_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Cached(monkeypatch, cache_control="no-store")
    for _ in range(100):
        assert cached.knows(1, after_s=0.1)
    assert len(cached.requests) <= 10 / MIN_AGE_S + 1


def test_while_the_service_is_away_known_keys_serve_and_it_is_asked_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached = Cached(monkeypatch, cache_control="max-age=30")
    assert cached.knows(1)
    cached.status = 503
    for _ in range(300):
        assert cached.knows(1, after_s=1)
    assert 4 <= len(cached.requests) <= 7
    with pytest.raises(errors.KeysUnavailable):
        cached.knows(2, after_s=REFETCH_S)
    cached.status, cached.versions = 200, (2,)
    assert not cached.knows(1, after_s=REFETCH_S)
