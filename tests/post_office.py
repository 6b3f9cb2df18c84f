"""A small SMTP server for tests of mail."""

import asyncio
import email
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.policy import default


class PostOffice:
    """A small SMTP server that keeps what it is given."""

    def __init__(self) -> None:
        self.letters: list[email.message.EmailMessage] = []
        self.refuses = False
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(text: str) -> None:
            writer.write(f"{text}\r\n".encode())
            await writer.drain()

        await say("220 ready")
        while line := (await reader.readline()).decode().strip().upper():
            if line.startswith("EHLO"):
                await say("250 post.test")
            elif line.startswith("DATA"):
                await say("354 go on")
                lines = []
                while (line := await reader.readline()) != b".\r\n":
                    lines.append(line.removeprefix(b"."))
                self.letters.append(email.message_from_bytes(b"".join(lines), policy=default))
                await say("250 kept")
            elif line.startswith("QUIT"):
                await say("221 bye")
                break
            else:
                await say("550 no" if self.refuses and line.startswith("RCPT") else "250 yes")
        writer.close()


@asynccontextmanager
async def post_office() -> AsyncIterator[PostOffice]:
    office = PostOffice()
    server = await asyncio.start_server(office.serve, "127.0.0.1", 0)
    office.url = f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield office
