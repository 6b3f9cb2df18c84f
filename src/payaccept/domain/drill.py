"""The webhook drill of the sandbox: right and wrong notifications for an endpoint, and what its answers tell.

A drill has six exercises of one or two steps each; a step is one notification. They are tests like any other
`webhook.test`: nothing in them says that anything was paid, not even in the ones that are forged.
"""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from payaccept.domain.delivery import AttemptOutcome, Unreachable, is_acknowledged, is_unwell
from payaccept.domain.event import endpoint_test
from payaccept.domain.merchant import Environment, Merchant
from payaccept.domain.urls import UrlPolicy

OLD: Final = timedelta(minutes=11)
"""How old the old one is: a minute more than a receiver may let pass."""
SLOW_US: Final = 5_000_000
"""Half of the time that a receiver has: who takes longer on a quiet day runs out of it on a busy one."""
UNKNOWN_KEY_VERSION: Final = 999_999_999
"""The greatest that the header takes. The service counts from 1, so it is never any key's."""
PAUSE: Final = timedelta(minutes=1)
"""How long a merchant waits from the beginning of one drill to the next."""

_ANYWHERE: Final = UrlPolicy(allow_http=True, allow_private=True)
_REDIRECTS: Final = range(300, 400)
_TIME_END: Final = re.compile(rb'("createTime":"[^"]*)([0-9])(Z")')
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ID: Final = re.compile(r"drl_[0-9a-f]{26}", re.ASCII)


class Exercise(StrEnum):
    """What an endpoint is tried with, in the order of a drill."""

    CORRECT = "correct"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out of order"
    TAMPERED = "tampered"
    OLD = "old"
    UNKNOWN_KEY = "unknown key"

    @property
    def is_forged(self) -> bool:
        """Whether it is to be refused; the others are to be acknowledged."""
        return self in _FORGED


_FORGED: Final = frozenset({Exercise.TAMPERED, Exercise.OLD, Exercise.UNKNOWN_KEY})


class Step(Struct, frozen=True, kw_only=True):
    """One notification of a drill. `body` is as it was signed.

    `headers`, a line for each, are there when it may have been sent; the outcome when it is known what came of it.
    """

    number: int
    exercise: Exercise
    event_id: str
    sequence: int
    attempt: int
    body: bytes
    headers: str | None = None
    sent_at: datetime | None = None
    answered_at: datetime | None = None
    outcome: AttemptOutcome | None = None
    total_us: int = 0
    answer_bytes: int = 0

    @property
    def body_sent(self) -> bytes:
        """The body as it goes out."""
        return tamper(self.body) if self.exercise is Exercise.TAMPERED else self.body

    @property
    def is_acknowledged(self) -> bool:
        """Whether the endpoint has said that it has it."""
        return self.outcome is not None and is_acknowledged(self.outcome)


