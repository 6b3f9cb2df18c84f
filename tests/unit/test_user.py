"""Roles, addresses, names, sessions."""

from datetime import UTC, datetime, timedelta

import pytest

from payaccept.domain.user import (
    GRANTS,
    ROLE_SUMMARIES,
    Membership,
    Permission,
    Role,
    Session,
    email_key,
    email_problem,
    name_problem,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_each_role_may_what_the_next_one_may_and_more():
    assert GRANTS[Role.VIEWER] < GRANTS[Role.DEVELOPER] < GRANTS[Role.OWNER]
    assert GRANTS[Role.OWNER] == set(Permission)
    assert ROLE_SUMMARIES.keys() == GRANTS.keys() == set(Role)


def test_a_viewer_changes_nothing():
    viewer = Membership(client_id="c", merchant_name="m", role=Role.VIEWER)
    assert [one for one in Permission if viewer.grants(one)] == [Permission.VIEW]


@pytest.mark.parametrize("email", ["a@b.de", "anna+test@shop.example", "Ünder@straße.example", "o'hara@x.ie"])
def test_an_address_is_taken(email):
    assert email_problem(email) is None


@pytest.mark.parametrize(
    "email",
    [
        "",
        "anna",
        "anna@",
        "@shop.example",
        "anna@shop",
        "anna@.de",
        "anna@shop.",
        "a b@shop.example",
        "a@b@shop.example",
        "a,b@shop.example",
        "<a@shop.example>",
        "a@shop.example\nBcc: b@c.de",
        "a@-b.de",
        "a" * 250 + "@b.de",
    ],
)
def test_what_is_no_address_is_refused(email):
    assert email_problem(email) is not None


def test_two_spellings_of_an_address_are_one_account():
    assert email_key(" Anna@Shop.EXAMPLE ") == email_key("anna@shop.example")
    assert email_key("\uff21\uff2e\uff2e\uff21@shop.example") == email_key("anna@shop.example")


@pytest.mark.parametrize("name", ["Anna", "Ğizem Ünder", "李小龍", "n" * 80])
def test_a_name_is_taken(name):
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", "n" * 81, "Anna\x00", "Anna\u202e"])
def test_what_is_no_name_is_refused(name):
    assert name_problem(name) is not None


@pytest.mark.parametrize(
    ("idle_min", "age_min", "is_open"),
    [(0, 0, True), (29, 29, True), (30, 30, False), (1, 719, True), (1, 720, False)],
)
def test_a_session_ends_after_half_an_hour_without_use_and_after_twelve_hours(idle_min, age_min, is_open):
    session = Session(
        session_id="ses_1",
        user_id="usr_1",
        address="",
        user_agent="",
        created_at=NOW - timedelta(minutes=age_min),
        last_seen_at=NOW - timedelta(minutes=idle_min),
    )
    assert session.is_open(NOW) is is_open
