"""What a drill teaches: why each exercise is there, what a finding means, and how to mend it."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from payaccept.domain.drill import Exercise, Finding, Judged, Verdict


class Lesson(Struct, frozen=True):
    """What an exercise sends, what a receiver has to do about it, and why that matters."""

    title: str
    sent: str
    expected: str
    matters: str


class Advice(Struct, frozen=True, kw_only=True):
    """What a finding means and how to mend it; `section` is the one of docs/webhooks.md that says more."""

    told: str
    mend: str = ""
    section: str = ""
    code: str = ""


LESSONS: Final[dict[Exercise, Lesson]] = {
    Exercise.CORRECT: Lesson(
        "A correct notification",
        "A test event, signed rightly a moment ago.",
        "Acknowledge it: any 2xx, within 10 seconds.",
        "A payment that you do not acknowledge is told again for three days, and then not any more.",
    ),
    Exercise.DUPLICATE: Lesson(
        "The same one twice",
        "One event, twice: the same eventId and the same body, byte for byte, signed afresh.",
        "Acknowledge both, and act on the first alone.",
        "An acknowledgement can be lost on its way to us, and then the event comes again. Who refuses the repetition"
        " is sent it for three days; who acts on it ships twice.",
    ),
    Exercise.OUT_OF_ORDER: Lesson(
        "Two in the wrong order",
        "Two events; the later one, number 2, comes first.",
        "Acknowledge both as they come.",
        "Webhooks overtake each other. Who takes number 2 only after number 1 stands still when number 1 is late.",
    ),
    Exercise.TAMPERED: Lesson(
        "A body that was changed",
        "A right signature, and one digit of the body changed after signing.",
        "Refuse it with 401.",
        "Who does not notice can be told anything: that an order is paid which is not, by anybody who finds your"
        " endpoint.",
    ),
    Exercise.OLD: Lesson(
        "An old one, played back",
        "A right signature over a Request-Time of eleven minutes ago.",
        "Refuse it with 401.",
        "A signature does not age. Whoever has recorded a webhook can send it again for ever, and only its time gives"
        " that away.",
    ),
    Exercise.UNKNOWN_KEY: Lesson(
        "A key that is not ours",
        "A right signature, by a key that we have never published.",
        "Refuse it with 401; you may fetch our keys anew before you do.",
        "Who skips the check when the key is unknown, or takes it from elsewhere, believes everybody who has a key.",
    ),
}

LABELS: Final = {
    Verdict.RIGHT: "Handled rightly",
    Verdict.WAITING: "To come",
    Verdict.OPEN: "Not proved",
    Verdict.CARE: "Right, with a weakness",
    Verdict.WRONG: "Handled wrongly",
}

VERIFYING: Final = """\
from payaccept.sdk import TestNotification, WebhookKeys
from payaccept.sdk.errors import KeysUnavailable, NotificationRefused
from payaccept.sdk.notifications import verify

KEYS = WebhookKeys.from_url("{keys_url}")  # once: it keeps them


def receive(path, headers, body):  # the body as it came, before anything has parsed it
    try:
        event = verify(body, headers, path=path, keys=KEYS)
    except NotificationRefused:
        return 401
    except KeysUnavailable:
        return 503  # it will come again
    if not isinstance(event, TestNotification):
        ...  # a payment is final: what you do about it, once for each event.event_id
    return 200
"""
REMEMBERING: Final = """\
def act(event, database):  # sqlite3 here; event is what verify has returned
    with database:  # one transaction: both or neither
        new = database.execute(
            "INSERT INTO events (event_id) VALUES (?) ON CONFLICT DO NOTHING", [event.event_id]
        ).rowcount
        if new:
            ...  # what you do about it
    return 200  # to a repetition, and to one that comes late, as to any other
