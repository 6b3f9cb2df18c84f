"""The guard's table: URLs that a public deployment takes, and those it refuses, each with its reason."""

import itertools
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain.urls import Destination, UrlPolicy, UrlRefused

PUBLIC = UrlPolicy(allow_http=False, allow_private=False, own_host="pay.example")
LOCAL = UrlPolicy(allow_http=True, allow_private=True)

ASCII = "must be written in ASCII (a host name in its xn-- form)"
VISIBLE = "must not have spaces, control characters or backslashes"
ABSOLUTE = "must be an absolute https URL"
HTTPS = "must be an https URL"
LOGIN = "must not have a user name or a password"
NO_HOST = "must have a host"
PORT = "has a malformed port"
BRACKETS = "has brackets around what is no IPv6 address"
NUMBER = "must name its host by a name or a plain IP address"
NAME = "has a malformed host name"
DOT = "must not end its host with a dot"
PRIVATE = "must not lead to a private address"
OURSELVES = "must not lead to this service itself"

# What is dialled, as host and port, and what the Host header says.
TAKEN = {
    "https://shop.example": ("shop.example", 443, "shop.example", "/"),
    "https://shop.example/": ("shop.example", 443, "shop.example", "/"),
    "https://shop.example/hook": ("shop.example", 443, "shop.example", "/hook"),
    "https://shop.example?a=b": ("shop.example", 443, "shop.example", "/?a=b"),
    "https://shop.example#top": ("shop.example", 443, "shop.example", "/"),
    "https://shop.example/a/../b//c?d#e": ("shop.example", 443, "shop.example", "/a/../b//c?d"),
    "https://shop.example/%7e%2F%": ("shop.example", 443, "shop.example", "/%7e%2F%"),
    "https://shop.example/@user:pass@x": ("shop.example", 443, "shop.example", "/@user:pass@x"),
    "https://shop.example/http://127.0.0.1/": ("shop.example", 443, "shop.example", "/http://127.0.0.1/"),
    "https://shop.example/?u=http://127.0.0.1/": ("shop.example", 443, "shop.example", "/?u=http://127.0.0.1/"),
    'https://shop.example/"<>^`{|}': ("shop.example", 443, "shop.example", '/"<>^`{|}'),
    "HTTPS://SHOP.Example/Hook": ("shop.example", 443, "shop.example", "/Hook"),
    "https://shop.example:443/": ("shop.example", 443, "shop.example", "/"),
    "https://shop.example:80/": ("shop.example", 80, "shop.example:80", "/"),
    "https://shop.example:8443/": ("shop.example", 8443, "shop.example:8443", "/"),
    "https://shop.example:1/": ("shop.example", 1, "shop.example:1", "/"),
    "https://shop.example:65535/": ("shop.example", 65535, "shop.example:65535", "/"),
    "https://a.b.c.d.e.shop.example/": ("a.b.c.d.e.shop.example", 443, "a.b.c.d.e.shop.example", "/"),
    "https://xn--bcher-kva.example/": ("xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/"),
    "https://a-b_c.shop.example/": ("a-b_c.shop.example", 443, "a-b_c.shop.example", "/"),
    "https://1.shop.example/": ("1.shop.example", 443, "1.shop.example", "/"),
    "https://127.0.0.1.shop.example/": ("127.0.0.1.shop.example", 443, "127.0.0.1.shop.example", "/"),
    "https://0x7f000001.example/": ("0x7f000001.example", 443, "0x7f000001.example", "/"),
    "https://3com.com/": ("3com.com", 443, "3com.com", "/"),
    "https://localhost.example/": ("localhost.example", 443, "localhost.example", "/"),
    "https://internal.example/": ("internal.example", 443, "internal.example", "/"),
    "https://mypay.example/": ("mypay.example", 443, "mypay.example", "/"),
    "https://shop.pay.example/": ("shop.pay.example", 443, "shop.pay.example", "/"),
    f"https://{'a' * 63}.example/": (f"{'a' * 63}.example", 443, f"{'a' * 63}.example", "/"),
    f"https://{'a.' * 123}example/": (f"{'a.' * 123}example", 443, f"{'a.' * 123}example", "/"),
    "https://8.8.8.8/": ("8.8.8.8", 443, "8.8.8.8", "/"),
    "https://8.8.8.8:8443/": ("8.8.8.8", 8443, "8.8.8.8:8443", "/"),
    "https://1.1.1.1/": ("1.1.1.1", 443, "1.1.1.1", "/"),
    "https://100.63.255.255/": ("100.63.255.255", 443, "100.63.255.255", "/"),
    "https://100.128.0.1/": ("100.128.0.1", 443, "100.128.0.1", "/"),
    "https://172.15.255.255/": ("172.15.255.255", 443, "172.15.255.255", "/"),
    "https://172.32.0.1/": ("172.32.0.1", 443, "172.32.0.1", "/"),
    "https://192.0.1.1/": ("192.0.1.1", 443, "192.0.1.1", "/"),
    "https://198.17.255.255/": ("198.17.255.255", 443, "198.17.255.255", "/"),
    "https://198.20.0.1/": ("198.20.0.1", 443, "198.20.0.1", "/"),
    "https://223.255.255.254/": ("223.255.255.254", 443, "223.255.255.254", "/"),
    "https://[2606:4700:4700::1111]/": ("2606:4700:4700::1111", 443, "[2606:4700:4700::1111]", "/"),
    "https://[2606:4700:4700:0:0:0:0:1111]:8443/": (
        "2606:4700:4700::1111", 8443, "[2606:4700:4700::1111]:8443", "/",
    ),
    "https://[2A00:1450::64]/": ("2a00:1450::64", 443, "[2a00:1450::64]", "/"),
    "https://[64:ff9b::808:808]/": ("64:ff9b::808:808", 443, "[64:ff9b::808:808]", "/"),
    "https://[2002:808:808::1]/": ("2002:808:808::1", 443, "[2002:808:808::1]", "/"),
}  # fmt: skip

