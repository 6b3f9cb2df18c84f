"""The token in every form: it binds the form to the session, or, before there is one, to the browser."""

import hmac
import secrets
from typing import Any, Final

from litestar import Request

from payaccept.domain.user import Viewer
from payaccept.portal import cookies
from payaccept.portal.errors import NotAllowed
from payaccept.portal.services import Services

FIELD: Final = "csrf"
_PURPOSE: Final = "csrf"
_NONCE: Final = 22  # characters: 128 bits
_EXPIRED: Final = "This form had expired, so nothing was changed. Open the page again, and send it once more."

CsrfRequest = Request[Any, Any, Any]


def token_for(request: CsrfRequest, services: Services, viewer: Viewer | None) -> str:
    """Make a form's token. Each is another, so that compressing proxies reveal nothing of it."""
    nonce = secrets.token_urlsafe(16)
    return nonce + services.seals.mac(_PURPOSE, nonce + _binding(request, services, viewer, make=True))


async def require_token(request: CsrfRequest, services: Services, viewer: Viewer | None) -> None:
    """Refuse a form that is not ours. Raises: NotAllowed."""
    form = await request.form()
    token = str(form.get(FIELD, ""))
    nonce, mac = token[:_NONCE], token[_NONCE:]
    binding = _binding(request, services, viewer, make=False)
    wanted = services.seals.mac(_PURPOSE, nonce + binding)
    if not binding or not hmac.compare_digest(mac.encode(), wanted.encode()):
        raise NotAllowed(_EXPIRED)


def _binding(request: CsrfRequest, services: Services, viewer: Viewer | None, *, make: bool) -> str:
    if viewer is not None:
        return viewer.session.session_id
    given: str | None = request.cookies.get(cookies.name(services.site, cookies.FORM))
    if given:
        return given
    if not make:
        return ""
    made: str = request.scope.setdefault("form_cookie", secrets.token_urlsafe(16))  # type: ignore[typeddict-item]
    return made
