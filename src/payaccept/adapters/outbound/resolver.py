"""Host names to addresses, many at a time: a name that is slow to fail takes nobody else's turn."""

import socket
from collections.abc import Sequence
from typing import Final, Protocol

import aiodns
import pycares

from payaccept.adapters.outbound.unanswered import Unanswered

# Names go out as they are, without the search domains of this machine or aliases of its environment.
_FLAGS: Final = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS
_UNKNOWN: Final = frozenset({aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA})


class Resolver(Protocol):
    """Knows the addresses of a host."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return all of them, the preferred one first. Raises: Unanswered."""

    async def close(self) -> None:
        """Forget what is under way."""


class DnsResolver:
    """Reads /etc/hosts and asks the name servers of /etc/resolv.conf, as they are at the time.

    Not the system's `getaddrinfo`: that holds a thread for each name, as long as its servers let it wait.
    nameservers: `address` or `address:port`, instead of the machine's. To be made in the running loop.
    """

    def __init__(self, nameservers: Sequence[str] | None = None) -> None:
        self._resolver = aiodns.DNSResolver(nameservers, flags=_FLAGS)

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of a host. Raises: Unanswered."""
        try:
            found = await self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            if error.args[0] in _UNKNOWN:
                raise Unanswered("the host name is unknown") from None
            raise Unanswered("the host name could not be looked up") from None
        return [node.addr[0].decode() for node in found.nodes]

    async def close(self) -> None:
        """Forget what is under way."""
        await self._resolver.close()
