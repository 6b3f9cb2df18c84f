"""Files, and the signs of life: what is served to everyone, and looks nobody up."""

from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.portal.access import unattended
from payaccept.portal.errors import PageNotFound
from payaccept.portal.services import Services

_FOR_GOOD = "public, max-age=31536000, immutable"


@get("/static/{name:str}", guards=[unattended()])
async def file(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    """Serve a file by the name that its content gives it."""
    asset = request.app.state.assets.find(name)
    if asset is None:
        raise PageNotFound
    return Response(asset.body, media_type=asset.content_type, headers={"Cache-Control": _FOR_GOOD})


@get("/healthz", guards=[unattended()], media_type=MediaType.TEXT)
async def health() -> str:
    """Tell that the process lives."""
    return "ok\n"


@get("/readyz", guards=[unattended()], media_type=MediaType.TEXT)
async def readiness(services: NamedDependency[Services]) -> str:
    """Tell that the database answers."""
    await services.ping()
    return "ok\n"


@get("/robots.txt", guards=[unattended()], media_type=MediaType.TEXT)
async def robots() -> str:
    """Keep search engines out: nothing here is for them."""
    return "User-agent: *\nDisallow: /\n"


routes = (file, health, readiness, robots)
