"""The pages of the webhook drill: what they say before one, while one runs, and about each way that it may end."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from msgspec.structs import replace

from deployment import fetch_all, run_sql
from merchant import private_key
from payaccept.adapters.postgres.drills import PostgresDrills
from payaccept.domain.delivery import Answered, AttemptOutcome, Exchange, Timing, Unreachable
from payaccept.domain.drill import UNKNOWN_KEY_VERSION, Exercise
from payaccept.domain.drill_lessons import LESSONS
from payaccept.domain.user import Role
from payaccept.operations.drilling import Drilling
from payaccept.operations.merchants import Changes
from payaccept.operations.provider_keys import Signer
from payaccept.portal.app import create_app
from payaccept.wire import signing
from visitor import Visitor

URL = "https://shop.example/hooks?shop=1"
YES, NO = Answered(200), Answered(401)
RIGHT = [YES] * 5 + [NO] * 3
CARELESS = [YES] * 8


class Shop:
    """An owner's merchant with an endpoint, whose answers are given by a test."""

    def __init__(self, portal: Any, owner: Any) -> None:
        self.portal = portal
        self.owner = owner
        self.home: str = f"{owner.home}/webhooks/drill"

    async def send_to(self, url: str | None = URL) -> None:
        changes = Changes(webhook_url=url)
        await self.portal.services.merchants.change(self.owner.client_id, changes, self.portal.clock())

    async def answer(self, outcomes: list[AttemptOutcome], *, total_us: int = 12_345) -> None:
        """Do the drill that waits, as a worker does."""
        left = iter(outcomes)
        keys: dict[int, RSAPrivateKey] = {1: private_key(7001), UNKNOWN_KEY_VERSION: private_key(7002)}

        async def signer(version: int = 1) -> Signer:
            return Signer(version, keys[version])

        async def stranger() -> Signer:
            return await signer(UNKNOWN_KEY_VERSION)

        async def sign(signer: Signer, strings: Any) -> list[bytes]:
            return [signing.sign(signer.private_key, string) for string in strings]

        async def post(_url: str, _body: bytes, _headers: Mapping[str, str]) -> Exchange:
            return Exchange(next(left), Timing(total_us=total_us), b"secret of a stack trace")

        worker = Drilling(
            PostgresDrills(self.portal.process._joined.lines),
            post,
            sign,
            signer,
            stranger,
            timeout_s=1.0,
            user_agent="payaccept/test",
            clock=self.portal.clock,
        )
        await worker.look()
        while worker._tasks:
            await asyncio.wait(worker._tasks)

    async def drilled(self, visitor: Visitor, outcomes: list[AttemptOutcome], **changes: Any) -> Any:
        """Start a drill, have it done, and return the page of its report."""
        seen = await visitor.fill(self.home, self.home)
        await self.answer(outcomes, **changes)
        return await visitor.get(seen.path)


@pytest.fixture
async def shop(portal) -> Shop:
    run_sql(
        portal.settings.database_url,
        "UPDATE drills SET ended_at = now(), claim_id = NULL, leased_until = NULL",
    )
    made = Shop(portal, await portal.owner())
    await made.send_to()
    return made


async def test_before_the_first_drill_the_page_says_what_it_does(shop):
    seen = await (await shop.owner.browser()).get(shop.home)
    assert seen.status == 200
    for lesson in LESSONS.values():
        assert lesson.title in seen.text
    assert URL in seen.text
    assert "Start the drill" in seen.text


async def test_without_an_endpoint_the_page_says_what_to_do(shop):
    await shop.send_to(None)
    visitor = await shop.owner.browser()
    seen = await visitor.get(shop.home)
    assert "No endpoint yet" in seen.text
    assert f"{shop.owner.home}/webhooks" in seen.links
    assert [form for form in seen.forms if form.action == shop.home] == []
    token = seen.forms[0].fields["csrf"]
    seen = await visitor.post(shop.home, {"csrf": token})
    assert seen.status == 422
    assert "No endpoint is configured for sandbox_" in seen.text


async def test_a_drill_is_asked_for_shown_while_it_runs_and_written_into_the_audit_log(shop):
    visitor = await shop.owner.browser()
    seen = await visitor.fill(shop.home, shop.home)
    assert seen.path.startswith(f"{shop.home}/drl_")
    assert "Drill under way" in seen.text
    assert "0 of 8 sent" in seen.text
    assert 'data-live="1"' in seen.html
    assert "Start another drill" not in seen.text
    assert "Webhook drill started" in (await visitor.get(f"{shop.owner.home}/audit")).text
    shop.portal.clock.move(seconds=11)
    assert "No worker has taken it up yet" in (await visitor.get(shop.home)).text


async def test_a_receiver_that_does_right_is_told_so(shop):
    seen = await shop.drilled(await shop.owner.browser(), RIGHT)
    assert "All 6 handled rightly" in seen.text
    assert seen.text.count("Handled rightly") == 6
    assert "How to mend it" not in seen.text
    assert "data-live" not in seen.html
    assert "12.3 ms, 23 bytes of body" in seen.text


async def test_a_careless_receiver_is_told_what_it_believed_and_how_to_mend_it(shop):
    seen = await shop.drilled(await shop.owner.browser(), CARELESS)
    assert "3 of 6 handled wrongly" in seen.text
    assert seen.text.count("Handled wrongly") == 3
    assert "You acknowledged a webhook of eleven minutes ago." in seen.text
    assert "/docs/webhooks#verify-it" in seen.links
    assert "#code-0" in seen.links
    assert "code-0" in seen.ids
    assert "from payaccept.sdk.notifications import verify" in seen.text
    keys_url = f"{shop.portal.services.site.api_base_url}/.well-known/payaccept/webhook-keys"
    assert f'from_url("{keys_url}")' in seen.text


