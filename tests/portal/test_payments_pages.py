"""The pages of payments: found by any id, listed as they are looked for, each with its story; and nobody else's."""

import asyncio
import html
import json
import re
import subprocess
import time
from urllib.parse import urlencode

import psycopg
import pytest

from deployment import running_worker
from endpoints import OK, Endpoint, answering
from merchant import Merchant, compact, request_of
from payaccept.domain import identifiers
from payaccept.domain.user import Role
from payaccept.operations.events import Operator
from payaccept.operations.payment_lists import LOOKED_AT, PER_PAGE
from payaccept.operations.payment_story import ATTEMPTS_TOLD, Attempted
from payment_rows import insert_payments
from shops import record, refused, shop_of
from visitor import Visitor

CODE = "286012020262467128"


def page_of(owner, payment_id: str) -> str:
    return f"{owner.home}/payments/{payment_id}"


def payments_in(seen) -> list[str]:
    found = [link.rpartition("/")[2] for link in seen.links if "/payments/pay_" in link]
    return list(dict.fromkeys(found))


async def made(shop: Merchant, api, operation: str = "retailPay", **changes) -> str:
    """Make a payment; returns its id."""
    answer = (await shop.create(api, operation, **changes)).json()
    return answer.get("paymentId") or "pay_" + answer["acquirementId"][4:]


async def story_of(owner, payment_id: str, visitor: Visitor | None = None):
    return await (visitor or await owner.browser()).get(page_of(owner, payment_id))


