"""The webhook drill: the sandbox sends a merchant's endpoint right and wrong notifications, and judges its answers."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from msgspec import Struct

from payaccept.domain.delivery import reason_of
from payaccept.domain.drill import Drill, Finding, Judged, Step, Verdict, judge, request_text, verdict_of
from payaccept.domain.drill_lessons import LABELS, LESSONS, Advice, Lesson, advice_on, sum_up
from payaccept.domain.errors import DrillRefused
from payaccept.domain.user import Membership, Permission
from payaccept.operations.drills import Drills
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services

_KINDS: Final = {
    Verdict.RIGHT: "good",
    Verdict.WAITING: "busy",
    Verdict.OPEN: "plain",
    Verdict.CARE: "warn",
    Verdict.WRONG: "bad",
}


class Answer(Struct, frozen=True, kw_only=True):
    """One notification: what was sent, what came back, and what that means when it says more than the whole does."""

    step: Step
    sent: str
    came: str
    told: str


class Part(Struct, frozen=True, kw_only=True):
    """One exercise as it is shown."""

    judged: Judged
    lesson: Lesson
    advice: Advice
    label: str
    kind: str
    answers: list[Answer]

    @property
    def place(self) -> str:
        """Its id in the page."""
        return self.judged.exercise.replace(" ", "-")


class Report(Struct, frozen=True, kw_only=True):
    """A drill as it is shown."""

    drill: Drill
    parts: list[Part]

    def of(self, verdict: str) -> list[Part]:
        """Return the exercises with a verdict."""
        return [part for part in self.parts if part.judged.verdict is Verdict(verdict)]

    @property
    def answered(self) -> int:
        """How many notifications have got so far that they need not be waited for."""
        return sum(
            verdict_of(finding) is not Verdict.WAITING
            for part in self.parts
            for _, finding in part.judged.steps
        )

    @property
    def summary(self) -> tuple[str, str]:
        """The whole in a few words, and the kind of its pill."""
        if self.drill.is_running:
            return f"{self.answered} of {len(self.drill.steps)} sent", "busy"
        told, verdict = sum_up([part.judged for part in self.parts])
        return told, _KINDS[verdict]

    @property
    def codes(self) -> list[str]:
        """The programs that mend what was found, each once."""
        return list(dict.fromkeys(part.advice.code for part in self.parts if part.advice.code))


@get("/m/{client_id:str}/webhooks/drill", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Page:
    """Show the last drill, or what a drill is."""
    return await _show(request, services, membership)


@get("/m/{client_id:str}/webhooks/drill/{drill_id:str}", guards=[member(Permission.VIEW)])
async def show_one(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    drill_id: FromPath[str],
) -> Page:
    """Show one drill."""
    found = await _drills(services).find(membership.client_id, drill_id)
    if found is None:
        raise PageNotFound
    return await _show(request, services, membership, found)


@post("/m/{client_id:str}/webhooks/drill", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def start(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Ask for a drill."""
    try:
        drill = await _drills(services).start(membership.client_id, services.clock(), actor(request))
    except DrillRefused as refused:
        form = Form({})
        form.fail("form", f"{str(refused)[:1].upper()}{str(refused)[1:]}.")
        status = 422 if refused.retry_after_s is None else 429
        answer = await _show(request, services, membership, form=form, status=status)
        if refused.retry_after_s is not None:
            answer.headers["Retry-After"] = str(refused.retry_after_s)
        return answer
    return go(request, f"/m/{membership.client_id}/webhooks/drill/{drill.drill_id}")


async def _show(
    request: PortalRequest,
    services: Services,
    membership: Membership,
    shown: Drill | None = None,
    **answer: Any,
) -> Page:
    last = await _drills(services).list_last(membership.client_id)
    merchant = await services.merchants.get(membership.client_id)
    drill = shown or next(iter(last), None)
    return page(
        request,
        "drill/drill.html",
        lessons=list(LESSONS.values()),
        webhook_url=merchant.webhook_url,
        may_start=membership.grants(Permission.MANAGE_WEBHOOKS),
        is_running=any(one.is_running for one in last),
        report=None if drill is None else report_of(drill),
        last=[report_of(one) for one in last],
        **answer,
    )


def report_of(drill: Drill) -> Report:
    """Judge a drill, and put it into words."""
    return Report(drill=drill, parts=[_part(drill, judged) for judged in judge(drill)])


def _part(drill: Drill, judged: Judged) -> Part:
    return Part(
        judged=judged,
        lesson=LESSONS[judged.exercise],
        advice=advice_on(judged.exercise, judged.worst),
        label="Under way" if judged.worst is Finding.UNDER_WAY else LABELS[judged.verdict],
        kind=_KINDS[judged.verdict],
        answers=_answers(drill, judged),
    )


def _answers(drill: Drill, judged: Judged) -> list[Answer]:
    return [
        Answer(
            step=step,
            sent="" if step.headers is None else request_text(drill.url, step),
            came="" if step.outcome is None else reason_of(step.outcome),
            told=_told(judged, finding),
        )
        for step, finding in judged.steps
    ]


def _told(judged: Judged, finding: Finding) -> str:
    """Say what is found of a step where it is not what is said of the whole."""
    return "" if finding is judged.worst else advice_on(judged.exercise, finding).told


def _drills(services: Services) -> Drills:
    """Return the sandbox's drills. Raises: PageNotFound, where there are none."""
    if services.drills is None:
        raise PageNotFound
    return services.drills


routes = (show, show_one, start)
