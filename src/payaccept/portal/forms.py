"""Forms as they were sent: their fields, and beside each what is wrong with it."""

from collections.abc import Mapping
from typing import Any

from litestar import Request
from litestar.datastructures import UploadFile
from litestar.exceptions import HTTPException

MAX_FIELD = 16 * 1024


class Form:
    """What was typed, and the errors found in it; templates show both."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = dict(values)
        self.errors: dict[str, str] = {}

    @classmethod
    async def of(cls, request: Request[Any, Any, Any]) -> "Form":
        """Read the form of a request; a field sent twice counts once, and files are not among them."""
        sent = await request.form()
        values = {name: value for name, value in sent.items() if isinstance(value, str)}
        if any(
            "\0" in value for value in values.values()
        ):  # which nobody types, and PostgreSQL does not take
            raise HTTPException(status_code=400)
        return cls(values)

    @staticmethod
    async def file_of(request: Request[Any, Any, Any], name: str) -> bytes:
        """Return what a file field brought; nothing when no file was chosen."""
        sent = (await request.form()).get(name)
        return await sent.read() if isinstance(sent, UploadFile) else b""

    def text(self, name: str, *, max_length: int = MAX_FIELD) -> str:
        """Return a field without blanks around it; too long a one is an error and comes back cut."""
        value = self.values.get(name, "").strip()
        if len(value) > max_length:
            self.fail(name, f"At most {max_length} characters.")
        return value[:max_length]

    def secret(self, name: str) -> str:
        """Return a password as it was typed; it is never shown again."""
        return self.values.pop(name, "")

    def fail(self, name: str, message: str) -> None:
        """Note what is wrong with a field; the first error of each counts."""
        self.errors.setdefault(name, message)

    def check(self, name: str, problem: str | None) -> None:
        """Note a problem, if it is one."""
        if problem is not None:
            self.fail(name, problem)

    @property
    def is_valid(self) -> bool:
        """Whether no error was found so far."""
        return not self.errors
