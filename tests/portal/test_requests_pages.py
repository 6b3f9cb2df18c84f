"""The pages of requests: what was refused and why, what was accepted, and a clock that is off."""

import re
from datetime import timedelta

import pytest

from deployment import recorder_of
from draft import Draft
from merchant import at_now, compact, request_of
from payaccept.domain.remedies import REFUSING, remedy_of
from payaccept.domain.user import Role
from payaccept.operations.requests import PER_PAGE
from shops import record, refused, shop_of

CODE = "286012020262467128"


async def test_a_refused_request_is_there_with_its_rule_and_how_to_mend_it(portal, kernel):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    body = compact(request_of("createQROrder"))
    answer = await Draft(shop, body=body, signed_body=body + b"\n").send(kernel)
    await kernel._refusals.flush()
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/requests")
    assert "INVALID_SIGNATURE" in seen.text
    assert "trailing-newline" in seen.text
    [path] = [link for link in seen.links if "/requests/req_" in link]
    assert path.endswith(answer.header("request-id"))
    seen = await visitor.get(path)
    assert "signed a line break after the body" in seen.text
    assert f"{shop.client_id}." in seen.html
    assert body.decode() in seen.response.text.replace("&#34;", '"')
    assert "192.0.2.7" in seen.text
    assert "What has to be signed" in seen.text


@pytest.mark.parametrize("code", REFUSING)
async def test_every_kind_of_refusal_has_its_page(portal, clock, code):
    owner = await portal.owner()
    status = code.meaning.http
    request = refused(
        owner.client_id, 1, received_at=clock(), result_code=str(code), status=status, message="It is so."
    )
    await record(portal, [request])
    seen = await (await owner.browser()).get(f"{owner.home}/requests/{request.request_id}")
    assert seen.status == 200
    assert remedy_of(code).title in seen.text
    assert remedy_of(code).mend.split(".")[0] in seen.text
    assert "It is so." in seen.text


async def test_accepted_requests_stand_among_the_refused_in_the_order_of_time(portal, kernel, api):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    await Draft(shop, body=b"{").send(kernel)
    answer = await shop.create(api, "createQROrder")
    await Draft(shop, body=b"[").send(kernel)
    await kernel._refusals.flush()
    visitor = await owner.browser()
    assert answer.json()["paymentId"] not in (await visitor.get(f"{owner.home}/requests")).text
    seen = await visitor.get(f"{owner.home}/requests?show=all")
    order = [word for word in seen.text.split() if word in {"Accepted", "PARAM_ILLEGAL"}]
    assert order == ["PARAM_ILLEGAL", "Accepted", "PARAM_ILLEGAL"]
    assert answer.json()["paymentId"] in seen.text
    assert "keyVersion 1 · clock" in seen.text


async def test_the_list_goes_on_page_after_page_without_a_gap(portal, clock):
    owner = await portal.owner()
    count = 2 * PER_PAGE + 7
    await record(portal, [refused(owner.client_id, n, received_at=clock()) for n in range(count)])
    visitor = await owner.browser()
    found: list[str] = []
    path = f"{owner.home}/requests"
    for _ in range(4):
        seen = await visitor.get(path)
        found += [link.rpartition("/")[2] for link in seen.links if "/requests/req_" in link]
        older = [link for link in seen.links if "before=" in link]
        if not older:
            break
        path = older[0]
    assert found == [f"req_{n:028x}" for n in reversed(range(count))]


async def test_the_list_can_be_of_one_code_only(portal, clock):
    owner = await portal.owner()
    at = clock()
    await record(
        portal,
        [
            refused(owner.client_id, 1, received_at=at),
            refused(owner.client_id, 2, received_at=at, result_code="NOT_FOUND", status=404),
        ],
    )
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/requests?code=NOT_FOUND")
    assert [link for link in seen.links if "/requests/req_" in link] == [
        f"{owner.home}/requests/req_{2:028x}"
    ]
    assert "?code=PARAM_ILLEGAL" in seen.html
    everything = await visitor.get(f"{owner.home}/requests?code=NONSENSE")
    assert len([link for link in everything.links if "/requests/req_" in link]) == 2


async def test_what_was_only_counted_is_told(portal, clock):
    owner = await portal.owner()
    recorder = recorder_of(portal.settings.database_url, lambda _: True)
    for number in range(200):
        recorder.refused(refused(owner.client_id, number, received_at=clock()))
    await recorder.close()
    seen = await (await owner.browser()).get(f"{owner.home}/requests")
    assert "Of 190 in the last day only the number is known" in seen.text
    assert " 200 " in seen.text


