"""One HTTP/1.1 answer out of bytes in any pieces, of which no more is kept than is told here."""

from typing import Final

import httptools

from payaccept.adapters.outbound.unanswered import Unanswered

MAX_HEAD_BYTES: Final = 32 * 1024
"""Of all that comes before the body, interim answers (1xx) included."""
MAX_BODY_BYTES: Final = 4096
# A body in chunks of one byte takes six times its size; what takes more is not read to its end.
_MAX_BODY_WIRE_BYTES: Final = 6 * MAX_BODY_BYTES + 1024

_SWITCHING_PROTOCOLS: Final = 101
_OK: Final = 200
_MIN_STATUS: Final = 100


class AnswerReader:
    """Takes bytes until the answer is done. A body that is longer than 4 KiB is done there.

    is_reusable, once it is done: the other side keeps the connection and has said nothing beyond the answer
    """

    __slots__ = (
        "_body",
        "_body_size",
        "_body_wire_size",
        "_has_length",
        "_head_size",
        "_in_body",
        "_parser",
        "is_done",
        "is_reusable",
        "retry_after",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.retry_after: bytes | None = None
        self.is_done = False
        self.is_reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._body_size = 0
        self._head_size = 0
        self._body_wire_size = 0
        self._in_body = False
        self._has_length = False

    @property
    def body(self) -> bytes:
        """The body, or its first 4 KiB."""
        return b"".join(self._body)[:MAX_BODY_BYTES]

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; tells whether the answer is done. Raises: Unanswered when it is none."""
        rest = memoryview(data)
        while rest and not self.is_done:
            room = (
                _MAX_BODY_WIRE_BYTES - self._body_wire_size
                if self._in_body
                else MAX_HEAD_BYTES - self._head_size
            )
            self._take(rest[:room])
            rest = rest[room:]
        if rest:
            self.is_reusable = False
        return self.is_done

    def _take(self, piece: memoryview) -> None:
        if self._in_body:
            self._body_wire_size += len(piece)
        else:
            self._head_size += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._finish(reusable=False)
        except httptools.HttpParserError:
            # After the end it is no concern of ours what the other side says; we only listen no more.
            self.is_reusable = False
            if not self.is_done:
                raise Unanswered("the answer is not HTTP/1.1") from None
        if self.is_done:
            return
        if not self._in_body and self._head_size >= MAX_HEAD_BYTES:
            raise Unanswered(f"the headers of the answer are longer than {MAX_HEAD_BYTES // 1024} KiB")
        if self._body_size >= MAX_BODY_BYTES or self._body_wire_size >= _MAX_BODY_WIRE_BYTES:
            self._finish(reusable=False)

    def end(self) -> bool:
        """Take the end of the connection; tells whether the answer is done, as one without a length is."""
        if not self.is_done and self._in_body and not self._has_length:
            self._finish(reusable=False)
        return self.is_done

    def _finish(self, *, reusable: bool) -> None:
        self.is_done = True
        self.is_reusable = reusable

    def on_message_begin(self) -> None:
        """Another message begins; after the end it is one that nobody asked for."""
        if self.is_done:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header has come."""
        if self._in_body or self.is_done:
            return  # a trailer
        name = name.lower()
        if name == b"retry-after":
            self.retry_after = value
        elif name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower()):
            self._has_length = True

    def on_headers_complete(self) -> None:
        """A head has ended, of an interim answer or of the answer itself."""
        if self.is_done:
            return
        status = self._parser.get_status_code()
        if status < _MIN_STATUS:
            raise ValueError(status)
        if status < _OK and status != _SWITCHING_PROTOCOLS:
            self.retry_after = None
            self._has_length = False
            return
        self.status = status
        self._in_body = True

    def on_body(self, piece: bytes) -> None:
        """A piece of the body has come."""
        if self._body_size < MAX_BODY_BYTES:
            self._body.append(piece[: MAX_BODY_BYTES - self._body_size])
        self._body_size += len(piece)

    def on_message_complete(self) -> None:
        """A message has ended."""
        if self._in_body and not self.is_done:
            is_short = self._body_size <= MAX_BODY_BYTES
            self._finish(reusable=is_short and self._parser.should_keep_alive())