REFUSED = {
    # Not an absolute https URL.
    "": ABSOLUTE,
    "shop.example": ABSOLUTE,
    "/hook": ABSOLUTE,
    "//shop.example/": ABSOLUTE,
    "https:/shop.example/": ABSOLUTE,
    "https:shop.example": ABSOLUTE,
    "https//shop.example": ABSOLUTE,
    "ftp://shop.example/": ABSOLUTE,
    "ws://shop.example/": ABSOLUTE,
    "gopher://shop.example/": ABSOLUTE,
    "file:///etc/passwd": ABSOLUTE,
    "data:text/plain,hello": ABSOLUTE,
    "javascript:alert(1)": ABSOLUTE,
    "unix:///run/postgres": ABSOLUTE,
    "httpss://shop.example/": ABSOLUTE,
    "xhttps://shop.example/": ABSOLUTE,
    "http://shop.example/": HTTPS,
    "HTTP://shop.example/": HTTPS,
    # What one parser reads in one way and the next one in another.
    " https://shop.example/": VISIBLE,
    "https://shop.example/ ": VISIBLE,
    "https://shop.example/a b": VISIBLE,
    "https://shop example/": VISIBLE,
    "https://shop.example\t/": VISIBLE,
    "https://shop.example/\n": VISIBLE,
    "https://shop.example/\r\nHost: x": VISIBLE,
    "https://shop.example/\x00": VISIBLE,
    "https://shop.example/\x7f": VISIBLE,
    "https://shop.example\x0b/": VISIBLE,
    "https://shop.example\\@evil.example/": VISIBLE,
    "https://shop.example/a\\b": VISIBLE,
    "https:\\\\shop.example\\": VISIBLE,
    "https://b\u00fccher.example/": ASCII,
    "https://shop.example/caf\u00e9": ASCII,
    "https://shop\u3002example/": ASCII,
    "https://\uff11\uff12\uff17.0.0.1/": ASCII,
    "https://\u2460\u2461\u2466.0.0.1/": ASCII,
    "https://shop.example/\u00a0": ASCII,
    "https://loc\u212alhost/": ASCII,
    "\ufeffhttps://shop.example/": ASCII,
    # Credentials.
    "https://user@shop.example/": LOGIN,
    "https://user:secret@shop.example/": LOGIN,
    "https://:secret@shop.example/": LOGIN,
    "https://@shop.example/": LOGIN,
    "https://shop.example@127.0.0.1/": LOGIN,
    "https://shop.example:443@127.0.0.1/": LOGIN,
    "https://user@[::1]/": LOGIN,
    # Hosts and ports that are none.
    "https://": NO_HOST,
    "https:///": NO_HOST,
    "https:///hook": NO_HOST,
    "https://:443/": NO_HOST,
    "https://?a=b": NO_HOST,
    "https://#a": NO_HOST,
    "https://shop.example:/": PORT,
    "https://shop.example:0/": PORT,
    "https://shop.example:00443/": PORT,
    "https://shop.example:65536/": PORT,
    "https://shop.example:100000/": PORT,
    "https://shop.example:-1/": PORT,
    "https://shop.example:+443/": PORT,
    "https://shop.example:x/": PORT,
    "https://shop.example:443:80/": PORT,
    "https://8.8.8.8:0/": PORT,
    "https://[2606:4700::1111]:0/": PORT,
    "https://[::1/": NAME,
    "https://::1]/": NO_HOST,
    "https://[::1]x/": NAME,
    "https://[[::1]]/": NAME,
    "https://x[::1]/": NAME,
    "https://[]/": BRACKETS,
    "https://[v1.x]/": BRACKETS,
    "https://[127.0.0.1]/": BRACKETS,
    "https://[shop.example]/": BRACKETS,
    "https://[fe80::1%25eth0]/": BRACKETS,
    "https://[2606:4700::1111%25eth0]/": BRACKETS,
    "https://[2606:4700::1111%eth0]/": BRACKETS,
    "https://[1:2:3:4:5:6:7:8:9]/": BRACKETS,
    "https://[::ffff:127.1]/": BRACKETS,
    "https://2606:4700::1111/": NUMBER,
    "https://shop..example/": NAME,
    "https://.shop.example/": NAME,
    "https://-shop.example/": NAME,
    "https://shop-.example/": NAME,
    "https://_shop.example/": NAME,
    "https://shop%2eexample/": NAME,
    "https://%31%32%37.0.0.1.example/": NAME,
    "https://sh*p.example/": NAME,
    "https://shop.example,evil.example/": NAME,
    "https://shop.example;evil/": NAME,
    "https://shop.example&evil/": NAME,
    "https://sh!p.example/": NAME,
    "https://sh'p.example/": NAME,
    "https://$(id).example/": NAME,
    "https://<shop>.example/": NAME,
    f"https://{'a' * 64}.example/": NAME,
    f"https://{'a.' * 124}example/": NAME,
    "https://shop.example./": DOT,
    "https://localhost./": DOT,
    "https://shop.example../": DOT,
    "https://./": DOT,
    # Numbers that somebody's resolver takes for 127.0.0.1 or another address.
    "https://2130706433/": NUMBER,
    "https://127.1/": NUMBER,
    "https://127.0.1/": NUMBER,
    "https://1/": NUMBER,
    "https://0/": NUMBER,
    "https://017700000001/": NUMBER,
    "https://0177.0.0.1/": NUMBER,
    "https://00000177.0.0.1/": NUMBER,
    "https://127.0.0.01/": NUMBER,
    "https://0x7f000001/": NUMBER,
    "https://0X7F000001/": NUMBER,
    "https://0x7f.0.0.1/": NUMBER,
    "https://127.0.0.0x1/": NUMBER,
    "https://0x7f.1/": NUMBER,
    "https://0x/": NUMBER,
    "https://127.0.0.1./": NUMBER,
    "https://8.8.8.8./": NUMBER,
    "https://256.256.256.256/": NUMBER,
    "https://1.2.3.4.5/": NUMBER,
    "https://999999999999/": NUMBER,
    "https://shop.1/": NUMBER,
    "https://shop.0x7f/": NUMBER,
    # Names of this network.
    "https://localhost/": PRIVATE,
    "https://LOCALHOST:9000/": PRIVATE,
    "https://shop.localhost/": PRIVATE,
    "https://localhost.localdomain/": PRIVATE,
    "https://printer.local/": PRIVATE,
    "https://db.internal/": PRIVATE,
    "https://metadata.google.internal/": PRIVATE,
    "https://nas.home.arpa/": PRIVATE,
    "https://hidden.onion/": PRIVATE,
    "https://receiver/": PRIVATE,
    "https://kubernetes/": PRIVATE,
    # IPv4 that is not somebody else's.
    "https://0.0.0.0/": PRIVATE,
    "https://0.1.2.3/": PRIVATE,
    "https://10.0.0.1/": PRIVATE,
    "https://10.255.255.255/": PRIVATE,
    "https://100.64.0.1/": PRIVATE,
    "https://100.100.100.200/": PRIVATE,
    "https://100.127.255.255/": PRIVATE,
    "https://127.0.0.1/": PRIVATE,
    "https://127.0.0.1:9000/hook": PRIVATE,
    "https://127.255.255.255/": PRIVATE,
    "https://168.63.129.16/": PRIVATE,
    "https://169.254.0.1/": PRIVATE,
    "https://169.254.169.254/latest/meta-data/": PRIVATE,
    "https://172.16.0.1/": PRIVATE,
    "https://172.31.255.255/": PRIVATE,
    "https://192.0.0.8/": PRIVATE,
    "https://192.0.0.9/": PRIVATE,
    "https://192.0.0.192/": PRIVATE,
    "https://192.0.2.1/": PRIVATE,
    "https://192.31.196.1/": PRIVATE,
    "https://192.52.193.1/": PRIVATE,
    "https://192.88.99.1/": PRIVATE,
    "https://192.168.1.1/": PRIVATE,
    "https://192.175.48.1/": PRIVATE,
    "https://198.18.0.1/": PRIVATE,
    "https://198.19.255.255/": PRIVATE,
    "https://198.51.100.1/": PRIVATE,
    "https://203.0.113.1/": PRIVATE,
    "https://224.0.0.1/": PRIVATE,
    "https://233.252.0.1/": PRIVATE,
    "https://239.255.255.255/": PRIVATE,
    "https://240.0.0.1/": PRIVATE,
    "https://255.255.255.255/": PRIVATE,
    # IPv6 that is not, and IPv4 in IPv6.
    "https://[::]/": PRIVATE,
    "https://[::1]/": PRIVATE,
    "https://[0:0:0:0:0:0:0:1]:8443/": PRIVATE,
    "https://[::127.0.0.1]/": PRIVATE,
    "https://[::8.8.8.8]/": PRIVATE,
    "https://[::ffff:127.0.0.1]/": PRIVATE,
    "https://[::ffff:7f00:1]/": PRIVATE,
    "https://[::FFFF:10.0.0.1]/": PRIVATE,
    "https://[::ffff:169.254.169.254]/": PRIVATE,
    "https://[::ffff:0:127.0.0.1]/": PRIVATE,
    "https://[64:ff9b::127.0.0.1]/": PRIVATE,
    "https://[64:ff9b::a9fe:a9fe]/": PRIVATE,
    "https://[64:ff9b::c0a8:101]/": PRIVATE,
    "https://[64:ff9b:1::8.8.8.8]/": PRIVATE,
    "https://[64:ff9b:1:a00:1::]/": PRIVATE,
    "https://[64:ff9b:0:1::8.8.8.8]/": PRIVATE,
    "https://[2002:7f00:1::]/": PRIVATE,
    "https://[2002:a9fe:a9fe::]/": PRIVATE,
    "https://[2002:c0a8:101::1]/": PRIVATE,
    "https://[2001::1]/": PRIVATE,
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/": PRIVATE,
    "https://[2001:2::1]/": PRIVATE,
    "https://[2001:10::1]/": PRIVATE,
    "https://[2001:20::1]/": PRIVATE,
    "https://[2001:db8::1]/": PRIVATE,
    "https://[3fff::1]/": PRIVATE,
    "https://[3ffe::1]/": PRIVATE,
    "https://[2620:4f:8000::1]/": PRIVATE,
    "https://[2606:4700::5efe:127.0.0.1]/": PRIVATE,
    "https://[2606:4700::200:5efe:10.0.0.1]/": PRIVATE,
    "https://[100::1]/": PRIVATE,
    "https://[100:0:0:1::1]/": PRIVATE,
    "https://[5f00::1]/": PRIVATE,
    "https://[4000::1]/": PRIVATE,
    "https://[fc00::1]/": PRIVATE,
    "https://[fd00:ec2::254]/": PRIVATE,
    "https://[fe80::1]/": PRIVATE,
    "https://[fec0::1]/": PRIVATE,
    "https://[ff02::1]/": PRIVATE,
    "https://[ff0e::1]/": PRIVATE,
    "https://[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]/": PRIVATE,
    # Ourselves.
    "https://pay.example/": OURSELVES,
    "https://PAY.Example:8443/hook": OURSELVES,
}


