"""What the customers of a merchant see behind qrCode, redirectUrl and shortUrl."""

import html
import re
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

import pytest
import pytest_asyncio

from deployment import Parts, fetch_all, payment_id_of, running_worker, settings_for
from merchant import request_of
from payaccept.domain import identifiers
from payaccept.domain.merchant import Environment
from payaccept.portal import customers, visitors
from payaccept.portal.qr import qr_svg
from payaccept.wire.codes import PAYMENT_FAILURES
from payaccept.wiring import Administration, migrate
from processes import eventually
from shopping import ANDROID, BACK, IPHONE, Shop
from visitor import Visitor

UNKNOWN = "pay_" + "0" * 36


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(api, register) -> Shop:
    return Shop(api, await register("Corner <Shop> & Söhne"))


@pytest.fixture
def customer(portal) -> Visitor:
    return portal.visitor()


async def pay(customer: Visitor, payment_id: str) -> None:
    await customer.fill(f"/pay/{payment_id}", f"/wallet/{payment_id}/approve")


def links_in(page) -> set[str]:
    return {html.unescape(link) for link in re.findall(r'href="([^"]*)"', page.html)}


# Where they lead


async def test_the_addresses_that_the_api_answers_with_lead_to_the_payment(portal, shop, customer):
    order = (await shop.merchant.create(shop.api, "createQROrder")).json()
    link = (await shop.merchant.create(shop.api, "linkPayCreate")).json()
    links = [order["qrCode"], link["redirectUrl"]]
    links += [platform["shortUrl"] for platform in link["appLinks"].values()]
    for address in links:
        page = await customer.get(urlsplit(address).path)
        assert page.status == 200
        assert "Corner <Shop> & Söhne" in html.unescape(page.html)
    for platform in link["appLinks"].values():
        assert (await customer.get(platform["targetPath"])).status == 200


async def test_the_short_address_redirects_without_looking_anything_up(customer):
    page = await customer.get(f"/s/{UNKNOWN}", follow=False)
    assert page.status == 302
    assert page.response.headers["location"] == f"/pay/{UNKNOWN}"


# What they show


async def test_a_page_shows_the_merchants_name_the_description_and_the_amount_and_nothing_else_of_it(
    shop, customer
):
    request = request_of(
        "linkPayCreate",
        order={
            "orderDescription": "Two <b>coffees</b>",
            "orderMemo": "secret memo",
            "transactionAddress": "Berlin||Unter den Linden 1||10117||DE||Germany",
            "merchant": {"store": {"externalStoreId": "store-77"}},
        },
        paymentNotifyUrl="https://hooks.example/private",
        paymentRedirectUrl=BACK,
        sandbox={"outcome": "MANUAL"},
    )
    answer = (await shop.merchant.send(shop.api, "linkPayCreate", request)).json()
    payment_id = identifiers.payment_of(answer["acquirementId"])
    page = await customer.get(f"/pay/{payment_id}")
    assert "Corner &lt;Shop&gt; &amp; Söhne" in page.html
    assert "Two &lt;b&gt;coffees&lt;/b&gt;" in page.html
    assert "€19.99" in page.text
    for private in (
        request["paymentRequestId"],
        shop.merchant.client_id,
        "secret memo",
        "Unter den Linden",
        "store-77",
        "hooks.example",
        answer["acquirementId"],
    ):
        assert private not in page.html


@pytest.mark.parametrize(
    ("language", "currency", "value", "written"),
    [
        ("en-GB,en;q=0.9", "EUR", 1999, "€19.99"),
        ("de-DE,de;q=0.9,en;q=0.8", "EUR", 123456789, "1.234.567,89 €"),
        ("de-CH", "CHF", 123456, "CHF 1\u2019234.56"),
        ("en", "JPY", 123456, "¥123,456"),
        ("ja", "JPY", 500, "￥500"),
        ("en", "KWD", 1250, "KWD 1.250"),
        ("fr-FR", "KWD", 1234567, "1 234,567 KWD"),
        ("en", "ALL", 1999, "ALL 19.99"),
        ("", "USD", 5, "$0.05"),
        ("en-AU", "USD", 100, "USD 1.00"),
        ("tlh, x;q=2;;, de;q=no", "EUR", 999_999_999_999, "€9,999,999,999.99"),
    ],
)
async def test_the_amount_is_written_as_the_customer_writes_money(
    shop, customer, language, currency, value, written
):
    payment_id = await shop.order(paymentAmount={"currency": currency, "value": value})
    page = await customer.get(f"/q/{payment_id}", **{"Accept-Language": language})
    plain = re.sub(r"[\u00a0\u202f]", " ", page.text)
    assert written in plain


