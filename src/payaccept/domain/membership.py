"""Which worker serves which merchant: a hint, by which the limits of a lane hold across all workers.

Correctness rests on leases. While two workers disagree for a moment, a lane may have twice its limit in flight.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

REMEMBERED: Final = 100_000


class Membership:
    """The workers that live, as one of them sees it.

    Each merchant is served by the worker whose number, hashed with the merchant, comes out highest: when a
    worker comes or goes, only merchants that it gets or had change hands.
    """

    def __init__(self) -> None:
        self._me = 0
        self._workers: frozenset[int] = frozenset({0})
        self._served: dict[str, bool] = {}

    @property
    def workers(self) -> frozenset[int]:
        """The numbers of the workers that live, this one among them."""
        return self._workers

    def update(self, me: int, workers: Iterable[int]) -> bool:
        """Hear this worker's number, and those of all that live; tells whether that is news."""
        living = frozenset({*workers, me})
        if me == self._me and living == self._workers:
            return False
        self._me, self._workers = me, living
        self._served.clear()
        return True

    def serves(self, client_id: str) -> bool:
        """Tell whether a merchant is this worker's."""
        if len(self._workers) == 1:
            return True
        served = self._served.get(client_id)
        if served is None:
            if len(self._served) >= REMEMBERED:
                self._served.clear()
            served = max(self._workers, key=lambda worker: _weight(worker, client_id)) == self._me
            self._served[client_id] = served
        return served


def _weight(worker: int, client_id: str) -> tuple[bytes, int]:
    return blake2b(f"{worker}:{client_id}".encode(), digest_size=8).digest(), worker
