"""Who may do what: every route against everybody, and every object against a stranger."""

import pytest
import pytest_asyncio

from payaccept.domain.user import Role
from payaccept.portal.app import routes
from visitor import Visitor

ACTORS = ("nobody", "stranger", "viewer", "developer", "owner", "staff")
EVERYONE = frozenset(ACTORS)
SIGNED_IN = EVERYONE - {"nobody"}
MEMBERS = frozenset({"viewer", "developer", "owner"})
DEVELOPERS = frozenset({"developer", "owner"})
OWNERS = frozenset({"owner"})
STAFF = frozenset({"staff"})

# One row for each route: who gets in. A route without a row fails the first test.
MATRIX: dict[tuple[str, str], frozenset[str]] = {
    ("GET", "/static/{name:str}"): EVERYONE,
    ("GET", "/healthz"): EVERYONE,
    ("GET", "/readyz"): EVERYONE,
    ("GET", "/robots.txt"): EVERYONE,
    ("GET", "/q/{payment_id:str}"): EVERYONE,
    ("GET", "/pay/{payment_id:str}"): EVERYONE,
    ("GET", "/pay/{payment_id:str}/status"): EVERYONE,
    ("GET", "/s/{payment_id:str}"): EVERYONE,
    ("GET", "/wallet"): EVERYONE,
    ("GET", "/wallet/scan"): EVERYONE,
    ("GET", "/wallet/codes/{sealed:str}"): EVERYONE,
    ("POST", "/wallet/{payment_id:str}/approve"): EVERYONE,
    ("POST", "/wallet/{payment_id:str}/decline"): EVERYONE,
    ("GET", "/docs"): EVERYONE,
    ("GET", "/docs/{path:path}"): EVERYONE,
    ("GET", "/"): EVERYONE,
    ("GET", "/sign-in"): EVERYONE,
    ("POST", "/sign-in"): EVERYONE,
    ("GET", "/sign-in/code"): EVERYONE,
    ("POST", "/sign-in/code"): EVERYONE,
    ("POST", "/sign-out"): SIGNED_IN,
    ("GET", "/sign-up"): EVERYONE,
    ("POST", "/sign-up"): EVERYONE,
    ("GET", "/merchants/new"): SIGNED_IN,
    ("POST", "/merchants/new"): SIGNED_IN,
    ("GET", "/invitation/{token:str}"): EVERYONE,
    ("POST", "/invitation/{token:str}"): EVERYONE,
    ("POST", "/invitation/{token:str}/accept"): SIGNED_IN,
    ("GET", "/new-password/{token:str}"): EVERYONE,
    ("POST", "/new-password/{token:str}"): EVERYONE,
    ("GET", "/forgotten-password"): EVERYONE,
    ("POST", "/forgotten-password"): EVERYONE,
    ("GET", "/account"): SIGNED_IN,
    ("POST", "/account/name"): SIGNED_IN,
    ("GET", "/account/password"): SIGNED_IN,
    ("POST", "/account/password"): SIGNED_IN,
    ("POST", "/account/sessions/{session_id:str}/end"): SIGNED_IN,
    ("POST", "/account/sessions/end-others"): SIGNED_IN,
    ("GET", "/account/second-factor"): SIGNED_IN,
    ("POST", "/account/second-factor"): SIGNED_IN,
    ("POST", "/account/second-factor/on"): SIGNED_IN,
    ("GET", "/account/second-factor/off"): SIGNED_IN,
    ("POST", "/account/second-factor/off"): SIGNED_IN,
    ("GET", "/account/recovery-codes"): SIGNED_IN,
    ("POST", "/account/recovery-codes"): SIGNED_IN,
    ("GET", "/m/{client_id:str}"): MEMBERS,
    ("GET", "/m/{client_id:str}/payments"): MEMBERS,
    ("GET", "/m/{client_id:str}/payments/{payment_id:str}"): MEMBERS,
    ("GET", "/payments/{payment_id:str}"): SIGNED_IN,
    ("GET", "/m/{client_id:str}/reports"): MEMBERS,
    ("GET", "/m/{client_id:str}/reports/payments"): MEMBERS,
    ("GET", "/m/{client_id:str}/reports/reconciliation"): MEMBERS,
    ("GET", "/m/{client_id:str}/keys"): MEMBERS,
    ("GET", "/m/{client_id:str}/keys/new"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/keys/new"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/keys/verdict"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/keys/{key_version:str}"): MEMBERS,
    ("POST", "/m/{client_id:str}/keys/{key_version:str}/proof"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/keys/{key_version:str}/discard"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/keys/{key_version:str}/deactivate"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/webhooks"): MEMBERS,
    ("POST", "/m/{client_id:str}/webhooks/endpoint"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/webhooks/endpoint/verdict"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/webhooks/endpoint/remove"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/webhooks/test"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/webhooks/replay"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/webhooks/replay"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/webhooks/replays/{replay_id:str}"): MEMBERS,
    ("POST", "/m/{client_id:str}/webhooks/replays/{replay_id:str}/stop"): DEVELOPERS,
    ("POST", "/m/{client_id:str}/webhooks/replays/{replay_id:str}/resume"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/webhooks/{event_id:str}"): MEMBERS,
    ("POST", "/m/{client_id:str}/webhooks/{event_id:str}/resend"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/requests"): MEMBERS,
    ("GET", "/m/{client_id:str}/requests/{request_id:str}"): MEMBERS,
    ("GET", "/m/{client_id:str}/requests/doctor"): MEMBERS,
    ("POST", "/m/{client_id:str}/requests/doctor"): MEMBERS,
    ("GET", "/m/{client_id:str}/webhooks/drill"): MEMBERS,
    ("POST", "/m/{client_id:str}/webhooks/drill"): DEVELOPERS,
    ("GET", "/m/{client_id:str}/webhooks/drill/{drill_id:str}"): MEMBERS,
    ("GET", "/m/{client_id:str}/people"): MEMBERS,
    ("GET", "/m/{client_id:str}/people/invite"): OWNERS,
    ("POST", "/m/{client_id:str}/people/invite"): OWNERS,
    ("POST", "/m/{client_id:str}/people/invitations/{link_id:str}/revoke"): OWNERS,
    ("GET", "/m/{client_id:str}/people/{user_id:str}"): OWNERS,
    ("POST", "/m/{client_id:str}/people/{user_id:str}/role"): OWNERS,
    ("POST", "/m/{client_id:str}/people/{user_id:str}/remove"): OWNERS,
    ("GET", "/m/{client_id:str}/audit"): DEVELOPERS,
    ("GET", "/operator"): STAFF,
    ("GET", "/operator/merchants"): STAFF,
    ("GET", "/operator/merchants/new"): STAFF,
    ("POST", "/operator/merchants/new"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}"): STAFF,
    ("POST", "/operator/merchants/{client_id:str}/state"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}/settings"): STAFF,
    ("POST", "/operator/merchants/{client_id:str}/settings"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}/invite"): STAFF,
    ("POST", "/operator/merchants/{client_id:str}/invite"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}/keys/{key_version:str}"): STAFF,
    ("POST", "/operator/merchants/{client_id:str}/keys/{key_version:str}/deactivate"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}/payments"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}/requests"): STAFF,
    ("GET", "/operator/merchants/{client_id:str}/requests/{request_id:str}"): STAFF,
    ("GET", "/operator/payments"): STAFF,
    ("GET", "/operator/payments/{payment_id:str}"): STAFF,
    ("GET", "/operator/deliveries"): STAFF,
    ("GET", "/operator/deliveries/{event_id:str}"): STAFF,
    ("POST", "/operator/deliveries/{event_id:str}/resend"): STAFF,
    ("GET", "/operator/keys"): STAFF,
    ("POST", "/operator/keys/rotate"): STAFF,
    ("GET", "/operator/keys/{key_version:str}"): STAFF,
    ("POST", "/operator/keys/{key_version:str}/withdraw"): STAFF,
    ("GET", "/operator/audit"): STAFF,
}


def all_routes() -> set[tuple[str, str]]:
    return {
        (method, path) for handler in routes() for path in handler.paths for method in handler.http_methods
    }


class House:
    """A merchant with people in every role, and people who have nothing to do with it."""

    def __init__(self, portal) -> None:
        self.portal = portal

    async def furnish(self) -> "House":
        portal = self.portal
        self.owner = await portal.owner()
        self.people = {
            "stranger": await portal.owner("Another shop"),
            "viewer": await portal.colleague(self.owner, Role.VIEWER),
            "developer": await portal.colleague(self.owner, Role.DEVELOPER),
            "owner": self.owner,
            "staff": await portal.employee(),
        }
        return self

    async def browser(self, actor: str) -> Visitor:
        """A browser of an actor's, with a session of its own."""
        if actor == "nobody":
            return self.portal.visitor()
        return await self.people[actor].browser()

    def path(self, template: str) -> str:
        """An address of this merchant; what it names besides that is not there."""
        filled = template.replace("{client_id:str}", self.owner.client_id)
        return "/".join("none" if part.startswith("{") else part for part in filled.split("/"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(portal) -> House:
    return await House(portal).furnish()


def test_every_route_has_its_row_and_every_row_its_route():
    assert all_routes() == MATRIX.keys()


@pytest.mark.parametrize(
    ("route", "actor"),
    [pytest.param(route, actor, id=f"{actor}-{'-'.join(route)}") for route in MATRIX for actor in ACTORS],
)
async def test_a_route_lets_in_whom_its_row_names(house, route, actor):
    method, template = route
    visitor = await house.browser(actor)
    page = await visitor.get("/sign-in" if actor == "nobody" else "/account")
    token = page.forms[0].fields["csrf"]
    if method == "GET":
        seen = await visitor.get(house.path(template), follow=False)
    else:
        seen = await visitor.post(house.path(template), {"csrf": token}, follow=False)
    assert seen.status < 500
    sent_to_sign_in = seen.status == 303 and seen.response.headers["location"].startswith("/sign-in")
    if actor in MATRIX[route]:
        assert seen.status != 403
        # Signed in, nobody is sent to sign in, but by the pages that are about signing in and out.
        assert not sent_to_sign_in or template.startswith("/sign-")
        if seen.status == 404:  # an object that is not there, or a file
            assert "{" in template.replace("{client_id:str}", "") or template == "/forgotten-password"
    elif actor == "nobody":
        assert sent_to_sign_in
    elif actor in MEMBERS and MATRIX[route] != STAFF:
        assert seen.status == 403
    else:
        assert seen.status == 404


# Every form needs its token, and comes from our own pages

POSTS = sorted(path for method, path in MATRIX if method == "POST")


@pytest.mark.parametrize("where", POSTS)
@pytest.mark.parametrize("token", ["", "x" * 65, "of another"])
async def test_a_form_without_the_token_of_this_session_changes_nothing(house, where, token):
    visitor = await house.browser("owner")
    if token == "of another":
        other = await (await house.browser("viewer")).get("/account")
        token = other.forms[0].fields["csrf"]
    seen = await visitor.post(house.path(where), {"csrf": token}, follow=False)
    assert seen.status == 403
    assert "expired" in seen.text


@pytest.mark.parametrize("where", POSTS)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
async def test_a_form_that_another_site_sends_changes_nothing(house, where, headers):
    visitor = await house.browser("owner")
    token = (await visitor.get("/account")).forms[0].fields["csrf"]
    seen = await visitor.post(house.path(where), {"csrf": token}, **({"origin": None} | headers))
    assert seen.status == 403
    assert "another site" in seen.text


# Objects of others


async def test_a_session_of_somebody_else_cannot_be_ended(house):
    victim = await house.browser("viewer")
    session = (await sessions_of(house, "viewer"))[0].session_id
    attacker = await house.browser("owner")
    page = await attacker.get("/account")
    token = page.forms[0].fields["csrf"]
    seen = await attacker.post(f"/account/sessions/{session}/end", {"csrf": token})
    assert "had ended already" in seen.text
    assert session in {one.session_id for one in await sessions_of(house, "viewer")}
    assert (await victim.get("/account")).status == 200


async def sessions_of(house, actor):
    return await house.portal.services.sign_in.list_sessions(
        house.people[actor].user_id, house.portal.clock()
    )


async def test_an_invitation_of_another_merchant_cannot_be_taken_back(house):
    owner = await house.browser("owner")
    await owner.fill(
        f"{house.owner.home}/people/invite",
        f"{house.owner.home}/people/invite",
        email="kept@example.com",
        role="viewer",
    )
    page = await owner.get(f"{house.owner.home}/people")
    action = next(form.action for form in page.forms if form.action.endswith("/revoke"))
    stranger = await house.browser("stranger")
    theirs = house.people["stranger"]
    token = (await stranger.get("/account")).forms[0].fields["csrf"]
    moved = action.replace(house.owner.client_id, theirs.client_id)
    seen = await stranger.post(moved, {"csrf": token})
    assert "was not open" in seen.text
    assert "kept@example.com" in (await owner.get(f"{house.owner.home}/people")).text


@pytest.mark.parametrize("what", ["", "/role", "/remove"])
async def test_a_person_of_another_merchant_is_not_there(house, what):
    stranger = await house.browser("stranger")
    theirs = house.people["stranger"]
    path = f"{theirs.home}/people/{house.owner.user_id}{what}"
    token = (await stranger.get("/account")).forms[0].fields["csrf"]
    seen = await (stranger.post(path, {"csrf": token, "role": "viewer"}) if what else stranger.get(path))
    assert seen.status == 404
    assert house.owner.email not in seen.html


async def test_what_somebody_may_ends_with_the_membership_at_once(portal):
    owner = await portal.owner()
    colleague = await portal.colleague(owner, Role.DEVELOPER)
    theirs = await colleague.browser()
    assert (await theirs.get(f"{owner.home}/audit")).status == 200
    ours = await owner.browser()
    await ours.fill(f"{owner.home}/people/{colleague.user_id}", f"{owner.home}/people/*", role="viewer")
    assert (await theirs.get(f"{owner.home}/audit")).status == 403
    page = await ours.get(f"{owner.home}/people/{colleague.user_id}")
    await ours.send(page, f"{owner.home}/people/{colleague.user_id}/remove")
    assert (await theirs.get(owner.home)).status == 404
