"""The people of a merchant."""

import asyncio
import re

import pytest

from deployment import fetch_all, numbers
from payaccept.domain.errors import OwnerNeeded
from payaccept.domain.user import COMMAND_LINE, Membership, Role
from portals import PASSWORD


async def invite(owner, email: str, role: str = "developer"):
    """Invite somebody by the form; returns the path of the link, and the page it is shown on."""
    visitor = await owner.browser()
    path = f"{owner.home}/people/invite"
    seen = await visitor.fill(path, path, email=email, role=role)
    assert seen.status == 200
    [link] = re.findall(r'data-copy="(http://portal\.test/invitation/[\w-]{43})"', seen.html)
    return link.removeprefix("http://portal.test"), seen


def somebody() -> str:
    return f"new{next(numbers)}@example.com"


async def test_a_colleague_is_invited_makes_an_account_and_is_in(portal):
    owner = await portal.owner()
    email = somebody()
    link, seen = await invite(owner, email)
    assert "It is not shown again." in seen.text
    colleague = portal.visitor()
    page = await colleague.get(link)
    assert "Join Corner shop" in page.text
    assert f"{owner.email} invites {email} as developer" in page.text
    seen = await colleague.send(page, link, name="New Colleague", password=PASSWORD)
    assert seen.path == owner.home
    assert "Welcome to Corner shop." in seen.text
    people = (await (await owner.browser()).get(f"{owner.home}/people")).text
    assert "New Colleague" in people
    assert "No open invitations" in people


async def test_who_has_an_account_signs_in_and_joins_with_it(portal):
    owner, other = await portal.owner(), await portal.owner("Other shop")
    link, _ = await invite(owner, other.email.upper(), "viewer")
    visitor = portal.visitor()
    page = await visitor.get(link)
    assert "There is an account with this address already" in page.text
    page = await visitor.get(f"/sign-in?next={link}")
    page = await visitor.send(page, "/sign-in", email=other.email, password=PASSWORD)
    assert page.path == link
    seen = await visitor.send(page, f"{link}/accept")
    assert "You belong to Corner shop now." in seen.text
    assert "Corner shop" in (await visitor.get("/")).text
    assert "Other shop" in (await visitor.get("/")).text


async def test_an_invitation_is_for_the_address_it_names(portal):
    owner, other = await portal.owner(), await portal.owner()
    link, _ = await invite(owner, somebody())
    visitor = await other.browser()
    page = await visitor.get(link)
    assert "this invitation is for another address" in page.text
    token = page.forms[0].fields["csrf"]
    await visitor.post(f"{link}/accept", {"csrf": token})
    await visitor.post(link, {"csrf": token, "name": "Other", "password": PASSWORD})
    assert (await visitor.get(owner.home)).status == 404
    assert "this invitation is for another address" in (await visitor.get(link)).text


async def test_an_invitation_works_once(portal):
    owner = await portal.owner()
    link, _ = await invite(owner, somebody())
    first, second = portal.visitor(), portal.visitor()
    pages = [await visitor.get(link) for visitor in (first, second)]
    assert (await first.send(pages[0], link, name="First", password=PASSWORD)).path == owner.home
    seen = await second.send(pages[1], link, name="Second", password=PASSWORD)
    assert seen.status == 410
    assert "does not work any more" in seen.text


async def test_an_invitation_that_two_send_at_once_makes_one_account(portal):
    owner = await portal.owner()
    email = somebody()
    link, _ = await invite(owner, email)
    visitors = [portal.visitor() for _ in range(4)]
    pages = [await visitor.get(link) for visitor in visitors]
    seen = await asyncio.gather(
        *(
            visitor.send(page, link, name="Somebody", password=PASSWORD)
            for visitor, page in zip(visitors, pages, strict=True)
        )
    )
    assert sorted(one.path == owner.home for one in seen) == [False, False, False, True]


async def test_an_invitation_ends_after_a_week(portal, clock):
    owner = await portal.owner()
    link, _ = await invite(owner, somebody())
    clock.move(days=7, seconds=-1)
    assert (await portal.visitor().get(link)).status == 200
    clock.move(seconds=1)
    assert (await portal.visitor().get(link)).status == 410


async def test_a_newer_invitation_replaces_the_older_one_for_the_same_person(portal):
    owner = await portal.owner()
    email = somebody()
    older, _ = await invite(owner, email)
    newer, _ = await invite(owner, email.upper(), "viewer")
    assert (await portal.visitor().get(older)).status == 410
    assert (await portal.visitor().get(newer)).status == 200


async def test_an_invitation_can_be_taken_back(portal):
    owner = await portal.owner()
    link, _ = await invite(owner, somebody())
    visitor = await owner.browser()
    seen = await visitor.fill(f"{owner.home}/people", f"{owner.home}/people/invitations/*")
    assert "The invitation is taken back." in seen.text
    assert (await portal.visitor().get(link)).status == 410


async def test_the_secret_of_an_invitation_cannot_be_read_in_the_database(portal, settings):
    owner = await portal.owner()
    link, _ = await invite(owner, somebody())
    stored = str(fetch_all(settings.database_url, "SELECT * FROM one_time_links"))
    assert link.rpartition("/")[2] not in stored


