"""`payaccept diagnose`: say which signing rule a captured request broke."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from payaccept.cli import terminal
from payaccept.cli.capture import MAX_CAPTURE_BYTES, parse, read_input
from payaccept.cli.merchant_options import JsonOption, MerchantOption, credentials_of
from payaccept.sdk import keys
from payaccept.wire import timestamps
from payaccept.wire.capture import Capture, header_findings
from payaccept.wire.diagnosis import CapturedRequest, Finding
from payaccept.wire.diagnosis import diagnose as diagnose_signature


def diagnose(
    capture: Annotated[
        str, typer.Argument(metavar="FILE|-", help="Raw HTTP, or JSON of method, path, headers and body.")
    ],
    *,
    public_key: Annotated[
        list[str] | None,
        typer.Option("--public-key", metavar="[VERSION=]FILE", help="Registered key in PEM; repeatable."),
    ] = None,
    merchant: MerchantOption = None,
    json: JsonOption = False,
) -> None:
    """Say which signing rule a captured request broke. Without --public-key, the merchant's own key is used.

    Exit code 0 when every rule is kept, 1 when one is broken.
    """
    captured = parse(read_input(capture, MAX_CAPTURE_BYTES))
    if public_key:
        public_keys = _public_keys(public_key)
    else:
        of = credentials_of(merchant)
        public_keys = {of.key_version: of.private_key.public_key()}
    findings = examine(captured, public_keys)
    if json:
        terminal.print_json(
            {
                "verifies": not findings,
                "findings": [{"rule": f.rule, "explanation": f.explanation} for f in findings],
                "notes": captured.notes,
            }
        )
    else:
        _show(captured, findings)
    if findings:
        raise typer.Exit(terminal.FAILED)


def examine(captured: Capture, public_keys: Mapping[int, RSAPublicKey]) -> list[Finding]:
    """Return what is wrong: with the headers first, then with the signature; empty when nothing is."""
    findings = list(_header_findings(captured))
    if len(captured.values("Signature")) == 1:
        request = CapturedRequest(
            method=captured.method,
            path=captured.target,
            client_id=captured.first("Client-Id"),
            request_time=captured.first("Request-Time"),
            body=captured.body,
            signature_header=captured.first("Signature"),
            host=captured.first("Host"),
        )
        found = diagnose_signature(request, public_keys)
        if found is not None:
            findings.append(found)
    return findings


def _header_findings(captured: Capture) -> list[Finding]:
    findings = []
    if captured.method != "POST":
        findings.append(Finding("method", f"The method is {captured.method}; every operation takes POST."))
    findings += header_findings(captured)
    if captured.values("Request-Time"):
        try:
            timestamps.parse(captured.first("Request-Time"))
        except timestamps.TimestampMalformed as error:
            findings.append(Finding("request-time", f"Request-Time {error}."))
    return findings


def _show(captured: Capture, findings: list[Finding]) -> None:
    if findings:
        for found in findings:
            terminal.heading(found.rule, good=False)
            terminal.say(f"  {terminal.printable(found.explanation)}")
    else:
        terminal.heading("The signature verifies")
        sent_at = captured.first("Request-Time")
        terminal.say(f"  It was acceptable within 5 minutes of {terminal.printable(sent_at)}.")
    for each in captured.notes:
        terminal.note(f"Of the capture: {each}")


def _public_keys(given: list[str]) -> dict[int, RSAPublicKey]:
    """Read `VERSION=FILE` and `FILE`; keys without a version are numbered from 1 in the order given."""
    found: dict[int, RSAPublicKey] = {}
    for position, text in enumerate(given, start=1):
        version, equals, file = text.partition("=")
        if not (equals and version.isascii() and version.isdigit() and len(version) <= 9):  # noqa: PLR2004
            version, file = str(position), text
        if int(version) in found:
            raise terminal.Mistake(f"--public-key gives version {int(version)} twice")
        found[int(version)] = keys.load_public(Path(file))
    return found
