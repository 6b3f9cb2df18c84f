"""What the gate needs from the outside, each as small as its use."""

from datetime import datetime, timedelta
from typing import Protocol

from payaccept.domain.merchant import Credentials


class Directory(Protocol):
    """Where merchants and their keys are found."""

    async def find_credentials(self, client_id: str) -> Credentials | None:
        """Return a merchant with its keys; None when there is none."""

    def forget(self, client_id: str) -> None:
        """Read a merchant anew when it is asked for next."""


class KeyProofs(Protocol):
    """Makes keys active whose possession is proved."""

    async def prove_by_request(
        self, client_id: str, key_version: int, fingerprint: str, now: datetime, address: str
    ) -> None:
        """Make a key active under which a request has just verified; raises AdministrationRefused."""


class KeyUses(Protocol):
    """Keeps when each key was used, and how far the merchant's clock was away."""

    def used(self, client_id: str, key_version: int, at: datetime, skew: timedelta) -> None:
        """Keep that a request verified."""


class Verdict(Protocol):
    """What a rate limit says."""

    @property
    def admitted(self) -> bool:
        """Whether the request may go on."""

    @property
    def remaining(self) -> int:
        """How many more are admitted now."""

    @property
    def wait_s(self) -> float:
        """In how many seconds the next is."""


class RateLimits(Protocol):
    """Admits the requests of limited merchants."""

    async def admit(self, client_id: str, limit: int) -> Verdict:
        """Admit or refuse one request now."""


class FailureLimit(Protocol):
    """Counts the unauthenticated failures of an address."""

    @property
    def limit(self) -> int | None:
        """How many a window admits; None means any number."""

    def is_exceeded(self, address: str) -> bool:
        """Tell whether the address has failed too often of late."""

    def count(self, address: str) -> bool:
        """Count one more failure, and tell whether there were too many."""