async def until_final(portal, payment_id: str) -> None:
    async with asyncio.timeout(20):
        while (await portal.services.payment_stories.get(Operator(), payment_id)).is_moving:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def in_order(seen, *parts: str) -> None:
    places = [seen.text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


# A payment's story


async def test_a_payment_is_listed_and_its_story_told(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    request = request_of("retailPay", paymentRequestId="order-1")
    request["order"] = {"merchant": {"store": {"externalStoreId": "till-7"}}}
    answer = (await shop.send(api, "retailPay", request)).json()
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/payments")
    for told in ("€19.99", "SUCCESS", "retailPay", "order-1", "till-7"):
        assert told in seen.text
    assert payments_in(seen) == [answer["paymentId"]]
    seen = await story_of(owner, answer["paymentId"], visitor)
    in_order(
        seen,
        "The request came",
        "It was checked",
        "The wallet was asked",
        "The payment became",
        "We answered 200 SUCCESS",
        "tells of it",
    )
    assert "It passed all 6: here they are made again" in seen.text
    assert "signed with keyVersion 1" in seen.text
    assert f"{shop.client_id}." in seen.text
    assert json.dumps(answer, separators=(",", ":")) in seen.response.text.replace("&#34;", '"')
    assert "It was not sent" in seen.text
    assert len(seen.response.content) < 60 * 1024


async def test_every_attempt_is_told_with_what_was_answered_but_not_its_text(portal, settings, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    answers = iter([b"HTTP/1.1 500 Oh\r\nContent-Length: 12\r\n\r\nour database", OK])

    async def behave(talk) -> None:
        await talk.hear()
        await talk.say(next(answers))

    async with Endpoint(behave) as endpoint, running_worker(settings):
        payment_id = await made(shop, api, "createQROrder", paymentNotifyUrl=endpoint.url("/hook?a=1"))
        await until_final(portal, payment_id)
    seen = await story_of(owner, payment_id)
    in_order(
        seen,
        "The request came",
        "It was checked",
        "We answered 200 ACCEPTED",
        "It waits for its customer",
        "The payment became",
        "Event 1",
        "Delivery attempt 1",
        "Delivery attempt 2",
    )
    assert "HTTP 500" in seen.text
    assert "12 bytes answered" in seen.text
    assert "Connect" in seen.text
    assert "our database" not in seen.html
    assert endpoint.url("/hook?a=1") in seen.text
    assert f"{owner.home}/webhooks/evt_" in seen.html
    assert "data-live" not in seen.html
    told = await portal.services.payment_stories.get(Operator(), payment_id)
    assert [step.made.answer for step in told.steps if isinstance(step, Attempted)] == [
        b"our database",
        b"{}",
    ]


async def test_what_is_still_to_come_is_told_and_the_page_looks_again(portal, settings, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api, "linkPayCreate", sandbox={"outcome": "FAIL", "delayMs": 600000})
    seen = await story_of(owner, payment_id)
    in_order(
        seen,
        "We answered 200 ACCEPTED",
        "Its script lets it fail with PROCESS_FAIL, 10 min after it came.",
        "Next: we ask the wallet how it stands",
        "Next: it expires, if nobody pays",
    )
    assert 'data-live="2"' in seen.html
    assert f"/pay/{payment_id}" in seen.links


async def test_a_wallet_that_waits_for_its_customer_at_the_till(portal, settings, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    body = request_of("retailPay", sandbox={"outcome": "MANUAL", "webhook": ["duplicate", "late"]})
    payment_id = (await shop.send(api, "retailPay", body)).json()["paymentId"]
    seen = await story_of(owner, payment_id)
    in_order(seen, "The wallet was asked", "We answered 200 ACCEPTED", "Next: it expires")
    assert "waits for somebody to approve or decline it" in seen.text
    assert "Its webhook is to be duplicate, late." in seen.text


async def test_a_wallet_that_did_not_say_in_time(portal, settings, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    script = {"outcome": "UNKNOWN", "resultCode": "RISK_REJECT", "delayMs": 100}
    body = request_of("retailPay", sandbox=script)
    assert (await shop.send(api, "retailPay", body)).status_code == 503
    visitor = await owner.browser()
    [payment_id] = payments_in(await visitor.get(f"{owner.home}/payments"))
    seen = await story_of(owner, payment_id, visitor)
    assert "No answer yet" in seen.text
    async with running_worker(settings):
        await until_final(portal, payment_id)
    seen = await story_of(owner, payment_id, visitor)
    in_order(seen, "We answered 503 SYSTEM_BUSY", "The payment became", "tells of it")
    assert "has failed with RISK_REJECT" in seen.text


async def test_the_customers_code_is_nowhere(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    body = request_of("retailPay", paymentAuthCode=CODE, extendInfo=json.dumps({"note": CODE}))
    text = json.dumps(body).replace(CODE, CODE.replace("2", "\\u0032", 1), 1).encode()
    assert (await shop.send(api, "retailPay", text)).json()["result"]["resultCode"] == "SUCCESS"
    visitor = await owner.browser()
    [payment_id] = payments_in(await visitor.get(f"{owner.home}/payments"))
    seen = await story_of(owner, payment_id, visitor)
    assert CODE not in seen.html
    assert CODE[1:] not in seen.html
    assert "*" * len(CODE) in seen.html
    assert "code is masked. Put a new one" in seen.text
    assert "It passed all 6" in seen.text


async def test_a_payment_of_before_signatures_were_kept_says_so(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(
            "UPDATE payments SET request_time = NULL, key_version = NULL, signature = NULL WHERE payment_id = %s",
            [payment_id],
        )
    seen = await story_of(owner, payment_id)
    assert "Request-Time and Signature of payments this old were not kept" in seen.text
    assert "was not kept of payments this old" in seen.text
    assert "What was signed" not in seen.text


async def test_an_answer_that_this_version_would_not_write_is_shown_all_the_same(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute("UPDATE payments SET answer = 'of old' WHERE payment_id = %s", [payment_id])
    seen = await story_of(owner, payment_id)
    assert seen.status == 200
    in_order(seen, "We answered", "of old")


async def test_the_checks_are_made_with_the_keys_as_they_were(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    other = await shop_of(portal, owner)
    await portal.services.merchants.retire_key(owner.client_id, 1, portal.clock())
    seen = await story_of(owner, payment_id)
    assert "It passed all 6: here they are made again" in seen.text
    assert f"keyVersion={other.key_version}, signature=$SIGNATURE" in seen.text


async def test_a_body_that_is_gone_and_many_attempts_are_told(portal, settings, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    async with Endpoint(answering(OK)) as endpoint, running_worker(settings):
        payment_id = await made(shop, api, paymentNotifyUrl=endpoint.url())
        await until_final(portal, payment_id)
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("DELETE FROM payloads")
        connection.execute(
            "INSERT INTO attempts SELECT bucket, event_id, attempt + n, client_id, url,"
            " started_at + n * interval '1 s', key_version, outcome, status, reason, resolve_us, connect_us,"
            " tls_us, first_byte_us, total_us, answer"
            " FROM attempts, generate_series(1, %s) AS n",
            [ATTEMPTS_TOLD + 4],
        )
    seen = await story_of(owner, payment_id)
    assert "Its body is not kept any more" in seen.text
    assert "5 attempts before the next one are on the event" in seen.text
    assert seen.text.count("Delivery attempt") == ATTEMPTS_TOLD
    assert len(seen.response.content) < 60 * 1024


async def test_the_largest_body_does_not_make_the_page_large(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api, note='"<&' * 15_000)
    seen = await story_of(owner, payment_id)
    assert len(seen.response.content) < 60 * 1024
    assert "Its body is too long for a command" in seen.text
    assert "Its first 4,096 characters" in seen.text


async def test_hostile_payments_are_shown_as_text(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    script = "<script>alert(1)</script>"
    payment_id = await made(
        shop,
        api,
        "linkPayCreate",
        paymentRequestId=f"{script}'",
        order={"orderDescription": script, "merchant": {"store": {"externalStoreId": script}}},
    )
    for path in (f"{owner.home}/payments", page_of(owner, payment_id), owner.home):
        seen = await (await owner.browser()).get(path)
        assert script not in seen.html
        assert script in seen.text


async def test_the_command_has_the_body_byte_for_byte(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    request_id = "2611210000001234"  # looks like an auth code
    body = (
        compact(
            request_of(
                "linkPayCreate",
                paymentRequestId=request_id,
                order={"orderDescription": "Anna's \\ $shoes `1` \u2602"},
            )
        )
        + b"\n"
    )
    answer = (await shop.send(api, "linkPayCreate", body)).json()
    seen = await story_of(owner, "pay_" + answer["acquirementId"][4:])
    [command] = re.findall(r'data-copy="(CLIENT=[^"]*)"', seen.html)
    assignments = html.unescape(command).partition("SIGNATURE=")[0]
    script = assignments + 'printf %s "$BODY"'
    done = await asyncio.to_thread(
        subprocess.run, ["sh", "-ec", script], capture_output=True, check=True, timeout=10
    )
    assert done.stdout == body


# Finding and listing


async def test_any_id_of_a_payment_leads_to_it(portal, settings, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api, "linkPayCreate", paymentRequestId="order/1?x=&y")
    async with running_worker(settings):
        await until_final(portal, payment_id)
    story = await portal.services.payment_stories.get(Operator(), payment_id)
    visitor = await owner.browser()
    for text in (
        payment_id,
        identifiers.acquirement_of(payment_id),
        "order/1?x=&y",
        f"  {story.event.event_id} ",
    ):
        seen = await visitor.get(f"{owner.home}/payments?{urlencode({'id': text})}", follow=False)
        assert seen.status == 303
        assert seen.response.headers["location"] == page_of(owner, payment_id)


async def test_other_ids_lead_to_where_they_belong(portal, clock):
    owner = await portal.owner()
    visitor = await owner.browser()
    request = refused(owner.client_id, 1, received_at=clock())
    await record(portal, [request])
    seen = await visitor.get(f"{owner.home}/payments?id={request.request_id}", follow=False)
    assert seen.response.headers["location"] == f"{owner.home}/requests/{request.request_id}"


@pytest.mark.parametrize("text", ["order-0", "pay_" + "0" * 36, "evt_" + "0" * 36, "x" * 200, "\N{UMBRELLA}"])
async def test_an_id_of_nothing_is_told_beside_its_field(portal, text):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/payments?id={text}")
    assert seen.status == 422
    assert 'aria-describedby="id-error id-hint"' in seen.html
    assert text[:128] in seen.html


async def test_the_list_goes_on_page_after_page_without_a_gap(portal):
    owner = await portal.owner()
    insert_payments(portal.settings.database_url, owner.client_id, 2 * PER_PAGE + 7, portal.clock())
    visitor = await owner.browser()
    found: list[str] = []
    path = f"{owner.home}/payments"
    for _ in range(4):
        seen = await visitor.get(path)
        assert len(seen.response.content) < 60 * 1024
        found += payments_in(seen)
        older = [link for link in seen.links if "before=" in link]
        if not older:
            break
        [path] = older
    assert len(found) == 2 * PER_PAGE + 7
    assert found == sorted(set(found), reverse=True)


async def test_what_is_looked_for_is_the_address_of_the_page(portal):
    owner = await portal.owner()
    insert_payments(portal.settings.database_url, owner.client_id, 400, portal.clock())
    visitor = await owner.browser()
    typed = {
        "state": "FAIL",
        "operation": "",
        "store": "",
        "currency": "kwd",
        "amount": "0,1 - 1,0",
        "until": "",
    }
    seen = await visitor.get(f"{owner.home}/payments?{urlencode(typed)}", follow=False)
    assert seen.status == 303
    canonical = seen.response.headers["location"]
    assert canonical == f"{owner.home}/payments?state=FAIL&currency=KWD&amount=0.100-1.000"
    seen = await visitor.get(canonical)
    assert seen.status == 200
    assert len(payments_in(seen)) == 8
    [form] = [form for form in seen.forms if "state" in form.fields]
    assert {name: form.fields[name] for name in ("state", "currency", "amount")} == {
        "state": "FAIL",
        "currency": "KWD",
        "amount": "0.100-1.000",
    }
    assert f"{owner.home}/payments?currency=KWD&amount=0.100-1.000" in seen.links


async def test_mistakes_stand_beside_their_fields_and_keep_what_was_typed(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    typed = {"amount": "12,345.678", "currency": "EUR", "from": "2026-13-01", "store": "till-7"}
    seen = await visitor.get(f"{owner.home}/payments?{urlencode(typed)}")
    assert seen.status == 422
    assert "EUR has 2 decimals" in seen.text
    assert "Write a day, 2026-03-01" in seen.text
    for typed in ("12,345.678", "2026-13-01", "till-7"):
        assert f'value="{typed}"' in seen.html
    assert 'id="amount-error"' in seen.html
    assert 'id="from-error"' in seen.html


async def test_a_rare_thing_is_looked_for_so_far_and_then_further(portal):
    owner = await portal.owner()
    insert_payments(portal.settings.database_url, owner.client_id, LOOKED_AT + 10, portal.clock())
    visitor = await owner.browser()
    started = time.perf_counter()
    seen = await visitor.get(f"{owner.home}/payments?store=nowhere")
    assert time.perf_counter() - started < 2
    assert f"{LOOKED_AT:,} payments were looked at, back to" in seen.text
    assert "None so far." in seen.text
    [further] = [link for link in seen.links if "before=" in link]
    seen = await visitor.get(further)
    assert "That is all." in seen.text
    assert "None so far" not in seen.text


async def test_without_a_payment_the_page_says_how_to_make_the_first(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/payments")
    assert "No payment yet" in seen.text
    assert "/docs" in seen.links
    seen = await visitor.get(f"{owner.home}/payments?state=FAIL")
    assert "No payment of yours is like this" in seen.text
    seen = await visitor.get(owner.home)
    assert "No payment yet" in seen.text


async def test_home_has_the_last_payments(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    ids = [await made(shop, api) for _ in range(6)]
    seen = await (await owner.browser()).get(owner.home)
    assert payments_in(seen) == ids[:0:-1]


async def test_amounts_are_written_as_the_reader_does(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    visitor = await owner.browser()
    for path in (f"{owner.home}/payments", page_of(owner, payment_id)):
        seen = await visitor.get(path, **{"accept-language": "de-DE,de;q=0.9"})
        assert "19,99\N{NO-BREAK SPACE}€" in seen.text


async def test_accepted_requests_lead_to_their_payments(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    seen = await (await owner.browser()).get(f"{owner.home}/requests?show=all")
    assert payments_in(seen) == [payment_id]


# Whose they are


async def test_another_merchants_payment_is_not_there(portal, api):
    owner, other = await portal.owner(), await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api, paymentRequestId="theirs")
    visitor = await other.browser()
    for path in (page_of(other, payment_id), page_of(owner, payment_id), f"{owner.home}/payments"):
        assert (await visitor.get(path)).status == 404
    for text in (payment_id, identifiers.acquirement_of(payment_id), "theirs"):
        assert (await visitor.get(f"{other.home}/payments?id={text}")).status == 422
    seen = await visitor.get(f"{other.home}/payments?before=pay_{'f' * 36}")
    assert payments_in(seen) == []


@pytest.mark.parametrize(
    "payment_id", ["pay_", "pay_" + "g" * 36, "x", "acq_" + "0" * 36, "pay_" + "0" * 36, "%00"]
)
async def test_what_is_no_payment_is_not_there(portal, payment_id):
    owner = await portal.owner()
    visitor = await owner.browser()
    assert (await visitor.get(page_of(owner, payment_id))).status == 404
    assert (await visitor.get(f"/payments/{payment_id}")).status == 404


async def test_viewers_see_payments(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    viewer = await (await portal.colleague(owner, Role.VIEWER)).browser()
    for path in (f"{owner.home}/payments", page_of(owner, payment_id)):
        assert (await viewer.get(path)).status == 200


async def test_the_link_for_support_leads_members_to_their_page_and_staff_to_theirs(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    link = f"/payments/{payment_id}"
    visitor = await owner.browser()
    seen = await visitor.get(page_of(owner, payment_id))
    assert f"http://portal.test{link}" in seen.text

    async def led_to(visitor: Visitor, path: str = link) -> str | None:
        seen = await visitor.get(path, follow=False)
        return seen.response.headers.get("location") if seen.status == 303 else None

    assert await led_to(visitor) == page_of(owner, payment_id)
    assert await led_to(visitor, link.replace("pay_", "acq_")) == page_of(owner, payment_id)
    assert await led_to(await (await portal.employee()).browser()) == f"/operator{link}"
    assert await led_to(portal.visitor()) == f"/sign-in?next={link}"
    stranger = await (await portal.owner()).browser()
    assert (await stranger.get(link)).status == 404


async def test_the_link_leads_a_member_of_the_staff_who_is_a_member_to_the_merchants_page(portal, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    payment_id = await made(shop, api)
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute("UPDATE users SET staff = true WHERE user_id = %s", [owner.user_id])
    seen = await (await owner.browser()).get(f"/payments/{payment_id}", follow=False)
    assert seen.response.headers["location"] == page_of(owner, payment_id)
