"""Where a request comes from, behind proxies and without them."""

from ipaddress import ip_network

import pytest

from payaccept.portal.edge import client_address

PROXY = [ip_network("10.0.0.0/8"), ip_network("fd00::/8")]


def scope(peer: str, *forwarded: str) -> dict[str, object]:
    return {"client": (peer, 1), "headers": [(b"x-forwarded-for", one.encode()) for one in forwarded]}


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # whoever is no proxy of ours may write what it likes
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),  # the first is the client's own writing
        ("10.0.0.1", ["198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
    ],
)
def test_the_address_is_the_last_one_that_no_proxy_of_ours_has(peer, forwarded, address):
    assert client_address(scope(peer, *forwarded), PROXY) == address


def test_without_trusted_proxies_the_peer_counts():
    assert client_address(scope("10.0.0.1", "198.51.100.1"), []) == "10.0.0.1"
