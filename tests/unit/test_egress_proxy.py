"""The setting of an egress proxy: read, written again, and silent about its password."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.config import SettingInvalid, Settings, from_environ, read_setting
from payaccept.domain.egress_proxy import EgressProxy


def with_login(user: str, password: str) -> EgressProxy:
    return EgressProxy(host="proxy", port=1, user=user, password=password)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.example:3128", EgressProxy(host="proxy.example", port=3128)),
        ("http://proxy:3128/", EgressProxy(host="proxy", port=3128)),
        ("http://10.0.0.9:8080", EgressProxy(host="10.0.0.9", port=8080)),
        ("http://[::1]:8080", EgressProxy(host="::1", port=8080)),
        ("http://me:p@proxy:1", with_login("me", "p")),
        ("http://me:@proxy:1", with_login("me", "")),
        ("http://a%40b:c%3Ad@proxy:1", with_login("a@b", "c:d")),
    ],
)
def test_a_url_is_read_and_written(url, proxy):
    assert EgressProxy.from_url(url) == proxy
    assert EgressProxy.from_url(proxy.to_url()) == proxy


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_any_login_survives_the_environment(user, password):
    user = user.encode("utf-8", "ignore").decode() or "x"
    password = password.encode("utf-8", "ignore").decode()
    settings = Settings(egress_proxy=EgressProxy(host="proxy", port=3128, user=user, password=password))
    assert from_environ(settings.to_environ()) == settings


@pytest.mark.parametrize(
    "text",
    [
        "proxy:3128",
        "https://proxy:3128",
        "socks5://proxy:3128",
        "http://proxy",
        "http://proxy:0",
        "http://proxy:65536",
        "http://proxy:x",
        "http://:3128",
        "http://s3cret@proxy:3128",
        "http://me:s3cret@proxy",
        "http://me:s3cret@pro xy:3128",
        "http://me:s3cret@proxy:3128/path",
        "http://me:s3cret@127.1:3128",
    ],
)
def test_what_cannot_be_used_is_refused_without_repeating_it(text):
    with pytest.raises(SettingInvalid, match="PAYACCEPT_EGRESS_PROXY: ") as refused:
        read_setting("PAYACCEPT_EGRESS_PROXY", text)
    assert "s3cret" not in str(refused.value)


def test_the_password_is_in_no_representation():
    settings = Settings(egress_proxy=EgressProxy.from_url("http://me:s3cret@proxy:3128"))
    for text in (repr(settings), str(settings), f"{settings.egress_proxy}", repr([settings.egress_proxy])):
        assert "s3cret" not in text
    assert "proxy" in repr(settings)


def test_the_authorization_is_for_those_who_have_a_login():
    assert EgressProxy.from_url("http://proxy:3128").authorization is None
    assert EgressProxy.from_url("http://me:s3cret@proxy:3128").authorization == "Basic bWU6czNjcmV0"
