"""What a page answers when it cannot do what it was asked: always a page, never a trace of the inside."""

import logging
from typing import Any, Final
from urllib.parse import quote

from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect

from payaccept.domain.errors import MerchantNotFound, OutcomeOpen, PaymentNotFound

_log = logging.getLogger(__name__)
_RETRY_AFTER_S: Final = "2"


class PageError(Exception):
    """A page answers with an error."""


class PageNotFound(PageError):
    """There is nothing here, or nothing for this viewer."""


class NotAllowed(PageError):
    """The viewer may see this place, but not do this; the message says why."""


class TooManyAttempts(PageError):
    """Somebody tries too often; the message says what to do."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SignInNeeded(PageError):
    """Nobody is signed in."""


_TEXTS: Final = {
    400: ("This request cannot be read", "The browser sent something that this page does not understand."),
    403: ("Not allowed", "You may not do this."),
    404: ("Nothing here", "There is no such page, or it is not yours to see."),
    405: (
        "This address takes no such request",
        "The form may be from an older version: open the page again.",
    ),
    413: ("Too much at once", "What was sent is larger than this page takes."),
    429: ("Too many attempts", "Wait a little before you try again."),
    500: (
        "Something broke on our side",
        "It is recorded. When you ask for help, quote the request id below.",
    ),
    503: ("Busy just now", "The database did not answer. Nothing is lost: try again in a moment."),
}


def sign_in_instead(request: Request[Any, Any, Any], _error: SignInNeeded) -> Response[Any]:
    """Send the signed-out to sign in, and afterwards back to what they wanted to see."""
    path = request.scope["path"]
    wanted = f"?next={quote(path)}" if request.method == "GET" and path != "/" else ""
    return Redirect(f"/sign-in{wanted}", status_code=303)


def show(request: Request[Any, Any, Any], error: Exception) -> Response[str]:
    """Answer with the page of an error."""
    from payaccept.portal.rendering import page  # noqa: PLC0415 - which needs this module's exceptions

    status, told, headers = _meaning(error)
    if status >= 500:  # noqa: PLR2004
        _log.error(
            "page failed",
            exc_info=error,
            extra={"requestId": request.scope.get("request_id"), "path": request.scope["path"][:200]},
        )
    title, text = _TEXTS.get(status, _TEXTS[400 if status < 500 else 500])  # noqa: PLR2004
    request.scope.setdefault("user", None)
    answer = page(request, "error.html", status=status, title=title, text=told or text, code=status)
    answer.headers.update(headers)
    return answer


def _meaning(error: Exception) -> tuple[int, str, dict[str, str]]:
    match error:
        case PageNotFound() | MerchantNotFound() | PaymentNotFound():
            return 404, "", {}
        case NotAllowed():
            return 403, str(error), {}
        case TooManyAttempts():
            return 429, str(error), {"Retry-After": str(error.retry_after_s)}
        case OutcomeOpen():
            return 503, "", {"Retry-After": _RETRY_AFTER_S}
        case HTTPException() if error.status_code < 500:  # noqa: PLR2004
            return error.status_code, "", dict(error.headers or {})
        case _:
            return 500, "", {}
