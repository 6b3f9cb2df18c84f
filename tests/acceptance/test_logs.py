"""No log of the real processes holds a word of a request, an auth code or a key, whatever went right or wrong."""

import asyncio
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from merchant import PREFIX, Merchant, compact, request_of
from processes import Sandbox, eventually
from traffic import Arrival, Receiver, respond

# Said somewhere in a request, in a webhook's answer or in a URL; each once as it would be found.
AUTH_CODES = [f"77{number:016d}" for number in range(11, 20)]
WORDS = {
    name: f"zz{name}zz"
    for name in (
        "description", "memo", "store", "address", "extra", "member", "twice", "path", "query", "product",
        "answer", "refusal", "reason", "agent", "malformed",
    )
}  # fmt: skip
SCRIPTS: tuple[dict[str, Any], ...] = (
    {"outcome": "SUCCESS"},
    {"outcome": "FAIL", "resultCode": "INSUFFICIENT_BALANCE"},
    {"outcome": "UNKNOWN", "delayMs": 300},
    {"outcome": "SUCCESS", "delayMs": 300},
    {"outcome": "SUCCESS", "webhook": ["duplicate", "tampered"]},
)


async def refuse(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    said = {"result": {"resultStatus": "F", "resultCode": WORDS["refusal"], "resultMessage": WORDS["reason"]}}
    await respond(writer, 200, compact(said), ("Content-Type", "application/json"))


async def fail(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    await respond(writer, 500, WORDS["answer"].encode())


def payments(hook: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Payments of all kinds, with something of ours in every field that takes it."""
    codes = iter(AUTH_CODES)
    for script in SCRIPTS:
        extend = json.dumps({"sandbox": script, "note": WORDS["extra"]})
        order = {
            "orderDescription": WORDS["description"],
            "orderMemo": WORDS["memo"],
            "transactionAddress": f"{WORDS['address']}||s||1||DE||Germany",
            "merchant": {"store": {"externalStoreId": WORDS["store"]}},
        }
        said = {
            "paymentNotifyUrl": hook,
            "extendInfo": extend,
            "order": order,
            "productCode": WORDS["product"],
            WORDS["member"]: WORDS["extra"],
        }
        for operation in ("createQROrder", "linkPayCreate"):
            yield operation, request_of(operation, **said)
        yield "retailPay", request_of("retailPay", **said, paymentAuthCode=next(codes))


def refused() -> Iterator[tuple[str, bytes]]:
    """Bodies that are refused for what they say, a code in every wrong place among them."""
    code = AUTH_CODES[-1]
    usual = request_of("retailPay", paymentAuthCode=code)
    long = f"{code} {code * 10}"
    twice = WORDS["twice"]
    for name in ("bizType", "codeType"):
        yield "createQROrder", compact({**request_of("createQROrder"), name: code})
    for changes in (
        *(
            {name: value}
            for name in ("paymentRequestId", "productCode", "paymentAuthCode")
            for value in (long, [code])
        ),
        *({name: value} for name in ("paymentNotifyUrl", "extendInfo") for value in (code, [code])),
        {"paymentAmount": {"currency": code, "value": code}},
        {"extendInfo": json.dumps({"sandbox": {code: 1}})},
        {"extendInfo": json.dumps({"sandbox": {"outcome": code}})},
        {"extendInfo": f'{{"{twice}":1,"{twice}":2}}'},
        {"order": {"latitude": code, "orderDescription": WORDS["description"] * 50}},
    ):
        yield "retailPay", compact({**usual, **changes})
    for body in (
        f'{{"{twice}":1,"{twice}":"{code}"}}',
        f'{{"a": {WORDS["malformed"]}',
        f'{{"a": "{code}\\u0000"}}',
        code,
    ):
        yield "retailPay", body.encode()
    yield "retailPay", b'{"a": "' + code.encode() + b'\xff"}'


def secrets_of(sandbox: Sandbox) -> Iterator[str]:
    """Keys as they could be written: line by line, and without their line ends."""
    for name in ("demo-merchant-key.pem", "master.key"):
        text = (sandbox.data_dir / name).read_text()
        lines = [line for line in text.splitlines() if line and not line.startswith("-----")]
        yield from lines
        yield "".join(lines)
    yield "PRIVATE KEY"


def logs_of(sandbox: Sandbox) -> dict[str, str]:
    files: list[Path] = [*(sandbox.data_dir / "logs").iterdir(), sandbox.output]
    return {path.name: path.read_text() for path in files}


@pytest.fixture(scope="module")
def merchant(sandbox: Sandbox) -> Merchant:
    merchant = sandbox.demo_merchant()
    sandbox.cli("merchant", "set", merchant.client_id, "--rate-limit", "none")
    return merchant


def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["result"]["resultCode"])


async def test_nothing_of_a_request_and_no_key_is_in_any_log(sandbox: Sandbox, merchant: Merchant) -> None:
    sandbox.cli("provider-key", "list")
    count = 0
    async with (
        Receiver(refuse=refuse, fail=fail) as receiver,
        httpx.AsyncClient(base_url=sandbox.base_url, timeout=20) as api,
    ):
        for behaviour in ("ok", "refuse", "fail"):
            hook = f"{receiver.base_url}/{behaviour}-{WORDS['path']}?{WORDS['query']}"
            # A destination that fails again and again is only tried now and then: few are enough of those.
            for operation, request in islice(payments(hook), 4 if behaviour == "fail" else None):
                assert code_of(await merchant.send(api, operation, request)) != "PARAM_ILLEGAL"
                assert code_of(await merchant.send(api, operation, request)) == "REPEAT_REQUEST"
                count += 1
        for operation, body in refused():
            assert code_of(await merchant.send(api, operation, body)) == "PARAM_ILLEGAL", body
        # What is signed wrongly is explained, and the explanation is logged.
        path = PREFIX + "retailPay"
        body = compact(request_of("retailPay", paymentAuthCode=AUTH_CODES[-1]))
        for headers in (
            {
                **merchant.headers(path, body),
                "Signature": f"algorithm=none, keyVersion=1, signature={WORDS['agent']}",
            },
            merchant.headers(path, body + b" "),
            merchant.headers(path, json.dumps(json.loads(body)).encode()),
        ):
            last = await api.post(path, content=body, headers=headers)
            assert code_of(last) == "INVALID_SIGNATURE"
        await eventually(lambda: len(receiver.by_event()) == count, "every payment's webhook has come")

    def is_logged() -> bool:
        logs = logs_of(sandbox)
        attempts = logs["worker.log"].count('"delivery attempt"')
        return last.headers["request-id"] in logs["api.log"] and attempts >= count

    await eventually(is_logged, "all of it is logged")
    for name, text in logs_of(sandbox).items():
        for said in (*AUTH_CODES, *WORDS.values(), *secrets_of(sandbox)):
            assert said not in text, f"{said} in {name}"


def test_every_line_is_a_json_object_that_says_what_happened(sandbox: Sandbox) -> None:
    for name in ("api.log", "worker.log"):
        lines = [json.loads(line) for line in logs_of(sandbox)[name].splitlines()]
        assert lines
        for line in lines:
            assert line["event"]
            assert line["timestamp"].endswith("Z")
            if line["event"] in {"payment final", "delivery attempt"}:
                assert line["paymentId"].startswith("pay_")
                assert line["eventId"].startswith("evt_")
