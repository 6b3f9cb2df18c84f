"""`payaccept wallet`: play the customer of the simulated wallet."""

from datetime import datetime
from typing import Annotated

import typer

from payaccept.cli import terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer
from payaccept.cli.merchant_options import JsonOption
from payaccept.cli.terminal import Mistake
from payaccept.domain.payment import Declined, Paid, Payment
from payaccept.wire.codes import PAYMENT_FAILURES, ResultCode
from payaccept.wiring import Administration

app = typer.Typer(
    help="Play the customer of the simulated wallet.", no_args_is_help=True, rich_markup_mode=None
)

PaymentArgument = Annotated[
    str, typer.Argument(metavar="PAYMENT", help="paymentId, acquirementId, or the text of a QR code.")
]


def _play(
    payment: str, outcome: Paid | Declined, *, dd: DataDirOption, url: DatabaseUrlOption, json: bool
) -> None:
    async def work(administration: Administration, now: datetime) -> Payment:
        return await administration.payments.play_customer(
            payment, outcome, administration.webhook_url_of, now
        )

    played = administer(dd, url, work)
    status = "SUCCESS" if isinstance(outcome, Paid) else "FAIL"
    if json:
        terminal.print_json({"paymentId": played.payment_id, "paymentStatus": status})
        return
    terminal.heading("Paid." if status == "SUCCESS" else "Declined.", good=status == "SUCCESS")
    terminal.rows(
        [
            ("paymentId", played.payment_id),
            ("amount", f"{played.currency} {played.amount_minor} (minor units)"),
            ("paymentStatus", status),
            ("failureCode", outcome.code if isinstance(outcome, Declined) else None),
        ]
    )


@app.command()
def approve(
    payment: PaymentArgument,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Pay, as the customer."""
    _play(payment, Paid(), dd=data_dir, url=database_url, json=json)


@app.command()
def decline(
    payment: PaymentArgument,
    reason: Annotated[
        str, typer.Option("--reason", metavar="CODE", help="The result code the payment fails with.")
    ] = ResultCode.USER_REJECTED,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Decline, as the customer or the customer's bank."""
    if reason not in PAYMENT_FAILURES:
        raise Mistake(f"--reason must be one of {', '.join(sorted(PAYMENT_FAILURES))}")
    _play(payment, Declined(ResultCode(reason)), dd=data_dir, url=database_url, json=json)


@app.command()
def code(
    data_dir: DataDirOption = None, database_url: DatabaseUrlOption = None, json: JsonOption = False
) -> None:
    """Make a code to be scanned at a till (paymentAuthCode): it works once, for 60 seconds."""

    async def work(administration: Administration, now: datetime) -> str:
        return await administration.wallet.issue_code(now)

    issued = administer(data_dir, database_url, work)
    if json:
        terminal.print_json({"paymentAuthCode": issued})
        return
    terminal.say(issued)
    terminal.note(f"Within 60 s: payaccept pay retail --auth-code {issued}")
