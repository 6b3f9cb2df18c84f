"""The simulated wallet in the browser: deciding payments, showing codes to a till, reading QR codes."""

import html
import re
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from deployment import fetch_all
from payaccept.domain import identifiers
from payaccept.operations.simulated_customer import DECLINES
from payaccept.portal import visitors
from payaccept.portal.qr import qr_svg
from shopping import Shop
from visitor import Seen, Visitor


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(api, register) -> Shop:
    return Shop(api, await register("Corner shop"))


@pytest.fixture
def customer(portal) -> Visitor:
    return portal.visitor()


def code_on(page: Seen) -> str:
    [code] = re.findall(r'data-copy="(\d+)"', page.html)
    return code


# Deciding


async def test_the_customers_page_has_a_clearly_marked_simulated_wallet(shop, customer):
    page = await customer.get(f"/q/{await shop.order()}")
    assert "Simulated wallet" in page.text
    assert "Sandbox. A trial: nothing here moves real money." in page.text
    assert "Approve €19.99" in page.text
    assert re.findall(r'<option value="(\w+)">', page.html) == list(DECLINES)


async def test_approving_pays_as_the_command_line_does(settings, shop, customer):
    payment_id = await shop.link(paymentNotifyUrl="http://127.0.0.1:9/hook")
    page = await customer.fill(f"/pay/{payment_id}", f"/wallet/{payment_id}/approve")
    assert page.path == f"/pay/{payment_id}"
    assert "Corner shop has your payment." in page.text
    stands = await shop.stands(payment_id)
    assert stands["paymentStatus"] == "SUCCESS"
    events = "SELECT event_type FROM events WHERE payment_id = %s"
    assert fetch_all(settings.database_url, events, payment_id) == [("payment.succeeded",)]
    due = "SELECT count(*) FROM deliveries JOIN events USING (bucket, event_id) WHERE payment_id = %s"
    assert fetch_all(settings.database_url, due, payment_id) == [(1,)]


@pytest.mark.parametrize("reason", DECLINES)
async def test_declining_fails_the_payment_for_the_chosen_reason(shop, customer, reason):
    payment_id = await shop.order()
    page = await customer.fill(f"/q/{payment_id}", f"/wallet/{payment_id}/decline", reason=reason)
    assert page.title.startswith("Not paid:")
    stands = await shop.stands(payment_id)
    assert stands["paymentStatus"] == "FAIL"
    assert stands["failureCode"] == reason


@pytest.mark.parametrize("reason", ["", "SUCCESS", "ORDER_EXPIRED", "no reason", "user_rejected", "x" * 1000])
async def test_what_is_no_reason_is_told_beside_the_field_and_changes_nothing(shop, customer, reason):
    payment_id = await shop.order()
    page = await customer.fill(f"/q/{payment_id}", f"/wallet/{payment_id}/decline", reason=reason)
    assert page.status == 422
    assert "Choose one of the reasons." in page.text
    assert 'aria-invalid="true" aria-describedby="reason-error"' in page.html
    assert (await shop.stands(payment_id))["paymentStatus"] == "PROCESSING"


async def test_what_is_left_waits_or_decides_by_itself_as_the_script_says(shop, customer):
    waiting = await customer.get(f"/q/{await shop.order()}")
    assert "Or leave it: it waits for you until" in waiting.text
    script = {"outcome": "FAIL", "delayMs": 60_000}
    scripted = await customer.get(f"/q/{await shop.order(sandbox=script)}")
    assert "Or leave it: it decides by itself," in scripted.text


async def test_a_decision_that_comes_too_late_changes_nothing_and_says_so(shop, customer):
    payment_id = await shop.order()
    page = await customer.get(f"/q/{payment_id}")
    await customer.send(page, f"/wallet/{payment_id}/approve")
    again = await customer.send(page, f"/wallet/{payment_id}/decline", reason="USER_REJECTED")
    assert "It had been decided before: what is final never changes." in again.text
    assert again.title.startswith("Paid:")
    assert (await shop.stands(payment_id))["paymentStatus"] == "SUCCESS"


async def test_an_expired_payment_takes_no_decision(open_portal, shop):
    later = await open_portal(web_base_url="http://portal.test")
    customer = later.visitor()
    payment_id = await shop.order()
    page = await customer.get(f"/q/{payment_id}")
    later.clock.move(minutes=16)
    late = await customer.send(page, f"/wallet/{payment_id}/approve")
    assert "The time to pay has run out." in late.text
    assert (await shop.stands(payment_id))["paymentStatus"] == "PROCESSING"


async def test_a_decision_about_no_payment_is_answered_like_its_page(shop, customer):
    page = await customer.get(f"/q/{await shop.order()}")
    token = page.forms[0].fields["csrf"]
    for path in ("approve", "decline"):
        sent = await customer.post(
            f"/wallet/pay_{'0' * 36}/{path}", {"csrf": token, "reason": "USER_REJECTED"}
        )
        assert sent.status == 404
        assert "There is no payment at this address." in sent.text


