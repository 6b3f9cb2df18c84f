"""What the pages of payments show besides the payments: what is looked for, the steps of a story, a command."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET, Struct

from payaccept.domain import payment_search
from payaccept.domain.doctor import Verdict
from payaccept.domain.merchant import KeyState, MerchantKey
from payaccept.domain.payment import PaymentState
from payaccept.domain.payment_search import ListedPayment, PaymentSearch
from payaccept.domain.scenario import Outcome, Scenario
from payaccept.operations import payment_story
from payaccept.operations.payment_story import Asked, Attempted, Checked, Expected, Received, Step, Story
from payaccept.portal.amounts import write_amount
from payaccept.portal.commands import signed_request
from payaccept.portal.webhook_views import AttemptRow, attempt_row_of, duration
from payaccept.wire.codes import ResultStatus

MOST_SHOWN: Final = 4096
"""So many characters of a body are shown: what a request needs has less than half of that."""

KINDS: Final = {PaymentState.SUCCESS: "good", PaymentState.FAIL: "bad", PaymentState.PROCESSING: "busy"}
_ANSWERS: Final = {
    None: "warn",
    ResultStatus.S: "good",
    ResultStatus.A: "good",
    ResultStatus.F: "bad",
    ResultStatus.U: "warn",
}
_LABELS: Final = {
    "state": "State",
    "operation": "Operation",
    "currency": "Currency",
    "amount": "Amount",
    "from": "From",
    "until": "Until",
    "store": "Store",
}


class PaymentRow(Struct, frozen=True, kw_only=True):
    """A payment as it is listed."""

    payment: ListedPayment
    amount: str
    kind: str


def row_of(payment: ListedPayment, locale: str) -> PaymentRow:
    """Return a payment as it is listed, its amount as people of a locale write it."""
    return PaymentRow(
        payment=payment,
        amount=write_amount(payment.currency, payment.amount_minor, locale),
        kind=KINDS[payment.state],
    )


class Chip(Struct, frozen=True, kw_only=True):
    """One thing that is looked for, and the query of the search without it."""

    label: str
    value: str
    without: str


def chips_of(search: PaymentSearch) -> list[Chip]:
    """Return what is looked for, thing by thing; an amount goes with its currency."""
    fields = search.to_fields()
    chips = []
    for name, value in fields.items():
        if name == "currency" and "amount" in fields:
            continue
        rest = {other: text for other, text in fields.items() if other != name}
        written = f"{value} {fields['currency']}" if name == "amount" else value
        chips.append(Chip(label=_LABELS[name], value=written, without=_query(rest)))
    return chips


def state_tabs(search: PaymentSearch) -> list[tuple[str, str, bool]]:
    """Return the states with the query of the same search for each, and which is looked for."""
    rest = {name: value for name, value in search.to_fields().items() if name != "state"}
    tabs = [("All", _query(rest), search.state is None)]
    return tabs + [
        (state.value, _query(rest | {"state": state.value}), search.state is state) for state in PaymentState
    ]


def _query(fields: dict[str, str]) -> str:
    return payment_search.read(fields)[0].to_query()


class StepView(Struct, frozen=True, kw_only=True):
    """A step of a story as it is shown. `after` is how long after the request; `kind` is the colour of its mark."""

    tag: str
    step: Step
    kind: str
    after: str
    told: str = ""
    attempt: AttemptRow | None = None


def steps_of(story: Story, now: datetime) -> list[StepView]:
    """Return the steps of a story as they are shown."""
    return [_view(step, story.payment.created_at, now) for step in story.steps]


def _view(step: Step, began: datetime, now: datetime) -> StepView:
    kind, told, attempt = "plain", "", None
    match step:
        case Received():
            kind = "good"
        case Checked():
            kind, told = _checked(step)
        case Asked():
            told = script_in_words(step.script, step.operation)
        case payment_story.Answered():
            kind = _ANSWERS[None if step.result is None else step.result.result_status]
        case payment_story.Settled():
            kind = KINDS[step.state]
        case payment_story.Notified():
            kind = "good"
        case Attempted():
            attempt = attempt_row_of(step.made)
            kind = attempt.kind
        case Expected():
            kind = "busy"
            told = "any moment" if step.at <= now else f"in {duration(step.at - now)}"
    after = "" if step.at <= began or isinstance(step, Expected) else f"+{duration(step.at - began)}"
    tag = str(step.__struct_config__.tag)
    return StepView(tag=tag, step=step, kind=kind, after=after, told=told, attempt=attempt)


def _checked(step: Checked) -> tuple[str, str]:
    if step.examination is None:
        return "plain", (
            "They were made when the request came. What it takes to make them again was not kept of payments this old."
        )
    checks = step.examination.checks
    kept = sum(check.verdict is Verdict.KEPT for check in checks)
    if kept == len(checks):
        return "good", f"It passed all {len(checks)}: here they are made again, with your keys as they were."
    return "warn", (
        f"It passed all {len(checks)} when it came. Made again by today's rules, {len(checks) - kept} would not hold."
    )


def script_in_words(script: Scenario | None, operation: str) -> str:
    """Say what the sandbox's wallet does with a payment; nothing in production, where wallets have their own mind."""
    if script is None:
        return ""
    later = (
        ""
        if script.delay_ms is UNSET
        else f", {duration(timedelta(milliseconds=script.delay_ms))} after it came"
    )
    own = "at once" if operation == "retailPay" else "by itself after a moment"
    match script.outcome:
        case Outcome.MANUAL:
            said = "Its script waits for somebody to approve or decline it in the simulated wallet."
        case Outcome.UNKNOWN:
            end = "has paid" if script.failure is None else f"has failed with {script.failure}"
            said = (
                f"Its script leaves it unknown at first; asked again, the wallet says that it {end}{later}."
            )
        case Outcome.FAIL:
            said = f"Its script lets it fail with {script.failure}{later}."
        case Outcome.SUCCESS:
            said = (
                f"It is paid {own}, for nothing else is scripted."
                if not later
                else f"Its script pays it{later}."
            )
    faults = ", ".join(script.webhook)
    return f"{said} Its webhook is to be {faults}." if faults else said


class Command(Struct, frozen=True):
    """The commands that send a payment's request again; `text` is empty when it is too long to be copied."""

    text: str
    key_version: int


def command_of(received: Received, keys: Sequence[MerchantKey], api_base_url: str) -> Command:
    """Return the commands that sign the same body anew, under its key, or the youngest active one."""
    active = [key.key_version for key in keys if key.state is KeyState.ACTIVE]
    version = received.key_version
    if version is None or (version not in active and active):
        version = max(active, default=1)
    body = received.body.decode()
    if len(body) > MOST_SHOWN:
        return Command("", version)
    operation = received.path.rpartition("/")[2]
    client_id = dict(received.headers)["Client-Id"]
    return Command(signed_request(api_base_url, client_id, version, operation, body), version)


def text_of(received: Received) -> str:
    """Write a request as raw HTTP, as far as it is kept."""
    head = "\n".join([f"POST {received.path}", *(f"{name}: {value}" for name, value in received.headers)])
    return f"{head}\n\n{shown(received.body)}"


def shown(body: bytes) -> str:
    """Return a body as text, cut where nobody reads on."""
    text = body.decode("utf-8", "replace")
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
