"""How a drill is shown: in the API's spelling, and in lines for a person."""

from collections.abc import Sequence
from typing import Any

from payaccept.cli import terminal
from payaccept.domain.delivery import Answered, reason_of
from payaccept.domain.drill import Drill, Judged, Step, Verdict, verdict_of
from payaccept.domain.drill_lessons import LABELS, LESSONS, advice_on, sum_up
from payaccept.wire import timestamps


def drill_json(drill: Drill, judged: Sequence[Judged]) -> dict[str, Any]:
    """Show a drill in the API's spelling."""
    return {
        "drillId": drill.drill_id,
        "clientId": drill.client_id,
        "url": drill.url,
        "createTime": timestamps.write(drill.created_at),
        "endTime": None if drill.ended_at is None else timestamps.write(drill.ended_at),
        "exercises": [_judged_json(one) for one in judged],
    }


def _judged_json(one: Judged) -> dict[str, Any]:
    advice = advice_on(one.exercise, one.worst)
    return {
        "exercise": one.exercise,
        "verdict": one.verdict,
        "told": advice.told,
        "mend": advice.mend or None,
        "notifications": [_step_json(step) | {"finding": finding} for step, finding in one.steps],
    }


def _step_json(step: Step) -> dict[str, Any]:
    outcome = step.outcome
    return {
        "eventId": step.event_id,
        "sequence": step.sequence,
        "attempt": step.attempt,
        "sendTime": None if step.sent_at is None else timestamps.write(step.sent_at),
        "status": outcome.status if isinstance(outcome, Answered) else None,
        "reason": None if outcome is None else reason_of(outcome),
        "totalUs": None if outcome is None else step.total_us,
        "answerBytes": None if outcome is None else step.answer_bytes,
    }


def print_drill(drill: Drill, judged: Sequence[Judged]) -> None:
    """Print a line for each exercise, and below them what there is to mend."""
    told, verdict = sum_up(judged)
    terminal.heading(f"{told}.", good=verdict in {Verdict.RIGHT, Verdict.CARE})
    titles = [LESSONS[one.exercise].title for one in judged]
    width = max(map(len, titles))
    labels = max(map(len, LABELS.values()))
    for one, title in zip(judged, titles, strict=True):
        came = ", ".join(_came(step) for step, _ in one.steps)
        terminal.say(
            f"  {title.ljust(width)}  {LABELS[one.verdict].ljust(labels)}  {terminal.printable(came)}"
        )
    for one, title in zip(judged, titles, strict=True):
        advice = advice_on(one.exercise, one.worst)
        if verdict_of(one.worst) not in {Verdict.RIGHT, Verdict.WAITING}:
            terminal.say()
            terminal.say(f"{title}: {advice.told}")
            terminal.say(f"  {advice.mend}")
            terminal.say(f"  Why: {LESSONS[one.exercise].matters}")
    terminal.note(f"Sent to {drill.url}. What exactly was sent stands in the portal, under Webhooks.")


def _came(step: Step) -> str:
    if step.outcome is None:
        return "not known" if step.sent_at else "not sent"
    return f"{reason_of(step.outcome)} after {step.total_us / 1000:.1f} ms"