@pytest.mark.parametrize(
    ("email", "role", "told"),
    [
        ("", "viewer", "Enter an e-mail address."),
        ("nobody", "viewer", "This is not an e-mail address"),
        ("x@example.com", "", "Choose what this person may do."),
        ("x@example.com", "king", "Choose what this person may do."),
    ],
)
async def test_a_mistake_in_an_invitation_is_told_and_what_was_typed_stays(portal, email, role, told):
    owner = await portal.owner()
    visitor = await owner.browser()
    path = f"{owner.home}/people/invite"
    seen = await visitor.fill(path, path, email=email, role=role)
    assert seen.status == 422
    assert told in seen.text
    assert seen.form(path).fields["email"] == email
    assert seen.form(path).fields.get("role", "") == (role if role == "viewer" else "")


async def test_who_is_in_already_is_not_invited_again(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    path = f"{owner.home}/people/invite"
    seen = await visitor.fill(path, path, email=owner.email, role="viewer")
    assert "belongs to the merchant already" in seen.text


async def test_a_role_is_changed_and_what_it_allows_follows_at_once(portal):
    owner = await portal.owner()
    colleague = await portal.colleague(owner, Role.VIEWER)
    theirs = await colleague.browser()
    assert f"{owner.home}/audit" not in (await theirs.get(owner.home)).links
    ours = await owner.browser()
    path = f"{owner.home}/people/{colleague.user_id}"
    seen = await ours.fill(path, f"{path}/role", role="developer")
    assert "The role is developer now." in seen.text
    assert f"{owner.home}/audit" in (await theirs.get(owner.home)).links


async def test_the_last_owner_stays_one_whatever_is_asked(portal):
    owner = await portal.owner()
    await portal.colleague(owner, Role.DEVELOPER)
    visitor = await owner.browser()
    path = f"{owner.home}/people/{owner.user_id}"
    for action, fields in ((f"{path}/role", {"role": "viewer"}), (f"{path}/remove", {})):
        seen = await visitor.fill(path, action, **fields)
        assert seen.status == 422
        assert "keeps at least one owner" in seen.text
    [member] = [m for m in await portal.services.people.list_members(owner.client_id) if m.role is Role.OWNER]
    assert member.user.user_id == owner.user_id


async def test_two_owners_who_remove_each_other_at_once_leave_one(portal):
    for _ in range(5):
        owner = await portal.owner()
        second = await portal.colleague(owner, Role.OWNER)
        people, now = portal.services.people, portal.clock()
        done = await asyncio.gather(
            people.remove(owner.client_id, second.user_id, now, COMMAND_LINE),
            people.change_role(owner.client_id, owner.user_id, Role.VIEWER, now, COMMAND_LINE),
            return_exceptions=True,
        )
        assert {type(one) for one in done} == {OwnerNeeded, type(None)}
        owners = [m for m in await people.list_members(owner.client_id) if m.role is Role.OWNER]
        assert len(owners) == 1


async def test_an_owner_among_several_may_leave_and_lands_where_it_still_belongs(portal):
    owner = await portal.owner()
    second = await portal.colleague(owner, Role.OWNER)
    visitor = await second.browser()
    path = f"{owner.home}/people/{second.user_id}"
    seen = await visitor.fill(path, f"{path}/remove")
    assert seen.path == "/"
    assert "You have left Corner shop." in seen.text
    assert (await visitor.get(owner.home)).status == 404


async def test_who_was_removed_can_be_invited_again(portal):
    owner = await portal.owner()
    colleague = await portal.colleague(owner, Role.VIEWER)
    visitor = await owner.browser()
    path = f"{owner.home}/people/{colleague.user_id}"
    await visitor.fill(path, f"{path}/remove")
    link, _ = await invite(owner, colleague.email, "developer")
    theirs = await colleague.browser()
    await theirs.send(await theirs.get(link), f"{link}/accept")
    [member] = [
        m for m in await portal.services.people.list_members(owner.client_id) if m.role is Role.DEVELOPER
    ]
    assert member.user.user_id == colleague.user_id


async def test_viewers_see_the_people_and_neither_invitations_nor_a_way_to_change_anything(portal):
    owner = await portal.owner()
    viewer = await portal.colleague(owner, Role.VIEWER)
    email = somebody()
    await invite(owner, email)
    seen = await (await viewer.browser()).get(f"{owner.home}/people")
    assert owner.email in seen.text
    assert email not in seen.text
    assert f"{owner.home}/people/invite" not in seen.links
    assert [form.action for form in seen.forms] == ["/sign-out"]


async def test_a_merchant_has_fifty_people_invitations_included_and_the_page_stays_small(portal):
    owner = await portal.owner()
    membership = Membership(client_id=owner.client_id, merchant_name="Corner shop", role=Role.OWNER)
    for number in range(49):
        email = f"{number}{'x' * 40}@{somebody()}"
        email = email.replace("@new", "-new", 1)
        await portal.services.people.invite(membership, email, Role.VIEWER, portal.clock(), COMMAND_LINE)
    visitor = await owner.browser()
    page = await visitor.get(f"{owner.home}/people")
    assert len(page.response.content) < 60 * 1024
    seen = await visitor.fill(
        f"{owner.home}/people/invite", f"{owner.home}/people/invite", email=somebody(), role="viewer"
    )
    assert seen.status == 422
    assert "at most 50 people" in seen.text