async def test_what_was_sent_is_shown_as_it_was_and_the_answers_body_is_not(shop):
    seen = await shop.drilled(await shop.owner.browser(), CARELESS)
    assert "secret of a stack trace" not in seen.html
    assert seen.text.count("POST /hooks?shop=1 HTTP/1.1") == 8
    drill_id = seen.path.rpartition("/")[2]
    drill = await shop.portal.services.drills.find(shop.owner.client_id, drill_id)
    for step in drill.steps:
        assert step.body_sent.decode() in seen.text
        for line in step.headers.splitlines():
            assert line in seen.text


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([YES, YES, Answered(409), *RIGHT[3:]], "A repetition is no mistake of ours"),
        ([YES, YES, YES, YES, Answered(409), *RIGHT[5:]], "Let neither the number nor the time"),
        ([Answered(302, "HTTP 302: redirects are not followed"), *RIGHT[1:]], "redirects are not followed"),
        ([Answered(200, "HTTP 200 with resultStatus 'F'"), *RIGHT[1:]], "a body that says no"),
        ([NO] * 8, "so this proves nothing"),
        ([*RIGHT[:5], Answered(500), NO, NO], "could be clearer"),
        ([Unreachable("no complete answer within 1 s")], "no complete answer within 1 s"),
    ],
)
async def test_each_way_to_be_wrong_has_its_words(shop, outcomes, said):
    seen = await shop.drilled(await shop.owner.browser(), outcomes)
    assert seen.status == 200
    assert said in seen.text
    assert "How to mend it" in seen.text


async def test_a_slow_receiver_is_warned(shop):
    seen = await shop.drilled(await shop.owner.browser(), RIGHT, total_us=6_100_000)
    assert "6 of 6 right, with a weakness" in seen.text
    assert "after 6.1 s" in seen.text


async def test_a_hostile_endpoint_is_shown_as_text(shop):
    script = "<script>alert(1)</script>"
    seen = await shop.drilled(await shop.owner.browser(), [Unreachable(script)])
    assert script not in seen.html
    assert script in seen.text


async def test_the_next_one_can_be_asked_for_after_a_minute(shop):
    visitor = await shop.owner.browser()
    await shop.drilled(visitor, RIGHT)
    shop.portal.clock.move(seconds=20)
    seen = await visitor.fill(shop.home, shop.home)
    assert seen.status == 429
    assert seen.response.headers["retry-after"] == "40"
    assert "wait 40 s" in seen.text
    shop.portal.clock.move(seconds=40)
    await shop.drilled(visitor, CARELESS)
    seen = await visitor.get(shop.home)
    assert "3 of 6 handled wrongly" in seen.text
    assert "All 6 handled rightly" in seen.text  # in the list
    [before] = [link for link in seen.links if f"{shop.home}/drl_" in link]
    assert "takes what is right and refuses what is forged" in (await visitor.get(before)).text


async def test_while_one_runs_another_is_refused(shop):
    visitor = await shop.owner.browser()
    page = await visitor.get(shop.home)
    await visitor.send(page, shop.home)
    seen = await visitor.send(page, shop.home)
    assert seen.status == 422
    assert "A drill is running" in seen.text


async def test_viewers_see_a_drill_and_start_none(shop):
    viewer = await (await shop.portal.colleague(shop.owner, Role.VIEWER)).browser()
    seen = await viewer.get(shop.home)
    assert "A developer or an owner of the merchant can start it" in seen.text
    assert [form for form in seen.forms if form.action == shop.home] == []
    await shop.drilled(await shop.owner.browser(), CARELESS)
    seen = await viewer.get(shop.home)
    assert "3 of 6 handled wrongly" in seen.text
    assert [form for form in seen.forms if form.action == shop.home] == []
    assert (await viewer.post(shop.home, {"csrf": seen.forms[0].fields["csrf"]})).status == 403


async def test_another_merchants_drill_is_not_there(shop, portal):
    seen = await shop.drilled(await shop.owner.browser(), RIGHT)
    drill_id = seen.path.rpartition("/")[2]
    stranger = await portal.owner()
    visitor = await stranger.browser()
    assert (await visitor.get(seen.path)).status == 404
    assert (await visitor.get(f"{stranger.home}/webhooks/drill/{drill_id}")).status == 404
    for other in ("drl_", "x", "drl_" + "0" * 26, "%00"):
        assert (await visitor.get(f"{stranger.home}/webhooks/drill/{other}")).status == 404


async def test_the_page_stays_small(shop):
    await shop.send_to("https://shop.example/" + "h" * 2000)
    seen = await shop.drilled(await shop.owner.browser(), CARELESS)
    assert len(seen.response.content) < 60 * 1024


async def test_in_production_there_is_none(shop, portal):
    without = replace(portal.services, drills=None)
    app = create_app(without, portal.process, portal.process._log)
    drill = (await shop.drilled(await shop.owner.browser(), RIGHT)).path
    visitor = await shop.owner.browser()
    there = Visitor(app)
    there.client.cookies = visitor.client.cookies
    async with there:
        for path in (shop.home, drill):
            assert (await there.get(path)).status == 404
        token = (await there.get("/account")).forms[0].fields["csrf"]
        assert (await there.post(shop.home, {"csrf": token})).status == 404


async def test_every_exercise_is_kept_by_its_name(portal, shop):
    await shop.drilled(await shop.owner.browser(), RIGHT)
    query = "SELECT DISTINCT exercise FROM drill_steps"
    kept = {exercise for (exercise,) in fetch_all(portal.settings.database_url, query)}
    assert kept == {exercise.value for exercise in Exercise}
