"""The webhook drill: what it sends, and what it makes of the answers."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from deployment import merchant_made
from payaccept.domain import identifiers
from payaccept.domain.delivery import Answered, AttemptOutcome, Unreachable
from payaccept.domain.drill import (
    OLD,
    SLOW_US,
    UNKNOWN_KEY_VERSION,
    Drill,
    Exercise,
    Finding,
    Judged,
    Step,
    Verdict,
    is_drill_id,
    judge,
    plan,
    request_text,
    signed_at,
    tamper,
    verdict_of,
)
from payaccept.domain.drill_lessons import LESSONS, REMEMBERING, VERIFYING, advice_on, sum_up
from payaccept.domain.merchant import Environment
from payaccept.portal.markdown import render
from payaccept.sdk.notifications import WINDOW_S
from payaccept.wire import signing
from payaccept.wire.messages import TestNotification

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
URL = "https://shop.example/hooks?shop=1"
FORGED = [exercise for exercise in Exercise if exercise.is_forged]
RIGHT = [exercise for exercise in Exercise if not exercise.is_forged]
YES, NO = Answered(200), Answered(401)


@pytest.fixture
def drill() -> Drill:
    return plan(merchant_made(NOW), URL, "anna@shop.example", Environment.SANDBOX, NOW)


def answered(drill: Drill, *, total_us: int = 1000, ended: bool = True, **outcomes: AttemptOutcome) -> Drill:
    """The drill as a receiver leaves it that does right, but for some exercises."""

    def answer(step: Step) -> Step:
        outcome = outcomes.get(step.exercise.name, NO if step.exercise.is_forged else YES)
        return replace(step, headers="", sent_at=NOW, answered_at=NOW, outcome=outcome, total_us=total_us)

    return replace(drill, steps=tuple(map(answer, drill.steps)), ended_at=NOW if ended else None)


def found(drill: Drill) -> dict[Exercise, Judged]:
    return {judged.exercise: judged for judged in judge(drill)}


# What is sent


def test_every_notification_is_a_test_and_says_nothing_of_money(drill):
    for step in drill.steps:
        for body in (step.body, step.body_sent):
            members = json.loads(body)
            assert msgspec.convert(members, TestNotification).test is True
            assert members["eventType"] == "webhook.test"
            assert not {"paymentId", "paymentStatus", "paymentAmount", "result"} & members.keys()


def test_a_drill_has_six_exercises_of_eight_notifications(drill):
    assert [step.number for step in drill.steps] == list(range(1, 9))
    assert list(dict.fromkeys(step.exercise for step in drill.steps)) == list(Exercise)
    assert is_drill_id(drill.drill_id)
    assert all(identifiers.is_event(step.event_id) for step in drill.steps)


def test_a_duplicate_is_the_same_event_and_the_same_bytes(drill):
    first, second = (step for step in drill.steps if step.exercise is Exercise.DUPLICATE)
    assert (first.event_id, first.body, first.sequence) == (second.event_id, second.body, second.sequence)
    assert (first.attempt, second.attempt) == (1, 2)
    others = [step.event_id for step in drill.steps if step.exercise is not Exercise.DUPLICATE]
    assert len({*others, first.event_id}) == 7


def test_of_the_pair_in_the_wrong_order_the_later_one_comes_first(drill):
    first, second = (step for step in drill.steps if step.exercise is Exercise.OUT_OF_ORDER)
    assert (first.sequence, second.sequence) == (2, 1)
    assert first.event_id > second.event_id
    assert json.loads(first.body)["createTime"] > json.loads(second.body)["createTime"]


def test_the_numbers_are_no_higher_than_those_of_the_first_events(drill):
    assert {step.sequence for step in drill.steps} == {1, 2}


@pytest.mark.parametrize(
    "time", ["2026-03-01T12:00:00Z", "2026-03-01T12:00:09.999Z", "2026-03-01T12:00:00.120Z"]
)
def test_a_tampered_body_differs_in_one_byte_and_is_still_a_test(time):
    members = {"eventId": "evt_1", "eventType": "webhook.test", "createTime": time, "environment": "sandbox"}
    body = msgspec.json.encode(members | {"clientId": "sandbox_1", "test": True})
    changed = tamper(body)
    assert sum(a != b for a, b in zip(body, changed, strict=True)) == 1
    assert msgspec.json.decode(changed, type=TestNotification).test is True


def test_only_the_tampered_one_goes_out_otherwise_than_it_was_signed(drill):
    assert [step.exercise for step in drill.steps if step.body != step.body_sent] == [Exercise.TAMPERED]


def test_the_old_one_is_beyond_any_receivers_window():
    assert timedelta(seconds=WINDOW_S) < OLD
    assert [exercise for exercise in Exercise if signed_at(exercise, NOW) != NOW] == [Exercise.OLD]
    assert signed_at(Exercise.OLD, NOW) == NOW - timedelta(minutes=11)


def test_the_unknown_keyversion_is_one_that_a_header_can_tell():
    assert (
        signing.parse_header(signing.write_header(UNKNOWN_KEY_VERSION, bytes(256))).key_version
        == UNKNOWN_KEY_VERSION
    )


def test_a_step_is_shown_as_it_went_over_the_wire(drill):
    step = replace(drill.steps[5], headers="Content-Type: application/json\nEvent-Id: evt_1\n")
    head, _, body = request_text("https://SHOP.example:443/hooks?shop=1", step).partition("\n\n")
    assert head.splitlines() == [
        "POST /hooks?shop=1 HTTP/1.1",
        "Host: shop.example",
        "Content-Type: application/json",
        "Event-Id: evt_1",
        f"Content-Length: {len(step.body)}",
    ]
    assert body.encode() == tamper(step.body)


# What is made of the answers


def test_who_acknowledges_what_is_right_and_refuses_what_is_forged_has_done_right(drill):
    judged = judge(answered(drill))
    assert {one.verdict for one in judged} == {Verdict.RIGHT}
    assert sum_up(judged) == ("All 6 handled rightly", Verdict.RIGHT)


def test_who_accepts_everything_has_done_exactly_three_wrong(drill):
    judged = judge(answered(drill, TAMPERED=YES, OLD=YES, UNKNOWN_KEY=YES))
    assert [one.exercise for one in judged if one.verdict is Verdict.WRONG] == FORGED
    assert {one.worst for one in judged if one.exercise in FORGED} == {Finding.ACCEPTED}
    assert sum_up(judged) == ("3 of 6 handled wrongly", Verdict.WRONG)


@pytest.mark.parametrize("exercise", RIGHT)
@pytest.mark.parametrize(
    ("outcome", "finding"),
    [
        (Answered(200), Finding.ACKNOWLEDGED),
        (Answered(299), Finding.ACKNOWLEDGED),
        (Answered(200, "HTTP 200 with resultStatus 'F'"), Finding.SAYS_NO),
        (Answered(302, "HTTP 302: redirects are not followed"), Finding.REDIRECTED),
        (Answered(401), Finding.NOT_ACKNOWLEDGED),
        (Answered(404, "HTTP 404 with resultStatus 'F'"), Finding.NOT_ACKNOWLEDGED),
        (Answered(429), Finding.FAULT),
        (Answered(500), Finding.FAULT),
        (Unreachable("no complete answer within 10 s"), Finding.NO_ANSWER),
    ],
)
def test_a_right_one_is_to_be_acknowledged(drill, exercise, outcome, finding):
    judged = found(answered(drill, **{exercise.name: outcome}))
    assert judged[exercise].worst is finding
    assert (judged[exercise].verdict is Verdict.RIGHT) == (finding is Finding.ACKNOWLEDGED)
    assert {one.verdict for name, one in judged.items() if name is not exercise} == {Verdict.RIGHT}


@pytest.mark.parametrize("exercise", FORGED)
@pytest.mark.parametrize(
    ("outcome", "finding", "verdict"),
    [
        (Answered(401), Finding.REFUSED, Verdict.RIGHT),
        (Answered(400), Finding.REFUSED, Verdict.RIGHT),
        (Answered(401, "HTTP 401 with resultStatus 'F'"), Finding.REFUSED, Verdict.RIGHT),
        (Answered(200, "HTTP 200 with resultStatus 'F'"), Finding.REFUSED_IN_BODY, Verdict.CARE),
        (Answered(302, "HTTP 302: redirects are not followed"), Finding.REFUSED_BY_REDIRECT, Verdict.CARE),
        (Answered(500), Finding.REFUSED_BY_FAULT, Verdict.CARE),
        (Answered(503), Finding.REFUSED_BY_FAULT, Verdict.CARE),
        (Answered(429), Finding.REFUSED_BY_FAULT, Verdict.CARE),
        (Unreachable("the connection was closed"), Finding.REFUSED_BY_SILENCE, Verdict.CARE),
        (Answered(200), Finding.ACCEPTED, Verdict.WRONG),
        (Answered(204), Finding.ACCEPTED, Verdict.WRONG),
    ],
)
def test_a_forged_one_is_to_be_refused(drill, exercise, outcome, finding, verdict):
    judged = found(answered(drill, **{exercise.name: outcome}))
    assert (judged[exercise].worst, judged[exercise].verdict) == (finding, verdict)


@pytest.mark.parametrize(("total_us", "verdict"), [(SLOW_US, Verdict.RIGHT), (SLOW_US + 1, Verdict.CARE)])
def test_more_than_five_seconds_are_slow(drill, total_us, verdict):
    judged = judge(answered(drill, total_us=total_us))
    assert {one.verdict for one in judged} == {verdict}
    assert sum_up(judged)[1] is verdict


def test_slowness_excuses_nothing(drill):
    judged = found(answered(drill, total_us=SLOW_US + 1, OLD=YES))
    assert judged[Exercise.OLD].worst is Finding.ACCEPTED


def test_to_refuse_what_is_forged_proves_nothing_when_everything_is_refused(drill):
    judged = found(answered(drill, CORRECT=NO, DUPLICATE=NO, OUT_OF_ORDER=NO))
    assert {judged[exercise].verdict for exercise in RIGHT} == {Verdict.WRONG}
    assert {judged[exercise].worst for exercise in FORGED} == {Finding.REFUSES_ALL}
    assert {judged[exercise].verdict for exercise in FORGED} == {Verdict.OPEN}


def test_one_right_notification_that_is_taken_is_enough_to_judge_by(drill):
    judged = found(answered(drill, CORRECT=Answered(500)))
    assert {judged[exercise].verdict for exercise in FORGED} == {Verdict.RIGHT}


def test_of_two_answers_the_worse_one_is_the_exercises(drill):
    done = answered(drill)
    steps = [replace(step, outcome=Answered(409)) if step.number == 3 else step for step in done.steps]
    judged = found(replace(done, steps=tuple(steps)))[Exercise.DUPLICATE]
    assert judged.verdict is Verdict.WRONG
    assert [finding for _, finding in judged.steps] == [Finding.ACKNOWLEDGED, Finding.NOT_ACKNOWLEDGED]


def test_what_has_not_been_sent_is_to_come_while_the_drill_runs(drill):
    judged = found(drill)
    assert {one.worst for one in judged.values()} == {Finding.TO_COME}
    under_way = (replace(drill.steps[0], headers="", sent_at=NOW), *drill.steps[1:])
    assert found(replace(drill, steps=under_way))[Exercise.CORRECT].worst is Finding.UNDER_WAY


def test_what_was_sent_by_a_worker_that_died_is_not_known_for_good(drill):
    done = answered(drill, ended=False)
    lost = replace(done.steps[0], outcome=None, answered_at=None)
    for ended_at in (None, NOW):
        judged = found(replace(done, steps=(lost, *done.steps[1:]), ended_at=ended_at))
        assert judged[Exercise.CORRECT].worst is Finding.INTERRUPTED
        assert judged[Exercise.CORRECT].verdict is Verdict.OPEN


def test_without_an_answer_to_the_first_the_rest_is_not_sent(drill):
    silent = Unreachable("the connection was refused or could not be made")
    first = replace(drill.steps[0], headers="", sent_at=NOW, answered_at=NOW, outcome=silent)
    ended = replace(drill, steps=(first, *drill.steps[1:]), ended_at=NOW)
    assert ended.is_silent
    judged = judge(ended)
    assert [one.worst for one in judged] == [Finding.NO_ANSWER] + [Finding.NOT_SENT] * 5


# What is said about it


def test_every_exercise_has_its_lesson_and_every_finding_its_verdict_and_advice():
    assert list(LESSONS) == list(Exercise)
    for finding in Finding:
        for exercise in FORGED if finding is Finding.ACCEPTED else Exercise:
            advice = advice_on(exercise, finding)
            assert advice.told
            verdict = verdict_of(finding)
            assert bool(advice.mend) == (verdict not in {Verdict.RIGHT, Verdict.WAITING})
            assert bool(advice.section) == (verdict in {Verdict.WRONG, Verdict.CARE})


def test_what_is_linked_to_is_in_the_documentation():
    document = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")
    anchors = render(document, lambda _: None).anchors
    for finding in Finding:
        for exercise in FORGED if finding is Finding.ACCEPTED else Exercise:
            section = advice_on(exercise, finding).section
            assert not section or section in anchors, section


def test_the_documentation_names_every_exercise_and_what_is_right():
    document = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text(encoding="utf-8")
    table = document.partition("<!-- table: drill -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert [row[0] for row in rows] == list(Exercise)
    assert [row[2].startswith("refuse") for row in rows] == [exercise.is_forged for exercise in Exercise]
    assert f"keyVersion {UNKNOWN_KEY_VERSION}" in rows[-1][1]


def test_the_programs_that_are_shown_can_be_run():
    for program in (VERIFYING.replace("{keys_url}", "https://api.example/keys"), REMEMBERING):
        exec(program, {})  # noqa: S102 - our own


@pytest.mark.parametrize(
    "text", ["", "drl_", "drl_" + "0" * 25, "drl_" + "g" * 26, "evt_" + "0" * 26, "drl_" + "0" * 27]
)
def test_what_is_no_id_of_a_drill_is_none(text):
    assert not is_drill_id(text)