"""

_ACCEPTED: Final = {
    Exercise.TAMPERED: Advice(
        told="You acknowledged a body that is not the one that was signed.",
        mend="Verify the signature over the bytes of the body as they came, before anything parses them. Answer 401"
        " when it does not verify.",
        section="verify-it",
        code=VERIFYING,
    ),
    Exercise.OLD: Advice(
        told="You acknowledged a webhook of eleven minutes ago.",
        mend="Refuse a Request-Time that is more than ten minutes from your clock, with 401, and keep that clock right"
        " with NTP.",
        section="verify-it",
        code=VERIFYING,
    ),
    Exercise.UNKNOWN_KEY: Advice(
        told="You acknowledged a signature by a key that is not ours.",
        mend="Choose the key by the keyVersion of the Signature header, among those that we publish. When it is not"
        " there, fetch the list once more, and then answer 401.",
        section="our-keys",
        code=VERIFYING,
    ),
}
_REPETITIONS: Final = {
    Exercise.DUPLICATE: "A repetition is no mistake of ours: answer it like the first.",
    Exercise.OUT_OF_ORDER: "Let neither the number nor the time of an event decide whether you take it.",
}

_ADVICE: Final[dict[Finding, Advice]] = {
    Finding.ACKNOWLEDGED: Advice(told="You acknowledged it, as you should."),
    Finding.REFUSED: Advice(told="You refused it, as you should."),
    Finding.TO_COME: Advice(told="Still to come."),
    Finding.UNDER_WAY: Advice(told="Sent; your answer is awaited."),
    Finding.REFUSES_ALL: Advice(
        told="You did not take it, but neither did you take a right one: so this proves nothing.",
        mend="Mend the first exercise, and start the drill again.",
    ),
    Finding.INTERRUPTED: Advice(
        told="Our worker was stopped while it was sending, so that nobody knows what you answered.",
        mend="Start the drill again.",
    ),
    Finding.NOT_SENT: Advice(told="Not sent.", mend="Mend what was found first, and start the drill again."),
    Finding.SLOW: Advice(
        told="Right, but slowly: more than 5 seconds. After 10 it would not have counted.",
        mend="Store the event and answer. What takes longer is done afterwards.",
        section="acknowledge-it",
    ),
    Finding.REFUSED_IN_BODY: Advice(
        told="You said no in the body of a 2xx. That counts, but a proxy or a monitor on the way takes it for a yes.",
        mend="Answer 401 to what you refuse.",
        section="verify-it",
    ),
    Finding.REFUSED_BY_REDIRECT: Advice(
        told="You answered with a redirect, which acknowledges nothing; whether you have verified anything it does"
        " not tell.",
        mend="Answer 401 to what you refuse.",
        section="verify-it",
    ),
    Finding.REFUSED_BY_FAULT: Advice(
        told="You did not take it, but as a server does that has broken down: it may be no check that stopped it.",
        mend="Answer 401 to what you refuse. Only when our keys cannot be fetched is 503 right.",
        section="verify-it",
    ),
    Finding.REFUSED_BY_SILENCE: Advice(
        told="You did not take it, but gave no answer: it may be no check that stopped it.",
        mend="Answer 401 to what you refuse.",
        section="verify-it",
    ),
    Finding.NOT_ACKNOWLEDGED: Advice(
        told="You refused what is right: it was signed by us, in time, for this address.",
        mend="401 from your own check: sign the string over the path of the address above, without host and query,"
        " and over the body as it came. Another status, or one that your program does not know of: look at what stands"
        " before it, and whether the path is right.",
        section="verify-it",
        code=VERIFYING,
    ),
    Finding.SAYS_NO: Advice(
        told="You answered 2xx with a body that says no: its result.resultStatus is there and is not S.",
        mend="Leave the body empty, or answer resultStatus S.",
        section="acknowledge-it",
    ),
    Finding.REDIRECTED: Advice(
        told="You answered with a redirect, and redirects are not followed.",
        mend="Configure the address that it leads to: with https at once, and with or without the last slash as your"
        " server wants it.",
        section="acknowledge-it",
    ),
    Finding.FAULT: Advice(
        told="Your server says that it has broken down, or has too much to do.",
        mend="Look into its log at this time. Five such answers in a row, and we send you one at a time until it is"
        " back.",
        section="acknowledge-it",
    ),
    Finding.NO_ANSWER: Advice(
        told="No complete answer came.",
        mend="See that the address can be reached from the internet, that its certificate is valid, and that your"
        " program answers within 10 seconds.",
        section="acknowledge-it",
    ),
}


def advice_on(exercise: Exercise, finding: Finding) -> Advice:
    """Return what a finding means in an exercise."""
    if finding is Finding.ACCEPTED:
        return _ACCEPTED[exercise]
    advice = _ADVICE[finding]
    if finding is Finding.NOT_ACKNOWLEDGED and exercise in _REPETITIONS:
        return Advice(
            told=advice.told,
            mend=f"{_REPETITIONS[exercise]} Keep each eventId that you have dealt with, and acknowledge whatever is"
            " signed rightly.",
            section="at-least-once-in-no-promised-order",
            code=REMEMBERING,
        )
    return advice


def sum_up(judged: Sequence[Judged]) -> tuple[str, Verdict]:
    """Say in a few words how a drill that has ended went, and which verdict that is."""
    for verdict in (Verdict.WRONG, Verdict.OPEN, Verdict.CARE):
        count = sum(one.verdict is verdict for one in judged)
        if count:
            label = LABELS[verdict]
            return f"{count} of {len(judged)} {label[0].lower()}{label[1:]}", verdict
    return f"All {len(judged)} handled rightly", Verdict.RIGHT