def test_the_table_is_as_long_as_it_should_be():
    assert len(TAKEN) + len(REFUSED) >= 150


@pytest.mark.parametrize("url", TAKEN)
def test_taken(url):
    destination = PUBLIC.destination(url)
    host, port, authority, target = TAKEN[url]
    assert (destination.scheme, destination.host, destination.port) == ("https", host, port)
    assert (destination.authority, destination.target) == (authority, target)
    assert PUBLIC.problem(url) is None


@pytest.mark.parametrize("url", REFUSED)
def test_refused(url):
    assert PUBLIC.problem(url) == REFUSED[url]
    with pytest.raises(UrlRefused):
        PUBLIC.destination(url)


@pytest.mark.parametrize("url", REFUSED)
def test_a_local_sandbox_takes_what_is_private_or_plain_and_refuses_the_rest(url):
    reason = LOCAL.problem(url)
    assert reason == (None if REFUSED[url] in {PRIVATE, HTTPS, OURSELVES} else REFUSED[url])


def test_our_own_address_is_refused_however_it_is_written():
    policy = UrlPolicy(allow_http=True, allow_private=False, own_host="2606:4700::1")
    assert policy.problem("https://[2606:4700:0:0::1]:8443/") == OURSELVES


PIECES = [
    "https", "http", "ftp", ":", "//", "/", "\\", "@", "?", "#", "[", "]", "%", ".", "-", "_", " ", "\t", "\n",
    "\x00", "::1", "::ffff:", "127.0.0.1", "2130706433", "0x7f", "017", "shop", "example", "localhost", "pay",
    "443", "0", "99999", "user", "\u3002", "\uff11", "a" * 64,
]  # fmt: skip
urls = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@given(urls | urls.map(lambda rest: f"https://{rest}") | urls.map(lambda rest: f"https://shop.example{rest}"))
def test_whatever_is_taken_the_standard_librarys_parser_reads_in_the_same_way(url):
    """The signed path is what that one says, and so is the lane."""
    for policy in (PUBLIC, LOCAL):
        try:
            destination = policy.destination(url)
        except UrlRefused:
            continue
        parts = urlsplit(url)
        assert parts.scheme == destination.scheme
        assert parts.hostname is not None
        assert _same_host(parts.hostname, destination)
        assert (parts.port or {"http": 80, "https": 443}[parts.scheme]) == destination.port
        query = url.partition("#")[0].partition("?")[1:]
        assert (parts.path or "/") + "".join(query) == destination.target


def _same_host(hostname: str, destination: Destination) -> bool:
    if destination.address is None:
        return hostname == destination.host
    return type(destination.address)(hostname) == destination.address


@pytest.mark.parametrize(("scheme", "port"), list(itertools.product(["http", "https"], [80, 443, 8443])))
def test_the_host_header_names_the_port_unless_it_is_the_schemes_own(scheme, port):
    authority = LOCAL.destination(f"{scheme}://shop.example:{port}/").authority
    own = {"http": 80, "https": 443}[scheme]
    assert authority == ("shop.example" if port == own else f"shop.example:{port}")
