"""`payaccept listen`: a webhook receiver for the time of developing."""

import signal
import sys
import threading
from datetime import UTC
from typing import Annotated, Any

import typer

from payaccept.cli import terminal
from payaccept.cli.merchant_options import JsonOption, MerchantOption, credentials_of, default_file
from payaccept.cli.receiver import Received, Receiver, Rules
from payaccept.sdk import TestNotification, WebhookKeys

KEYS_PATH = "/.well-known/payaccept/webhook-keys"


def listen(
    *,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 9000,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS")] = "127.0.0.1",
    path: Annotated[
        str | None, typer.Option("--path", help="Take webhooks on this path alone; on every path by default.")
    ] = None,
    keys_url: Annotated[
        str | None, typer.Option("--keys-url", metavar="URL", help="Where the service publishes its keys.")
    ] = None,
    fail: Annotated[
        int,
        typer.Option("--fail", min=0, metavar="N", help="Answer the first N with --status, to see retries."),
    ] = 0,
    status: Annotated[
        int | None,
        typer.Option(
            "--status", min=200, max=599, metavar="CODE", help="Answer with this status (--fail: 500)."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, metavar="N", help="End after N webhooks.")
    ] = None,
    merchant: MerchantOption = None,
    json: JsonOption = False,
) -> None:
    """Receive webhooks, verify and show them: 200 for a verified one, 401 for one not to be believed.

    With --count the exit code is 1 when any of them was refused. Ctrl-C ends it.
    """
    if path is not None and (not path.startswith("/") or "?" in path):
        raise terminal.Mistake("--path takes a path such as /webhooks, without host and query")
    if keys_url is None:
        if merchant is None and not default_file().exists():
            raise terminal.Mistake(
                "whose webhooks? Start `payaccept sandbox`, or give --keys-url URL or --merchant FILE"
            )
        of = credentials_of(merchant)
        keys_url = of.webhook_keys_url or f"{of.base_url.rstrip('/')}{KEYS_PATH}"
    try:
        keys = WebhookKeys.from_url(keys_url, allow_http=True)
    except ValueError as error:
        raise terminal.Mistake(f"--keys-url {error}") from None
    rules = Rules(keys=keys, path=path, fail_first=fail, status=status or (500 if fail else None))
    _serve(host, port, rules, count, json=json)


def _serve(host: str, port: int, rules: Rules, count: int | None, *, json: bool) -> None:
    tally = {"verified": 0, "refused": 0}
    lock = threading.Lock()

    def on_received(received: Received) -> bool:
        """Show one; true when it was the last."""
        with lock:
            if count is not None and sum(tally.values()) >= count:
                return True
            tally["refused" if received.refusal else "verified"] += 1
            _show(received, json=json)
            return count is not None and sum(tally.values()) >= count

    try:
        receiver = Receiver((host, port), rules, on_received)
    except OSError as error:
        raise terminal.Failed(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        _announce(host, receiver.server_address[1], rules.path or "/", json=json)
        receiver.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        # Ctrl-C is how this command is meant to end.
        sys.stderr.write("\n")
    finally:
        receiver.server_close()
    if not json:
        terminal.note(f"{tally['verified']} verified, {tally['refused']} refused")
    if count is not None and tally["refused"]:
        raise typer.Exit(terminal.FAILED)


def _announce(host: str, port: int, path: str, *, json: bool) -> None:
    shown_host = f"[{host}]" if ":" in host else host
    url = f"http://{shown_host}:{port}{path}"
    if json:
        terminal.print_json({"listening": url}, one_line=True)
        return
    terminal.heading(f"Listening on {url}")
    terminal.note(f"Try: payaccept pay qr --notify-url {url}    (Ctrl-C ends)")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _show(received: Received, *, json: bool) -> None:
    body = received.notification
    if json:
        members = {
            "receivedAt": received.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "path": received.path,
            "attempt": received.attempt,
            "sequence": received.sequence,
            "verified": received.refusal is None,
            "reason": None if received.refusal is None else str(received.refusal),
            "answered": received.status,
            "notification": body,
        }
        terminal.print_json(members, one_line=True)
        return
    clock = received.at.replace(tzinfo=UTC).astimezone().strftime("%H:%M:%S")
    answered = f"attempt {received.attempt or '?'}, answered {received.status}"
    if body is None:
        kind = type(received.refusal).__name__
        terminal.heading(f"{clock}  NOT VERIFIED, {answered}", good=False)
        terminal.rows([("reason", f"{kind}: {received.refusal}"), ("path", received.path)])
        return
    if isinstance(body, TestNotification):
        terminal.heading(f"{clock}  {body.event_type}  verified, {answered}")
        terminal.rows(
            [
                ("test", "webhooks arrive here and verify; no payment is behind this one"),
                ("clientId", body.client_id),
                ("createTime", body.create_time),
                ("eventId", body.event_id),
                ("sequence", received.sequence),
            ]
        )
        return
    terminal.heading(
        f"{clock}  {body.event_type}  verified, {answered}", good=body.payment_status == "SUCCESS"
    )
    amount = body.payment_amount
    terminal.rows(
        [
            ("paymentId", body.payment_id),
            ("paymentRequestId", body.payment_request_id),
            ("amount", f"{amount.currency} {amount.value} (minor units)"),
            ("paymentTime", body.payment_time),
            ("resultCode", body.result.result_code),
            ("eventId", body.event_id),
            ("sequence", received.sequence),
        ]
    )