async def test_a_desktop_gets_the_qr_code_that_the_api_has_answered_with(portal, shop, customer):
    order = (await shop.merchant.create(shop.api, "createQROrder")).json()
    path = urlsplit(order["qrCode"]).path
    page = await customer.get(path)
    assert qr_svg(f"https://portal.test{path}") in page.html
    assert "Scan this with your wallet app" in page.text
    assert not [link for link in links_in(page) if link.startswith(("intent:", "org.payaccept"))]


async def test_an_android_phone_gets_the_link_that_opens_the_app(shop, customer):
    payment_id = await shop.link()
    page = await customer.get(f"/pay/{payment_id}", **{"User-Agent": ANDROID})
    [link] = [link for link in links_in(page) if link.startswith("intent:")]
    assert link.startswith(f"intent://portal.test/pay/{payment_id}#Intent;scheme=https;")
    assert ";package=org.payaccept.wallet;" in link
    [fallback] = re.findall(r"S\.browser_fallback_url=([^;]+);end$", link)
    assert unquote(fallback) == f"http://portal.test/pay/{payment_id}?app=missing"
    without = await customer.get(f"/pay/{payment_id}?app=missing", **{"User-Agent": ANDROID})
    assert re.search(r"<p class=\"hint\" data-no-app>", without.html)
    assert re.search(r"<p class=\"hint\" data-no-app hidden>", page.html)


async def test_an_iphone_gets_the_link_that_opens_the_app(shop, customer):
    payment_id = await shop.order()
    page = await customer.get(f"/q/{payment_id}", **{"User-Agent": IPHONE})
    assert f"org.payaccept.wallet://pay/{payment_id}" in links_in(page)
    assert "Pay with another phone" in page.text


# How they follow the payment


async def test_without_javascript_an_open_payment_is_loaded_again_and_again(shop, customer):
    payment_id = await shop.link()
    page = await customer.get(f"/pay/{payment_id}")
    again = re.findall(
        r'<noscript><meta http-equiv="refresh" content="\d+; url=([^"]*)"></noscript>', page.html
    )
    assert again == [f"/pay/{payment_id}"]
    assert "Check again" in page.text
    await pay(customer, payment_id)
    assert f"url=/pay/{payment_id}" not in (await customer.get(f"/pay/{payment_id}")).html


async def test_the_status_tells_how_the_payment_stands_and_nothing_else(shop, customer):
    payment_id = await shop.link()
    open_ = await customer.get(f"/pay/{payment_id}/status")
    assert open_.response.json() == {"state": "PROCESSING"}
    await pay(customer, payment_id)
    paid = await customer.get(f"/pay/{payment_id}/status")
    assert paid.response.json() == {"state": "SUCCESS"}
    assert paid.response.headers["cache-control"] == "no-store"


async def test_a_payment_that_completes_by_itself_shows_that(settings, shop, customer):
    payment_id = await shop.order(sandbox=None)
    async with running_worker(settings):
        for _ in range(200):
            answer = await customer.get(f"/pay/{payment_id}/status")
            if answer.response.json()["state"] == "SUCCESS":
                break
    page = await customer.get(f"/q/{payment_id}")
    assert "Thank you" in page.text
    assert page.title.startswith("Paid: €19.99 to Corner")


# How they end


async def test_the_way_back_is_the_merchants_url_exactly_and_only_once_the_payment_is_final(shop, customer):
    payment_id = await shop.link()
    before = await customer.get(f"/pay/{payment_id}")
    assert "shop.example" not in before.html
    await pay(customer, payment_id)
    after = await customer.get(f"/pay/{payment_id}")
    assert BACK in links_in(after)
    [continued] = re.findall(
        r'<noscript><meta http-equiv="refresh" content="([^"]*)"></noscript>', after.html
    )
    assert html.unescape(continued) == f"5; url={BACK}"
    assert re.search(r'rel="noreferrer" data-continue-after="5"', after.html)