class Drill(Struct, frozen=True, kw_only=True):
    """A drill, as far as it has got."""

    drill_id: str
    client_id: str
    url: str
    asked_by: str
    created_at: datetime
    ended_at: datetime | None = None
    steps: tuple[Step, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether something of it is still to come."""
        return self.ended_at is None

    @property
    def is_silent(self) -> bool:
        """Whether the right notification got no answer at all: the rest would only wait for none, each."""
        return any(
            step.exercise is Exercise.CORRECT and isinstance(step.outcome, Unreachable) for step in self.steps
        )


def is_drill_id(text: str) -> bool:
    """Tell whether a text is written as a drill's id."""
    return _ID.fullmatch(text) is not None


def plan(merchant: Merchant, url: str, asked_by: str, environment: Environment, now: datetime) -> Drill:
    """Write a drill, every notification of it: the ids are drawn and the bodies fixed, nothing is sent.

    The numbers are those of a merchant's first events, so that a receiver that watches for gaps sees none: the
    next number is a real event's, and stays it.
    """

    def body(at: datetime) -> tuple[str, bytes]:
        test = endpoint_test(merchant, url, environment, at)
        return test.event_id, test.body

    correct, twice, late, forged, unknown = (body(now) for _ in range(5))
    early = body(now - timedelta(seconds=1))
    drawn = [
        (Exercise.CORRECT, correct, 1, 1),
        (Exercise.DUPLICATE, twice, 1, 1),
        (Exercise.DUPLICATE, twice, 1, 2),
        (Exercise.OUT_OF_ORDER, late, 2, 1),
        (Exercise.OUT_OF_ORDER, early, 1, 1),
        (Exercise.TAMPERED, forged, 1, 1),
        (Exercise.OLD, body(now - OLD), 1, 1),
        (Exercise.UNKNOWN_KEY, unknown, 1, 1),
    ]
    return Drill(
        drill_id=f"drl_{(now - _EPOCH) // _MICROSECOND:014x}{os.urandom(6).hex()}",
        client_id=merchant.client_id,
        url=url,
        asked_by=asked_by,
        created_at=now,
        steps=tuple(
            Step(
                number=number,
                exercise=exercise,
                event_id=event_id,
                sequence=sequence,
                attempt=attempt,
                body=text,
            )
            for number, (exercise, (event_id, text), sequence, attempt) in enumerate(drawn, start=1)
        ),
    )


def tamper(body: bytes) -> bytes:
    """Change the last digit of createTime: one bit of news, as long as before, and still no word of money."""
    return _TIME_END.sub(lambda m: m[1] + b"%d" % ((int(m[2]) + 1) % 10) + m[3], body, count=1)


def signed_at(exercise: Exercise, now: datetime) -> datetime:
    """Return the time that the signature of a step tells, when it is sent `now`."""
    return now - OLD if exercise is Exercise.OLD else now


def request_text(url: str, step: Step) -> str:
    """Write a step as it went over the wire: request line, headers, body."""
    where = _ANYWHERE.destination(url)
    length = len(step.body_sent)
    return (
        f"POST {where.target} HTTP/1.1\nHost: {where.authority}\n{step.headers or ''}Content-Length: {length}\n\n"
        + step.body_sent.decode()
    )


# Judging


class Verdict(StrEnum):
    """How an endpoint did. The worst of its steps is an exercise's; OPEN says nothing against it, nor for it."""

    RIGHT = "right"
    WAITING = "waiting"
    OPEN = "open"
    CARE = "care"
    WRONG = "wrong"


_WORST: Final = (Verdict.WRONG, Verdict.WAITING, Verdict.OPEN, Verdict.CARE)


class Finding(StrEnum):
    """What is found of one step; each belongs to one verdict."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    TO_COME = "to come"
    UNDER_WAY = "under way"
    # It proves nothing:
    REFUSES_ALL = "refuses all"
    INTERRUPTED = "interrupted"
    NOT_SENT = "not sent"
    # Right, with a weakness:
    SLOW = "slow"
    REFUSED_IN_BODY = "refused in the body"
    REFUSED_BY_REDIRECT = "refused by a redirect"
    REFUSED_BY_FAULT = "refused by a fault"
    REFUSED_BY_SILENCE = "refused by silence"
    # Of a right notification:
    NOT_ACKNOWLEDGED = "not acknowledged"
    SAYS_NO = "says no"
    REDIRECTED = "redirected"
    FAULT = "fault"
    NO_ANSWER = "no answer"
    # Of a forged one:
    ACCEPTED = "accepted"


_VERDICTS: Final[dict[Finding, Verdict]] = (
    dict.fromkeys((Finding.ACKNOWLEDGED, Finding.REFUSED), Verdict.RIGHT)
    | dict.fromkeys((Finding.TO_COME, Finding.UNDER_WAY), Verdict.WAITING)
    | dict.fromkeys((Finding.REFUSES_ALL, Finding.INTERRUPTED, Finding.NOT_SENT), Verdict.OPEN)
    | dict.fromkeys(
        (
            Finding.SLOW,
            Finding.REFUSED_IN_BODY,
            Finding.REFUSED_BY_REDIRECT,
            Finding.REFUSED_BY_FAULT,
            Finding.REFUSED_BY_SILENCE,
        ),
        Verdict.CARE,
    )
    | dict.fromkeys(
        (
            Finding.NOT_ACKNOWLEDGED,
            Finding.SAYS_NO,
            Finding.REDIRECTED,
            Finding.FAULT,
            Finding.NO_ANSWER,
            Finding.ACCEPTED,
        ),
        Verdict.WRONG,
    )
)


def verdict_of(finding: Finding) -> Verdict:
    """Return what a finding amounts to."""
    return _VERDICTS[finding]


class Judged(Struct, frozen=True, kw_only=True):
    """An exercise with its steps, and what is found of each."""

    exercise: Exercise
    steps: tuple[tuple[Step, Finding], ...]
    verdict: Verdict

    @property
    def worst(self) -> Finding:
        """What there is to say about it first."""
        return next(finding for _, finding in self.steps if verdict_of(finding) is self.verdict)


def judge(drill: Drill) -> list[Judged]:
    """Judge a drill as far as it has got, exercise by exercise.

    That an endpoint refuses what is forged is to its credit only when it takes what is right: one that refuses
    everything, because its path is wrong or something stands before it, verifies nothing.
    """
    takes_right_ones = any(step.is_acknowledged for step in drill.steps if not step.exercise.is_forged)
    last_sent = max((step.number for step in drill.steps if step.sent_at is not None), default=0)
    judged = []
    for exercise in Exercise:
        steps = [step for step in drill.steps if step.exercise is exercise]
        found = tuple(
            (
                step,
                _find(step, takes_right_ones=takes_right_ones)
                or _find_unanswered(step, is_last=drill.is_running and step.number >= last_sent),
            )
            for step in steps
        )
        if found:
            judged.append(Judged(exercise=exercise, steps=found, verdict=_worst(found)))
    return judged


def _worst(found: Sequence[tuple[Step, Finding]]) -> Verdict:
    verdicts = {verdict_of(finding) for _, finding in found}
    return next((verdict for verdict in _WORST if verdict in verdicts), Verdict.RIGHT)


def _find_unanswered(step: Step, *, is_last: bool) -> Finding:
    """Tell what has become of a step; `is_last`: the drill goes on, and nothing behind it has been sent."""
    if step.sent_at is None:
        return Finding.TO_COME if is_last else Finding.NOT_SENT
    return Finding.UNDER_WAY if is_last else Finding.INTERRUPTED


def _find(step: Step, *, takes_right_ones: bool) -> Finding | None:
    if step.outcome is None:
        return None
    if not step.exercise.is_forged:
        return _find_right(step, step.outcome)
    if step.is_acknowledged:
        return Finding.ACCEPTED
    return _find_forged(step, step.outcome) if takes_right_ones else Finding.REFUSES_ALL


def _find_right(step: Step, outcome: AttemptOutcome) -> Finding:
    if isinstance(outcome, Unreachable):
        return Finding.NO_ANSWER
    if step.is_acknowledged:
        return Finding.SLOW if step.total_us > SLOW_US else Finding.ACKNOWLEDGED
    if outcome.status in _REDIRECTS:
        return Finding.REDIRECTED
    if is_unwell(outcome):
        return Finding.FAULT
    return Finding.SAYS_NO if _is_good(outcome.status) else Finding.NOT_ACKNOWLEDGED


def _find_forged(step: Step, outcome: AttemptOutcome) -> Finding:
    if isinstance(outcome, Unreachable):
        return Finding.REFUSED_BY_SILENCE
    if outcome.status in _REDIRECTS:
        return Finding.REFUSED_BY_REDIRECT
    if is_unwell(outcome):
        return Finding.REFUSED_BY_FAULT
    if _is_good(outcome.status):
        return Finding.REFUSED_IN_BODY
    return Finding.SLOW if step.total_us > SLOW_US else Finding.REFUSED


def _is_good(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - HTTP's own ranges
