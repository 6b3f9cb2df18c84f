"""Mail through an SMTP server, with the standard library, in a thread."""

import asyncio
import logging
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Final
from urllib.parse import unquote, urlsplit

TIMEOUT_S: Final = 10
_SMTPS_PORT: Final = 465
_SUBMISSION_PORT: Final = 587
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_log = logging.getLogger(__name__)


class SmtpMail:
    """The port Mail. `smtps://` speaks TLS from the start; `smtp://` asks for it, and needs it beyond this machine."""

    def __init__(self, url: str, sender: str) -> None:
        parts = urlsplit(url)
        self._tls = parts.scheme == "smtps"
        self._host = parts.hostname or ""
        self._port = parts.port or (_SMTPS_PORT if self._tls else _SUBMISSION_PORT)
        self._user = unquote(parts.username or "")
        self._password = unquote(parts.password or "")
        self._sender = sender or f"payaccept@{self._host}"

    async def send(self, to: str, subject: str, text: str) -> bool:
        """Send a message; False when that failed, which the log tells of."""
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = to
        message["Subject"] = subject
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=self._host)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        try:
            await asyncio.to_thread(self._deliver, message)
        except (OSError, smtplib.SMTPException) as error:
            _log.warning("mail not sent", extra={"reason": f"{type(error).__name__}: {error}"[:200]})
            return False
        return True

    def _deliver(self, message: EmailMessage) -> None:
        context = ssl.create_default_context()
        if self._tls:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, timeout=TIMEOUT_S, context=context
            )
        else:
            server = smtplib.SMTP(self._host, self._port, timeout=TIMEOUT_S)
        with server:
            server.ehlo()
            if not self._tls and (self._host not in _LOCAL or server.has_extn("starttls")):
                server.starttls(context=context)
            if self._user:
                server.login(self._user, self._password)
            server.send_message(message)
