"""Passwords, hashed with argon2id in threads of their own."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from payaccept.domain.errors import StoreUnavailable
from payaccept.domain.passwords import normalised

# Each takes 64 MiB while it works: so many at once, and so many that may wait for their turn.
THREADS: Final = 2
MAX_WAITING: Final = 64


class Argon2Passwords:
    """The port Passwords: RFC 9106's second profile (3 passes over 64 MiB, 4 lanes)."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="argon2")
        self._under_way = 0
        # What the password of an account that does not exist is compared with, so that it takes as long.
        self._nobody = self._hasher.hash("nobody has this password")

    async def hash(self, password: str) -> str:
        """Hash a password, with its parameters and a fresh salt in the text. Raises: StoreUnavailable."""
        return await self._run(password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Tell whether this is the password; None is nobody's, and takes as long. Raises: StoreUnavailable."""
        matches = await self._run(password, password_hash or self._nobody)
        return bool(matches) and password_hash is not None

    def is_outdated(self, password_hash: str) -> bool:
        """Tell whether a hash was made with other parameters than those of today."""
        return self._hasher.check_needs_rehash(password_hash)

    async def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    async def _run(self, password: str, password_hash: str | None = None) -> str:
        """Hash, or compare in a thread: "" is no match."""
        if self._under_way >= MAX_WAITING:
            raise StoreUnavailable("too many passwords to check at once")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._work, normalised(password), password_hash
            )
        finally:
            self._under_way -= 1

    def _work(self, password: str, password_hash: str | None) -> str:
        if password_hash is None:
            return self._hasher.hash(password)
        try:
            self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return ""
        return password_hash
