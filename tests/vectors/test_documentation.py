"""docs/signing.md shows the golden values, its programs run, and it names every mistake that is diagnosed."""

import ast
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from vectors import golden

ROOT = golden.HERE.parent.parent
PAGE = (ROOT / "docs" / "signing.md").read_text(encoding="utf-8")
VECTOR = golden.REQUESTS[0]
WEBHOOK = golden.NOTIFICATIONS[0]
ASKED = {
    "path": VECTOR["path"],
    "clientId": VECTOR["clientId"],
    "requestTime": VECTOR["requestTime"],
    "body": VECTOR["body"],
    "privateKeyPem": golden.PRIVATE_KEY_FILE.read_text(),
    "keyVersion": golden.KEY_VERSION,
}


def block(marker: str) -> str:
    """The code block below `<!-- marker -->`."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)\n```\n", PAGE, re.DOTALL)
    assert found is not None, marker
    return found[1]


def run(command: str, *arguments: str | Path, cwd: Path) -> str:
    found = shutil.which(command)
    if found is None:
        pytest.skip(f"the {command} command is not installed, so the page's program cannot be run")
    done = subprocess.run([found, *arguments], check=True, capture_output=True, cwd=cwd, timeout=60)
    return done.stdout.decode()


def test_the_page_shows_the_golden_values():
    assert block("vector: body") == VECTOR["body"]
    assert block("vector: signing string") == VECTOR["signingString"]
    assert f"{len(golden.signed(VECTOR))} bytes long" in PAGE
    assert block("vector: SHA-256") == VECTOR["signingStringSha256"]
    assert block("vector: headers").splitlines() == [
        f"Client-Id: {VECTOR['clientId']}",
        f"Request-Time: {VECTOR['requestTime']}",
        f"Signature: {VECTOR['signatureHeader']}",
        "Content-Type: application/json",
    ]


def test_the_openssl_commands_give_the_golden_signature(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed, so the page's commands cannot be run")
    shutil.copy(golden.PRIVATE_KEY_FILE, tmp_path)
    script = tmp_path / "sign.sh"
    script.write_text("set -eu\n" + block("tested: openssl") + '\nprintf %s "$signature"\n', encoding="utf-8")
    assert run("sh", script, cwd=tmp_path) == golden.signature_text(VECTOR)


def test_the_node_program_gives_the_golden_header(tmp_path):
    program = tmp_path / "sign.mjs"
    call = f"\nprocess.stdout.write(signatureHeader({json.dumps(ASKED)}));\n"
    program.write_text(block("tested: node") + call, encoding="utf-8")
    assert run("node", program, cwd=tmp_path) == VECTOR["signatureHeader"]


def test_the_python_program_gives_the_golden_header(tmp_path):
    program = tmp_path / "sign.py"
    program.write_text(block("tested: python"), encoding="utf-8")
    signature_header = runpy.run_path(str(program))["signature_header"]
    header = signature_header(
        VECTOR["path"],
        VECTOR["clientId"],
        VECTOR["requestTime"],
        golden.body(VECTOR),
        golden.PRIVATE_KEY_FILE.read_bytes(),
        golden.KEY_VERSION,
    )
    assert header == VECTOR["signatureHeader"]


def test_the_node_webhook_program_accepts_the_golden_one_and_nothing_else(tmp_path):
    program = tmp_path / "verify.mjs"
    right = {
        "path": WEBHOOK["path"],
        "requestTime": WEBHOOK["requestTime"],
        "signatureHeader": WEBHOOK["signatureHeader"],
        "body": WEBHOOK["bodyBase64"],
        "now": WEBHOOK["requestTime"],
        "version": golden.KEY_VERSION,
    }
    cases = [
        right,
        right | {"now": "2026-03-01T09:40:02Z"},
        right | {"now": "2026-03-01T09:40:02.001Z"},
        right | {"now": "2026-03-01T09:20:01Z"},
        right | {"path": "/hooks/pay/"},
        right | {"body": WEBHOOK["bodyBase64"][4:]},
        right | {"version": 4},
        right | {"signatureHeader": WEBHOOK["signatureHeader"] + "=="},
        right | {"requestTime": "never"},
    ]
    call = f"""
const pem = {json.dumps(golden.PUBLIC_KEY_FILE.read_text())};
console.log(JSON.stringify({json.dumps(cases)}.map((each) => isOurs({{
  ...each, now: Date.parse(each.now), rawBody: Buffer.from(each.body, 'base64'),
  publicKeyPemOf: (version) => (version === each.version ? pem : undefined),
}}))));
"""
    program.write_text(block("tested: node webhook") + call, encoding="utf-8")
    assert json.loads(run("node", program, cwd=tmp_path)) == [True, True] + [False] * 7


def test_the_openssl_webhook_commands_verify_the_golden_one(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed, so the page's commands cannot be run")
    (tmp_path / "body").write_bytes(golden.body(WEBHOOK))
    variables = {
        "hook_path": WEBHOOK["path"],
        "request_time": WEBHOOK["requestTime"],
        "signature_header": WEBHOOK["signatureHeader"],
        "body_file": "body",
        "public_key_file": str(golden.PUBLIC_KEY_FILE),
    }
    script = tmp_path / "verify.sh"
    assigned = "".join(f"{name}='{content}'\n" for name, content in variables.items())
    script.write_text("set -eu\n" + assigned + block("tested: openssl webhook") + "\n", encoding="utf-8")
    assert run("sh", script, cwd=tmp_path).strip() == "Verified OK"


# Where the name of a rule stands among the arguments of what builds a finding.
POSITION_OF_RULE = {"Fault": 0, "Finding": 0, "_layout": 0, "Change": 2, "add": 1}


def rules_in_the_code() -> set[str]:
    rules = set()
    for name in ("diagnosis", "header_reading", "body_variants", "signed_variants"):
        source = (ROOT / "src" / "payaccept" / "wire" / f"{name}.py").read_text(encoding="utf-8")
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            position = POSITION_OF_RULE.get(getattr(call.func, "id", ""))
            if position is not None and len(call.args) > position:
                rule = call.args[position]
                if isinstance(rule, ast.Constant) and rule.value:
                    rules.add(rule.value)
    return rules


def test_the_page_names_every_mistake_and_no_other():
    tables = PAGE[PAGE.index("## When the signature is refused") :]
    first_columns = " ".join(re.findall(r"^\| (`[^|]*)\|", tables, re.MULTILINE))
    named = set(re.findall(r"`([a-z][a-z0-9-]+)`", first_columns))
    assert named | {"unexplained"} == rules_in_the_code()
    assert "`unexplained`" in tables
