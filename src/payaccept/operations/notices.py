"""Messages to users about their own accounts: what somebody who has stolen a way in would rather keep quiet."""

import asyncio
from datetime import datetime

from payaccept.domain.user import Actor, User
from payaccept.operations.people_ports import Mail


class Notices:
    """Tells users by mail, where there is mail, and keeps nobody waiting for it."""

    def __init__(self, mail: Mail | None, web_base_url: str) -> None:
        self._mail = mail
        self._web_base_url = web_base_url
        self._sending: set[asyncio.Task[bool]] = set()

    def tell(self, user: User, what: str, now: datetime, by: Actor) -> None:
        """Tell a user what has changed in the account; a message that fails is told to the log only."""
        if self._mail is None:
            return
        text = (
            f"{what}\n\nWhen: {now:%-d %B %Y, %H:%M} UTC\nFrom: {by.address or 'the service itself'}\n\n"
            "If that was you, there is nothing to do. If it was not, choose a new password at once, which ends all\n"
            f"sessions: {self._web_base_url}/account\n"
        )
        task = asyncio.ensure_future(self._mail.send(user.email, what.removesuffix("."), text))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait until what is being sent is on its way."""
        await asyncio.gather(*self._sending, return_exceptions=True)
