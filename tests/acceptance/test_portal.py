"""The portal as part of the sandbox, and the commands that bring people into it."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from payaccept.domain import totp
from processes import Sandbox, one_line, payaccept
from visitor import HtmlForm, Seen


@pytest.fixture
def told(sandbox: Sandbox) -> dict[str, str]:
    """What the demo merchant's file tells."""
    return json.loads((sandbox.data_dir / "demo-merchant.json").read_bytes())


@pytest.fixture
def client(told: dict[str, str]) -> Iterator[httpx.Client]:
    """Somebody's browser."""
    with httpx.Client(base_url=told["portalUrl"], follow_redirects=True, timeout=30) as opened:
        yield opened


def send(client: httpx.Client, path: str, **fields: str) -> Seen:
    """Fill in the form of a page that goes to the page's own address."""
    form: HtmlForm = Seen(client.get(path)).form(path)
    return Seen(client.post(path, data=form.fields | fields))


def test_the_demo_merchant_s_owner_signs_in_as_its_file_says(client, told):
    seen = send(client, "/sign-in", email=told["portalUser"], password=told["portalPassword"])
    assert seen.path == f"/m/{told['clientId']}"
    assert told["clientId"] in seen.text
    assert told["baseUrl"] in seen.text
    audit = Seen(client.get(f"{seen.path}/audit"))
    assert "Merchant created" in audit.text
    assert "Key added" in audit.text


def test_an_operator_comes_by_a_link_that_a_command_prints(sandbox, client, told):
    made = sandbox.cli("operator", "create", "--email", "olga@pay.example")
    assert made["email"] == "olga@pay.example"
    assert made["url"].startswith(told["portalUrl"] + "/invitation/")
    link = made["url"].removeprefix(told["portalUrl"])
    seen = send(client, link, name="Olga", password="seven green lamps hum")
    assert "Welcome to the staff of this service." in seen.text
    assert sandbox.cli("operator", "list") == [
        {"email": "olga@pay.example", "name": "Olga", "secondFactor": False}
    ]
    again = sandbox.cli("operator", "create", "--email", "OLGA@pay.example")
    assert again["email"] == "olga@pay.example"
    removed = payaccept("operator", "remove", "--email", "olga@pay.example", "--data-dir", sandbox.data_dir)
    assert removed.returncode == 0, removed.stderr
    assert sandbox.cli("operator", "list") == []


def test_who_has_lost_the_password_gets_a_link_from_a_command(sandbox, client, told):
    sandbox.cli("operator", "create", "--email", "lost@pay.example")
    made = sandbox.cli("operator", "create", "--email", "lost@pay.example")  # the newer link counts
    send(client, made["url"].removeprefix(told["portalUrl"]), name="Lost", password="seven green lamps hum")
    printed = payaccept(
        "operator", "password-link", "--email", "lost@pay.example", "--data-dir", sandbox.data_dir
    )
    [url] = re.findall(r"http://\S+/new-password/\S+", printed.stdout)
    client.cookies.clear()
    seen = send(client, url.removeprefix(told["portalUrl"]), password="eight blue lamps hum")
    assert "Your password is changed" in seen.text
    unknown = payaccept("operator", "password-link", "--email", "x@y.example", "--data-dir", sandbox.data_dir)
    assert unknown.returncode == 1
    assert "there is no account" in one_line(unknown.stderr)


def test_who_has_lost_the_phone_gets_in_again_by_a_command(sandbox, client, told):
    made = sandbox.cli("operator", "create", "--email", "phone@pay.example")
    password = "seven green lamps hum"
    send(client, made["url"].removeprefix(told["portalUrl"]), name="Phone", password=password)
    page = send(client, "/account/second-factor", current=password)
    form = page.form("/account/second-factor/on")
    [secret] = re.findall(r'data-copy="((?:[A-Z2-7]{4} ?){8})"', page.html)
    code = totp.code_at(secret.replace(" ", ""), datetime.now(UTC))
    client.post(form.action, data=form.fields | {"code": code})
    client.cookies.clear()
    assert send(client, "/sign-in", email="phone@pay.example", password=password).path == "/sign-in/code"
    off = ("operator", "second-factor-off", "--email", "phone@pay.example", "--data-dir", sandbox.data_dir)
    assert payaccept(*off).returncode == 0
    assert send(client, "/sign-in", email="phone@pay.example", password=password).path == "/operator"
    assert "is off already" in one_line(payaccept(*off).stderr)


def test_a_mistaken_address_is_refused_in_one_line(sandbox):
    done = payaccept("operator", "create", "--email", "nobody", "--data-dir", sandbox.data_dir)
    assert done.returncode == 1
    assert "not an e-mail address" in one_line(done.stderr)