@pytest.mark.parametrize(("skew_s", "warned"), [(119.9, False), (120, True), (-120, True), (-119.9, False)])
async def test_a_clock_is_warned_of_from_two_minutes_on(portal, clock, skew_s, warned):
    owner = await portal.owner()
    await shop_of(portal, owner)
    recorder = recorder_of(portal.settings.database_url)
    recorder.used(owner.client_id, 1, clock(), timedelta(seconds=0.1))
    recorder.used(owner.client_id, 1, clock(), timedelta(seconds=skew_s))
    await recorder.close()
    seen = await (await owner.browser()).get(f"{owner.home}/requests")
    assert ("A clock of yours is 120 seconds" in seen.text) == warned
    if warned:
        assert ("ahead" if skew_s > 0 else "behind") in seen.text
    clock.move(hours=2)
    seen = await (await owner.browser()).get(f"{owner.home}/requests")
    assert "A clock of yours" not in seen.text


async def test_an_auth_code_is_masked_and_the_page_says_so(portal, kernel):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    body = compact(request_of("retailPay", paymentAuthCode=CODE, paymentAmount=None))
    answer = await Draft(shop, path="/v1/payments/retailPay", body=body).send(kernel)
    await kernel._refusals.flush()
    seen = await (await owner.browser()).get(f"{owner.home}/requests/{answer.header('request-id')}")
    assert CODE not in seen.html
    assert "*" * 18 in seen.html
    assert "Auth codes in it are masked" in seen.text
    assert "this cannot be checked again" in seen.text


async def test_another_merchants_request_is_not_there(portal, clock):
    owner, other = await portal.owner(), await portal.owner()
    request = refused(owner.client_id, 1, received_at=clock())
    await record(portal, [request])
    visitor = await other.browser()
    for path in (f"/requests/{request.request_id}", f"/requests/doctor?request={request.request_id}"):
        assert (await visitor.get(other.home + path)).status == 404
        assert (await visitor.get(owner.home + path)).status == 404


@pytest.mark.parametrize("request_id", ["req_", "req_" + "g" * 28, "x", "req_" + "0" * 29, "%00"])
async def test_what_is_no_request_id_is_not_there(portal, request_id):
    owner = await portal.owner()
    assert (await (await owner.browser()).get(f"{owner.home}/requests/{request_id}")).status == 404


@pytest.mark.parametrize("query", ["before=zz", "show=x&code=%27", "before=" + "0" * 60])
async def test_a_strange_query_is_as_none(portal, query):
    owner = await portal.owner()
    assert (await (await owner.browser()).get(f"{owner.home}/requests?{query}")).status == 200


async def test_hostile_requests_are_shown_as_text(portal, clock):
    owner = await portal.owner()
    script = "<script>alert(1)</script>"
    request = refused(
        owner.client_id,
        1,
        received_at=clock(),
        target=f"/{script}",
        user_agent=script,
        message=script,
        body=script.encode(),
        body_bytes=len(script),
        signature_header=script,
        request_time=script,
        host=script,
    )
    await record(portal, [request])
    visitor = await owner.browser()
    for path in (
        "/requests",
        f"/requests/{request.request_id}",
        f"/requests/doctor?request={request.request_id}",
    ):
        seen = await visitor.get(owner.home + path)
        assert seen.status == 200
        assert script not in seen.html


async def test_viewers_see_requests(portal, clock):
    owner = await portal.owner()
    request = refused(owner.client_id, 1, received_at=clock())
    await record(portal, [request])
    viewer = await (await portal.colleague(owner, Role.VIEWER)).browser()
    for path in ("/requests", f"/requests/{request.request_id}", "/requests/doctor"):
        assert (await viewer.get(owner.home + path)).status == 200


async def test_without_a_request_the_pages_say_what_to_do(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    assert "Nothing was refused" in (await visitor.get(f"{owner.home}/requests")).text
    assert "No request yet" in (await visitor.get(f"{owner.home}/requests?show=all")).text


async def test_the_pages_stay_small(portal, clock):
    owner = await portal.owner()
    long = "paymentAmount.value expected int >= 1; " * 100
    body = b'{"orderDescription":"' + b"<&" * 4000 + b'"}'
    requests = [
        refused(owner.client_id, n, received_at=clock(), message=long, body=body, body_bytes=len(body))
        for n in range(PER_PAGE)
    ]
    await record(portal, requests)
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/requests")
    assert len(seen.response.content) < 60 * 1024
    seen = await visitor.get(f"{owner.home}/requests/{requests[0].request_id}")
    assert seen.status == 200


async def test_a_request_of_a_wrong_clock_is_told_its_skew(portal, kernel):
    owner = await portal.owner()
    shop = await shop_of(portal, owner)
    answer = await Draft(shop, request_time=at_now(-412)).send(kernel)
    await kernel._refusals.flush()
    seen = await (await owner.browser()).get(f"{owner.home}/requests/{answer.header('request-id')}")
    assert re.search("\N{MINUS SIGN}4[12][0-9][.][0-9]\N{NO-BREAK SPACE}s from ours", seen.text)
    assert "Keep the clock right with NTP" in seen.text
