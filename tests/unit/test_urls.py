"""Which URLs a deployment takes: https to public hosts, unless it is a local sandbox."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.urls import UrlPolicy, is_public, literal_address

PUBLIC = UrlPolicy(allow_http=False, allow_private=False)
LOCAL = UrlPolicy(allow_http=True, allow_private=True)

EVERYWHERE = [
    "https://shop.example/",
    "https://shop.example",
    "https://SHOP.Example:8443/hook?a=b#c",
    "https://xn--bcher-kva.example/",
    "https://a-b_c.shop.example/",
    "https://8.8.8.8/",
    "https://[2606:4700:4700::1111]/",
    "https://shop.example:1/",
    "https://shop.example:65535/",
]
LOCAL_ONLY = [
    "http://shop.example/",
    "https://127.0.0.1/",
    "http://127.0.0.1:9000/hook",
    "https://localhost/",
    "https://LOCALHOST:9000/",
    "https://shop.localhost/",
    "https://printer.local/",
    "https://db.internal/",
    "https://receiver/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://255.255.255.255/",
    "https://224.0.0.1/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:a9fe:a9fe::]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
]
NOWHERE = [
    "",
    "shop.example",
    "/hook",
    "//shop.example/",
    "ftp://shop.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https:///",
    "https://",
    "https://:443/",
    "https://user@shop.example/",
    "https://user:secret@shop.example/",
    "https://@shop.example/",
    "https://shop.example:0/",
    "https://shop.example:65536/",
    "https://shop.example:x/",
    "https://[::1/",
    "https://[::1%25lo]/",
    "https://[2606:4700::1111%25eth0]/",
    "https://[v1.x]/",
    "https://bücher.example/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://0x7f.0.0.1/",
    "https://127.0.0.1./",
    "https://1/",
    "https://shop..example/",
    "https://.shop.example/",
    "https://-shop.example/",
    "https://shop.example./",
    "https://receiver./",
    "https://shop example/",
    "https://shop%2eexample/",
    "https://shop.example\\@evil.example/",
    "https://sh*p.example/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 124 + "example/",
]


@pytest.mark.parametrize("url", EVERYWHERE)
def test_a_public_https_url_is_taken_everywhere(url):
    assert PUBLIC.problem(url) is None
    assert LOCAL.problem(url) is None


@pytest.mark.parametrize("url", LOCAL_ONLY)
def test_plain_http_and_private_hosts_are_for_local_sandboxes(url):
    assert PUBLIC.problem(url) is not None
    assert LOCAL.problem(url) is None


@pytest.mark.parametrize("url", NOWHERE)
def test_anything_else_is_refused_everywhere(url):
    assert PUBLIC.problem(url)
    assert LOCAL.problem(url)


@pytest.mark.parametrize(
    ("policy", "http", "private"),
    [
        (UrlPolicy(allow_http=True, allow_private=False), True, False),
        (UrlPolicy(allow_http=False, allow_private=True), False, True),
    ],
)
def test_the_two_allowances_are_independent(policy, http, private):
    assert (policy.problem("http://shop.example/") is None) is http
    assert (policy.problem("https://127.0.0.1/") is None) is private
    assert policy.problem("http://127.0.0.1/") is not None


@given(st.ip_addresses())
def test_an_address_in_another_address_is_as_public_as_the_inner_one(address):
    if isinstance(address, ipaddress.IPv4Address):
        public = is_public(address)
        number = int(address)
        assert is_public(ipaddress.IPv6Address((0xFFFF << 32) | number)) == public
        assert is_public(ipaddress.IPv6Address((0x2002 << 112) | number << 80)) == public
        assert is_public(ipaddress.IPv6Address((0x64FF9B << 96) | number)) == public
        assert not is_public(ipaddress.IPv6Address(number))


@given(st.ip_addresses())
def test_a_local_sandbox_dials_every_address_and_the_public_service_the_public_ones(address):
    assert LOCAL.allows(address)
    assert PUBLIC.allows(address) == is_public(address)
    assert literal_address(str(address)) == address


@given(st.text(max_size=40) | st.text(max_size=30).map(lambda text: "https://" + text))
def test_no_text_breaks_the_judgement(text):
    for policy in (PUBLIC, LOCAL):
        problem = policy.problem(text)
        assert problem is None or problem
