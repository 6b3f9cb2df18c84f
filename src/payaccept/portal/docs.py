"""`/docs`: the project's documents, and the reference of the API with the reader's own Client-Id."""

import hashlib
from typing import Any, Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.enums import MediaType
from litestar.params import FromPath

from payaccept.portal.access import PortalRequest, everyone
from payaccept.portal.errors import PageNotFound
from payaccept.portal.library import REFERENCE, ROOT, Document, Entry, library
from payaccept.portal.reference import PLACEHOLDER, Operation, curl_of, reference
from payaccept.portal.services import Services

_FOR_EVERYBODY: Final = "public, max-age=300"
_FOR_ONE: Final = "private, no-cache"
_FILES: Final = "files/"


@get([ROOT, ROOT + "/{path:path}"], guards=[everyone()])
async def show(
    request: PortalRequest, services: NamedDependency[Services], path: FromPath[str] = ""
) -> Response[Any]:
    """Show a document, a page of the reference, or a file that a document links to."""
    path = path.strip("/")
    address = f"{ROOT}/{path}" if path else ROOT
    document = library().documents.get(address)
    if address == ROOT:
        return _answer(request, services, "docs/index.html", address=address, lead=_lead())
    if document is not None:
        return _show_document(request, services, document)
    if address == REFERENCE:
        return _answer(request, services, "docs/reference.html", address=address, reference=reference())
    operation = reference().find(path.removeprefix("api/")) if path.startswith("api/") else None
    if operation is not None:
        return _show_operation(request, services, operation)
    file = library().find_file(path.removeprefix(_FILES)) if path.startswith(_FILES) else None
    if file is None:
        raise PageNotFound
    return _cached(request, Response(file.body, media_type=file.content_type), file.body, _FOR_EVERYBODY)


def _lead() -> str:
    """Return what the project says of itself in its first sentences."""
    start = library().documents.get(f"{ROOT}/getting-started")
    return "" if start is None else start.rendered.lead


def _show_document(request: PortalRequest, services: Services, document: Document) -> Response[Any]:
    order = [entry.address for entry in library().order]
    at = order.index(document.address) if document.address in order else None
    return _answer(
        request,
        services,
        "docs/document.html",
        address=document.address,
        document=document,
        previous=library().order[at - 1] if at else None,
        following=library().order[at + 1] if at is not None and at + 1 < len(order) else None,
    )


def _show_operation(request: PortalRequest, services: Services, operation: Operation) -> Response[Any]:
    return _answer(
        request,
        services,
        "docs/operation.html",
        address=operation.address,
        reference=reference(),
        operation=operation,
        curl=curl_of(operation, services.site.api_base_url, PLACEHOLDER) if operation.signed else None,
    )


def _answer(
    request: PortalRequest, services: Services, template: str, *, address: str, **context: Any
) -> Response[Any]:
    viewer = request.user
    own = viewer.memberships[0].client_id if viewer is not None and viewer.memberships else None
    html: str = request.app.state.templates.get_template(template).render(
        site=services.site,
        viewer=viewer,
        address=address,
        shelves=library().shelves,
        below=_below(address),
        own_client_id=own,
        client_id=own or PLACEHOLDER,
        placeholder=PLACEHOLDER,
        **context,
    )
    body = html.encode()
    answer = Response(body, media_type=MediaType.HTML)
    return _cached(request, answer, body, _FOR_EVERYBODY if viewer is None else _FOR_ONE)


def _below(address: str) -> tuple[str, list[Entry]]:
    """Return the line of the contents that the reader is in, and what stands below it."""
    if address.startswith(REFERENCE):
        everything = (*reference().operations, *reference().webhooks)
        labels = {one.name: one.name for one in everything} | {
            "webhook": "The webhook",
            "webhook-test": "The test webhook",
        }
        return REFERENCE, [Entry(labels[one.name], one.address) for one in everything]
    parent = next(
        (entry.address for entry in library().order if f"{address}/".startswith(f"{entry.address}/")), ""
    )
    return parent, library().entries_below(parent) if parent else []


def _cached(request: PortalRequest, answer: Response[Any], body: bytes, policy: str) -> Response[Any]:
    """Let browsers keep the answer, and spare them what they have."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    headers = {"ETag": etag, "Cache-Control": policy, "Vary": "Cookie"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    answer.headers.update(headers)
    return answer


routes = (show,)