async def test_a_customer_can_stay_and_is_then_not_sent_back(shop, customer):
    payment_id = await shop.link()
    await pay(customer, payment_id)
    page = await customer.get(f"/pay/{payment_id}?stay")
    assert "http-equiv" not in page.html
    assert "data-continue-after" not in page.html
    assert BACK in links_in(page)


async def test_long_after_its_end_a_payment_is_only_looked_up(open_portal, shop):
    later = await open_portal(web_base_url="http://portal.test")
    customer = later.visitor()
    payment_id = await shop.link()
    await pay(customer, payment_id)
    assert "data-continue-after" in (await customer.get(f"/pay/{payment_id}")).html
    later.clock.move(minutes=16)
    page = await customer.get(f"/pay/{payment_id}")
    assert "data-continue-after" not in page.html
    assert BACK in links_in(page)


async def test_a_paid_order_without_a_way_back_can_be_closed(shop, customer):
    payment_id = await shop.order()
    await pay(customer, payment_id)
    page = await customer.get(f"/q/{payment_id}")
    assert "You can close this page." in page.text
    assert payment_id in page.text


@pytest.mark.parametrize("code", sorted(PAYMENT_FAILURES))
async def test_every_failure_has_one_clear_sentence(settings, shop, customer, code):
    payment_id = await shop.link(sandbox={"outcome": "FAIL", "resultCode": code, "delayMs": 0})
    async with running_worker(settings):
        await eventually(
            lambda: fetch_all(
                settings.database_url,
                "SELECT 1 FROM payments WHERE payment_id = %s AND failure_code IS NOT NULL",
                payment_id,
            ),
            "the payment fails",
        )
    page = await customer.get(f"/pay/{payment_id}")
    expired = code in {"ORDER_EXPIRED", "QR_EXPIRED"}
    assert page.title.startswith("Not paid in time:" if expired else "Not paid:")
    [lead] = re.findall(r'<p class="lead">(.*?)</p>', page.html)
    assert lead.endswith("Nothing was charged.")
    assert lead.count(".") == 2
    assert BACK in links_in(page)
    assert code not in page.text  # that is for merchants


async def test_what_a_code_means_is_not_said_with_the_same_words_twice():
    assert len(set(customers.REASONS.values())) == len(customers.REASONS)


async def test_a_payment_past_its_deadline_is_expired_even_before_the_worker_says_so(open_portal, shop):
    later = await open_portal(web_base_url="http://portal.test")
    customer = later.visitor()
    payment_id = await shop.link()
    later.clock.move(minutes=14)
    assert "Waiting for you to pay" in (await customer.get(f"/pay/{payment_id}")).text
    later.clock.move(minutes=2)
    page = await customer.get(f"/pay/{payment_id}")
    assert "The time to pay has run out. Nothing was charged." in page.text
    assert "Simulated wallet" not in page.text
    assert 'data-state="PROCESSING"' in page.html  # it goes on asking: the wallet has the last word
    assert BACK not in links_in(page)
    assert (await shop.stands(payment_id))["paymentStatus"] == "PROCESSING"


@pytest.mark.parametrize(
    "unknown",
    [
        UNKNOWN,
        "pay_",
        "nonsense",
        "acq_" + "0" * 36,
        "PAY_" + "0" * 36,
        UNKNOWN + "0",
        "pay_" + "g" * 36,
    ],
)
async def test_an_id_that_no_payment_has_is_answered_in_plain_words(customer, unknown):
    for path in (f"/q/{unknown}", f"/pay/{unknown}"):
        page = await customer.get(path)
        assert page.status == 404
        assert "There is no payment at this address." in page.text
    status = await customer.get(f"/pay/{unknown}/status")
    assert status.status == 404


async def test_an_acquirement_id_opens_nothing(shop, customer):
    payment_id = await shop.order()
    assert (await customer.get(f"/q/{identifiers.acquirement_of(payment_id)}")).status == 404


# What surrounds them


