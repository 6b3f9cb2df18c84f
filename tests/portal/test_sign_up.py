"""Signing up: an account and a merchant of one's own, in the sandbox."""

import pytest

from deployment import settings_for
from payaccept.domain.merchant import Environment
from payaccept.domain.user import Role
from payaccept.wiring import migrate
from portals import PASSWORD

GIVEN = {"merchant": "Café Ünder", "name": "Anna Ünder", "email": "anna@uender.example", "password": PASSWORD}


async def test_a_newcomer_has_a_merchant_at_once_and_is_told_what_to_do_next(portal):
    visitor = portal.visitor()
    seen = await visitor.fill("/sign-up", "/sign-up", **GIVEN)
    assert seen.path.startswith("/m/sandbox_")
    client_id = seen.path.removeprefix("/m/")
    assert "Welcome. Café Ünder is ready to be tried out." in seen.text
    assert client_id in seen.text
    assert "Register a public key" in seen.text
    assert "Welcome" not in (await visitor.get(seen.path)).text  # it is said once
    [member] = await portal.services.people.list_members(client_id)
    assert (member.user.email, member.role) == ("anna@uender.example", Role.OWNER)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("merchant", "", "Enter the name that your customers know you by."),
        ("merchant", "x" * 129, "1 to 128 printable characters"),
        ("name", "", "Enter your name"),
        ("email", "anna", "This is not an e-mail address"),
        ("email", "", "Enter an e-mail address."),
        ("password", "", "Enter a password."),
        ("password", "2short", "at least 12"),
        ("password", "anna-2026-2026", "Too easy to guess"),
    ],
)
async def test_a_mistake_is_told_beside_its_field_and_what_was_typed_stays(portal, field, value, told):
    given = GIVEN | {"email": "other@uender.example"} | {field: value}
    seen = await portal.visitor().fill("/sign-up", "/sign-up", **given)
    assert seen.status == 422
    assert told in seen.text
    assert f'id="{field}-error"' in seen.html
    assert f'<a href="#{field}">' in seen.html
    kept = seen.form("/sign-up").fields
    assert {name: kept[name] for name in ("merchant", "name", "email")} == {
        name: given[name] for name in ("merchant", "name", "email")
    }
    assert kept["password"] == ""
    assert field != "password" or not value or value not in seen.html


async def test_an_address_with_an_account_is_sent_to_sign_in_and_changes_nothing(portal):
    owner = await portal.owner()
    seen = await portal.visitor().fill("/sign-up", "/sign-up", **GIVEN | {"email": owner.email.upper()})
    assert seen.status == 422
    assert "There is an account with this address already" in seen.text
    account = await portal.services.users.get_account(owner.user_id)
    assert account.user.name == owner.name


async def test_accounts_from_one_address_come_to_an_end_for_a_while(portal):
    visitor = portal.visitor()
    for number in range(20):
        await visitor.fill("/sign-up", "/sign-up", **GIVEN | {"email": f"many{number}@example.com"})
        visitor.client.cookies.clear()
    seen = await visitor.fill("/sign-up", "/sign-up", **GIVEN | {"email": "many20@example.com"})
    assert seen.status == 429
    assert "Many accounts were made from here" in seen.text


async def test_who_is_signed_in_makes_one_more_merchant(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    assert (await visitor.get("/sign-up")).path == "/merchants/new"
    seen = await visitor.fill("/merchants/new", "/merchants/new", merchant="")
    assert seen.status == 422
    seen = await visitor.fill("/merchants/new", "/merchants/new", merchant="Branch")
    assert "Branch is ready to be tried out." in seen.text
    assert seen.path.startswith("/m/sandbox_")
    assert seen.path != owner.home


async def test_in_production_nobody_signs_up(open_portal, empty_database, master_key_file):
    url = empty_database()
    await migrate(settings_for(url, master_key_file, environment=Environment.PRODUCTION))
    portal = await open_portal(
        web_base_url="http://portal.test", database_url=url, environment=Environment.PRODUCTION
    )
    visitor = portal.visitor()
    assert (await visitor.get("/sign-up")).status == 404
    page = await visitor.get("/sign-in")
    assert "/sign-up" not in page.links
    assert "/sign-up" not in (await visitor.get("/")).links
    seen = await visitor.post("/sign-up", GIVEN | {"csrf": page.forms[0].fields["csrf"]})
    assert seen.status == 404