@pytest.mark.parametrize("decision", ["approve", "decline"])
async def test_a_decision_needs_the_token_of_the_page_and_comes_from_it(portal, shop, customer, decision):
    payment_id = await shop.order()
    where = f"/wallet/{payment_id}/{decision}"
    page = await customer.get(f"/q/{payment_id}")
    fields = page.form(where).fields | {"reason": "USER_REJECTED"}
    refused = [
        await customer.post(where, fields | {"csrf": ""}),
        await customer.post(where, fields, origin="https://evil.example"),
        await customer.post(where, fields, **{"Sec-Fetch-Site": "cross-site"}),
        await portal.visitor().post(where, fields),
    ]
    assert [answer.status for answer in refused] == [403, 403, 403, 403]
    assert (await shop.stands(payment_id))["paymentStatus"] == "PROCESSING"
    assert (await customer.post(where, fields, follow=False)).status == 303


async def test_the_page_with_forms_lets_browsers_say_that_they_come_from_it(shop, customer):
    """Under `no-referrer` alone, a browser without Sec-Fetch-Site would send `Origin: null`."""
    page = await customer.get(f"/q/{await shop.order()}")
    assert '<meta name="referrer" content="same-origin">' in page.html


# A code for the till


async def test_the_wallet_shows_a_fresh_code_as_digits_and_as_qr(customer):
    page = await customer.get("/wallet")
    code = code_on(page)
    assert re.fullmatch(r"286\d{15}", code)
    assert qr_svg(code) in page.html
    groups = "".join(f"<span>{code[at : at + 4]}</span>" for at in range(0, 18, 4))
    assert groups in page.html
    assert 'data-code-life="60"' in page.html
    assert "New code" in page.text
    assert page.response.headers["cache-control"] == "no-store"
    assert code_on(await customer.get("/wallet")) != code


async def test_the_code_pays_once_at_the_till_and_the_page_opens_the_payment(shop, customer):
    page = await customer.get("/wallet")
    code = code_on(page)
    [used] = re.findall(r'data-used="([^"]+)"', page.html)
    assert (await customer.get(html.unescape(used))).response.json() == {"opens": None}
    answer = await shop.charge(code)
    assert answer["result"]["resultStatus"] == "S"
    opens = (await customer.get(html.unescape(used))).response.json()["opens"]
    assert opens == f"/pay/{answer['paymentId']}"
    assert "Corner shop has your payment." in (await customer.get(opens)).text
    again = await shop.charge(code)
    assert again["result"]["resultCode"] == "AUTH_CODE_ALREADY_USED"


async def test_a_payment_at_a_till_that_waits_for_the_customer_is_confirmed_on_its_page(shop, customer):
    code = code_on(await customer.get("/wallet"))
    answer = await shop.charge(code, sandbox={"outcome": "MANUAL"})
    assert answer["result"]["resultStatus"] == "A"
    payment_id = answer["paymentId"]
    page = await customer.get(f"/pay/{payment_id}")
    assert "Confirm this payment in your wallet app." in page.text
    paid = await customer.send(page, f"/wallet/{payment_id}/approve")
    assert "Corner shop has your payment." in paid.text
    assert (await shop.stands(payment_id))["paymentStatus"] == "SUCCESS"


@pytest.mark.parametrize("sealed", ["x", "gAAAAA", "a" * 300])
async def test_what_was_not_sealed_here_follows_no_code(customer, sealed):
    assert (await customer.get(f"/wallet/codes/{sealed}")).response.json() == {"opens": None}


async def test_a_code_is_in_no_address_and_so_in_no_log(customer):
    page = await customer.get("/wallet")
    code = code_on(page)
    assert all(
        code not in html.unescape(link) for link in re.findall(r'(?:href|data-used)="([^"]*)"', page.html)
    )


async def test_codes_are_not_made_without_end(portal):
    greedy = portal.visitor("203.0.113.20")
    statuses = {(await greedy.get("/wallet")).status for _ in range(visitors.BUDGET // visitors.MADE)}
    assert statuses == {200}
    assert (await greedy.get("/wallet")).status == 429


# Reading a QR code


async def test_the_text_of_a_qr_code_and_every_other_name_of_a_payment_opens_it(shop, customer):
    payment_id = await shop.order()
    for text in (
        f"https://127.0.0.1:8081/q/{payment_id}",
        f"  http://127.0.0.1:8081/pay/{payment_id}/ ",
        payment_id,
        identifiers.acquirement_of(payment_id),
    ):
        page = await customer.get("/wallet/scan?" + urlencode({"code": text}))
        assert page.path == f"/pay/{payment_id}"
        assert page.status == 200


@pytest.mark.parametrize("text", ["", "   ", "https://shop.example/", "pay_1", "<script>", "x" * 3000])
async def test_what_is_no_payment_is_told_beside_the_field_and_stays_typed(customer, text):
    response = await customer.client.get("/wallet/scan", params={"code": text})
    page = Seen(response)
    assert page.status == 422
    assert 'aria-invalid="true"' in page.html
    assert "code-error" in page.ids
    assert page.form("/wallet/scan").fields["code"] == text


async def test_the_page_to_scan_is_there_before_anything_is_typed(customer):
    page = await customer.get("/wallet/scan")
    assert page.status == 200
    assert "code-error" not in page.ids