async def test_pages_are_not_indexed_tell_no_referrer_and_are_not_kept(shop, customer):
    payment_id = await shop.link()
    for path in (f"/q/{payment_id}", f"/s/{payment_id}", f"/pay/{payment_id}/status", f"/q/{UNKNOWN}"):
        headers = (await customer.get(path, follow=False)).response.headers
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-robots-tag"] == "noindex, nofollow"
        assert headers["cache-control"] == "no-store"
    await pay(customer, payment_id)
    assert '<meta name="referrer"' not in (await customer.get(f"/pay/{payment_id}")).html


async def test_pages_stay_small_and_load_only_what_is_ours(shop, customer):
    payment_id = await shop.link()
    page = await customer.get(f"/pay/{payment_id}")
    assert len(page.response.content) < 20 * 1024
    loaded = re.findall(r'(?:src|<link[^>]*href)="([^"]+)"', page.html)
    assert loaded
    assert all(address.startswith("/static/") for address in loaded)
    assert not re.search(r"<script(?! src)|<style| style=| on\w+=", page.html)


async def test_a_customer_gets_no_cookie_but_the_sandboxs_form_needs_one(shop, customer):
    payment_id = await shop.link()
    await customer.get(f"/pay/{payment_id}")
    assert set(customer.cookies) == {"form"}


async def test_an_address_that_guesses_ids_is_made_to_wait(portal, shop):
    guesser = portal.visitor("203.0.113.9")
    payment_id = await shop.order()
    statuses = [(await guesser.get(f"/q/pay_{number:036x}")).status for number in range(101)]
    assert statuses[:100] == [404] * 100
    assert statuses[100] == 429
    refused = await guesser.get(f"/q/{payment_id}")
    assert refused.status == 429
    assert int(refused.response.headers["retry-after"]) <= 60
    assert (await portal.visitor("203.0.113.10").get(f"/q/{payment_id}")).status == 200
    portal.clock.move(seconds=61)
    assert (await guesser.get(f"/q/{payment_id}")).status == 200


def test_one_visitor_has_a_whole_ipv6_network():
    assert visitors.BUDGET // (visitors.PAGE + visitors.MISSED) == 100
    assert visitors._network_of("2001:db8:1:2:3:4:5:6") == visitors._network_of("2001:db8:1:2::9")
    assert visitors._network_of("2001:db8:1:2::1") != visitors._network_of("2001:db8:1:3::1")
    assert visitors._network_of("::ffff:192.0.2.1") != visitors._network_of("::ffff:192.0.2.2")


# Production


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def production(open_portal, empty_database, master_key_file):
    settings = settings_for(empty_database(), master_key_file, environment=Environment.PRODUCTION)
    await migrate(settings)
    return await open_portal(
        database_url=settings.database_url,
        environment=Environment.PRODUCTION,
        web_base_url="https://portal.test",
    )


async def made_in_production(production, operation: str) -> str:
    """A payment, made by the operations alone: this version's API refuses to run in production."""
    async with Administration(production.settings) as administration, Parts(production.settings) as parts:
        now = datetime.now(UTC)
        merchant = await administration.merchants.create("Grand Hotel", now)
        answer = await parts.create(merchant, operation, now)
    payment_id = identifiers.payment_of(payment_id_of(answer))
    assert payment_id is not None
    return payment_id


async def test_in_production_there_is_no_simulated_wallet(production):
    payment_id = await made_in_production(production, "linkPayCreate")
    customer = production.visitor(base="https://portal.test")
    page = await customer.get(f"/pay/{payment_id}")
    assert page.status == 200
    assert "Grand Hotel" in page.text
    assert "imulated" not in page.html
    assert "andbox" not in page.html
    assert page.forms == []
    assert customer.cookies == {}
    for path in ("/wallet", "/wallet/scan", "/wallet/codes/x"):
        assert (await customer.get(path)).status == 404
    token = (await customer.get("/sign-in")).forms[0].fields["csrf"]
    for decision in ("approve", "decline"):
        sent = await customer.post(
            f"/wallet/{payment_id}/{decision}",
            {"csrf": token, "reason": "USER_REJECTED"},
            origin="https://portal.test",
        )
        assert sent.status == 404
    assert (await customer.get(f"/pay/{payment_id}/status")).response.json() == {"state": "PROCESSING"}


async def test_in_production_a_payment_at_a_till_has_no_page(production):
    payment_id = await made_in_production(production, "retailPay")
    assert (await production.visitor(base="https://portal.test").get(f"/q/{payment_id}")).status == 404
