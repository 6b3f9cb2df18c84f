"""The pages of keys: uploading, proving, watching, rotating, deactivating; and who may."""

import base64
import html
import itertools
import re
import subprocess
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from deployment import fetch_all, recorder_of, run_sql
from merchant import Merchant, private_key, public_pem
from payaccept.domain.merchant import KeyState
from payaccept.domain.user import Role
from payaccept.operations.provider_keys import list_published
from visitor import Seen

fresh = itertools.count(7000)


@pytest.fixture
def private() -> rsa.RSAPrivateKey:
    return private_key(next(fresh))


def pem_of(key: rsa.RSAPrivateKey) -> str:
    return public_pem(key).decode()


def private_pem(key: rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def signed(key: rsa.RSAPrivateKey, seen: Seen) -> str:
    """What the command of a page prints."""
    text = re.findall(r"payaccept key proof \S+ keyVersion=\d+ [0-9a-f]{32}", seen.html)[0]
    return base64.encodebytes(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())).decode()


async def upload(visitor, home: str, pem: str) -> Seen:
    return await visitor.fill(f"{home}/keys/new", f"{home}/keys/new", pem=pem)


async def upload_file(visitor, path: str, content: bytes, **fields: str) -> Seen:
    page = await visitor.get(path.removesuffix("/verdict").removesuffix("/new") + "/new")
    token = page.forms[-1].fields["csrf"]
    answer = await visitor.client.post(
        path,
        data={"csrf": token, **fields},
        files={"file": ("public-key.pem", content)},
        headers={"Origin": "http://portal.test"},
        follow_redirects=True,
    )
    return Seen(answer)


async def state_of(portal, client_id: str, version: int) -> KeyState:
    keys = await portal.services.merchants.list_keys(client_id)
    return next(key.state for key in keys if key.key_version == version)


async def add_active(portal, client_id: str) -> int:
    key = await portal.services.merchants.add_key(
        client_id, public_pem(private_key(next(fresh))), portal.clock()
    )
    return key.key_version


async def use(settings, client_id: str, version: int, at, times: int = 1, skew_s: float = 0.0) -> None:
    """What an API process records."""
    recorder = recorder_of(settings.database_url)
    for _ in range(times):
        recorder.used(client_id, version, at, timedelta(seconds=skew_s))
    await recorder.close()


# Uploading


async def test_an_uploaded_key_is_pending_and_becomes_active_by_a_signed_text(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    assert seen.path == f"{owner.home}/keys/1"
    assert "The key is good: it is keyVersion 1. One step is left." in seen.text
    assert "Waiting for proof" in seen.text
    assert await state_of(portal, owner.client_id, 1) is KeyState.PENDING
    seen = await visitor.send(seen, f"{owner.home}/keys/1/proof", signature=signed(private, seen))
    assert "Proved: keyVersion 1 is active." in seen.text
    assert await state_of(portal, owner.client_id, 1) is KeyState.ACTIVE
    assert "proof" not in [form.action.rpartition("/")[2] for form in seen.forms]


async def test_a_key_can_be_uploaded_as_a_file(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload_file(visitor, f"{owner.home}/keys/new", public_pem(private), pem="")
    assert seen.path == f"{owner.home}/keys/1"


async def test_either_a_text_or_a_file_is_wanted(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, "")
    assert (seen.status, "Paste the public key, or choose the file" in seen.text) == (422, True)
    seen = await upload_file(visitor, f"{owner.home}/keys/new", public_pem(private), pem=pem_of(private))
    assert (seen.status, "not both" in seen.text) == (422, True)


@pytest.mark.parametrize(
    ("pem", "told"),
    [
        ("hello", "This is no PEM"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "holds no readable public key"),
        (
            rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - to be refused
            .public_key()
            .public_bytes(Encoding.PEM, PublicFormat.PKCS1)
            .decode(),
            "The key has 1024 bits; exactly 2048 are required.",
        ),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "This is a certificate"),
    ],
)
async def test_a_key_that_is_not_good_is_told_why_and_stays_in_the_form(portal, pem, told):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem)
    assert seen.status == 422
    assert told in seen.text
    assert seen.form(f"{owner.home}/keys/new").fields["pem"].strip() == pem.strip()
    assert await portal.services.merchants.list_keys(owner.client_id) == []


async def test_a_private_key_is_told_to_be_spoilt_and_no_part_of_it_comes_back(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    pem = private_pem(private)
    for seen in (
        await upload(visitor, owner.home, pem),
        await upload_file(visitor, f"{owner.home}/keys/new", pem.encode(), pem=""),
        await upload_file(visitor, f"{owner.home}/keys/verdict", pem.encode(), pem=""),
    ):
        assert "do not use it. Make a new pair" in seen.response.text
        assert pem.splitlines()[3] not in seen.response.text


async def test_the_verdict_comes_while_the_form_is_filled_in_and_nothing_is_kept(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    good = (await upload_file(visitor, f"{owner.home}/keys/verdict", public_pem(private), pem="")).response
    assert good.json()["good"]
    assert "RSA with 2048 bits" in good.json()["text"]
    bad = (await upload_file(visitor, f"{owner.home}/keys/verdict", b"x", pem="")).response
    assert bad.json() == {
        "good": False,
        "text": "This is no PEM: it must start with -----BEGIN PUBLIC KEY-----.",
    }
    assert await portal.services.merchants.list_keys(owner.client_id) == []


async def test_the_same_key_is_taken_once(portal, private):
    owner, other = await portal.owner(), await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    seen = await visitor.send(seen, f"{owner.home}/keys/1/proof", signature=signed(private, seen))
    again = await upload(visitor, owner.home, pem_of(private))
    assert "registered already, as keyVersion 1" in again.text
    stranger = await other.browser()
    seen = await upload(stranger, other.home, pem_of(private))
    assert "registered already, to another merchant" in seen.text
    assert owner.client_id not in seen.html


# Proving


async def test_a_wrong_proof_is_told_what_is_wrong_beside_the_field(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    wrong = signed(private_key(1), seen)
    seen = await visitor.send(seen, f"{owner.home}/keys/1/proof", signature=wrong)
    assert seen.status == 422
    assert "signature-error" in seen.ids
    assert "made with another private key" in seen.text
    assert seen.form(f"{owner.home}/keys/1/proof").fields["signature"].split() == wrong.split()
    assert await state_of(portal, owner.client_id, 1) is KeyState.PENDING


async def test_a_private_key_as_a_proof_never_comes_back(portal, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    pem = private_pem(private)
    seen = await visitor.send(seen, f"{owner.home}/keys/1/proof", signature=pem)
    assert "make a new pair" in seen.text
    assert pem.splitlines()[3] not in seen.html


async def test_the_command_of_the_page_makes_the_proof(portal, private, tmp_path):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    (tmp_path / "private-key.pem").write_text(private_pem(private))
    [command] = [text for text in copyable(seen) if text.startswith("printf")]
    printed = subprocess.run(  # noqa: ASYNC221 - nothing else goes on
        ["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    seen = await visitor.send(seen, f"{owner.home}/keys/1/proof", signature=printed)
    assert "keyVersion 1 is active" in seen.text


def copyable(seen: Seen) -> list[str]:
    return [html.unescape(text) for text in re.findall(r'data-copy="([^"]*)"', seen.html)]


async def test_the_first_signed_request_activates_the_key_and_the_page_shows_it(
    portal, settings, kernel, api, private
):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    assert "keyVersion=1, signature=" in seen.text
    merchant = Merchant(owner.client_id)
    merchant.use_key(1, private)
    assert (await merchant.create(api, "createQROrder")).status_code == 200
    await kernel._refusals.flush()
    seen = await visitor.get(f"{owner.home}/keys/1")
    assert "Active" in seen.text
    assert "1 in the last hour, 100 % of yours; 1 in all" in seen.text
    audit = await visitor.get(f"{owner.home}/audit")
    assert "a signed request" in audit.text


async def test_a_key_that_waited_too_long_can_only_be_discarded(portal, clock, private):
    owner = await portal.owner()
    visitor = await owner.browser()
    await upload(visitor, owner.home, pem_of(private))
    clock.move(days=7)
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/keys/1")
    assert "has lapsed" in seen.text
    assert [form.action.rpartition("/")[2] for form in seen.forms if "keys" in form.action] == ["discard"]
    seen = await visitor.send(seen, f"{owner.home}/keys/1/discard")
    assert "keyVersion 1 is discarded." in seen.text
    assert "Former keys (1)" in seen.text
    seen = await upload(visitor, owner.home, pem_of(private))
    assert seen.path == f"{owner.home}/keys/2"


async def test_at_most_three_keys_wait(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    for _ in range(3):
        await upload(visitor, owner.home, pem_of(private_key(next(fresh))))
    seen = await upload(visitor, owner.home, pem_of(private_key(next(fresh))))
    assert "3 keys are waiting for their proof already" in seen.text


# Watching and rotating


async def test_the_list_tells_state_fingerprint_and_use(portal, settings, clock):
    owner = await portal.owner()
    version = await add_active(portal, owner.client_id)
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/keys")
    assert seen.text.count("Never") == 2
    [key] = await portal.services.merchants.list_keys(owner.client_id)
    assert key.fingerprint in copyable(seen)
    await use(settings, owner.client_id, version, clock(), 1234)
    seen = await visitor.get(f"{owner.home}/keys")
    assert "1,234" in seen.text
    assert "Never" not in seen.text
    assert "at most 1234 in a minute" in seen.text
    for told in (owner.client_id, "http://portal.test", portal.settings.api_base_url):
        assert told in copyable(seen)


async def test_our_webhook_keys_are_there_to_copy(portal, clock):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/keys")
    published = await list_published(portal.process._joined.merchant_store, clock())
    assert published
    for key in published:
        assert key.public_key_pem.strip() in [text.strip() for text in copyable(seen)]
    assert "Signs now" in seen.text
    assert f"{portal.settings.api_base_url}/.well-known/jwks.json" in copyable(seen)


def steps_of(seen: Seen) -> list[bool]:
    """Which steps of the rotation are done."""
    part = seen.html.split('id="rotation"')[1].split("</section>")[0]
    return ["done" in step for step in re.findall(r"<li[^>]*>", part)]


async def test_a_rotation_is_guided_from_the_new_key_to_the_end_of_the_old_one(
    portal, settings, clock, private
):
    owner = await portal.owner()
    visitor = await owner.browser()
    await add_active(portal, owner.client_id)
    await use(settings, owner.client_id, 1, clock(), 8)
    seen = await visitor.get(f"{owner.home}/keys")
    assert steps_of(seen) == [False, False, False, False]
    assert f"{owner.home}/keys/new" in seen.links

    await upload(visitor, owner.home, pem_of(private))
    seen = await visitor.get(f"{owner.home}/keys")
    assert steps_of(seen) == [True, False, False, False]
    assert "Prove keyVersion 2" in seen.text

    page = await visitor.get(f"{owner.home}/keys/2")
    await visitor.send(page, f"{owner.home}/keys/2/proof", signature=signed(private, page))
    await use(settings, owner.client_id, 2, clock(), 2)
    seen = await visitor.get(f"{owner.home}/keys")
    assert steps_of(seen) == [True, True, False, False]
    assert "keyVersion 2 signed 20 % of your requests" in seen.text
    assert "Not yet: it is still in use." in seen.text
    assert f"{owner.home}/keys/1#deactivate" not in seen.links

    clock.move(minutes=61)
    visitor = await owner.browser()
    await use(settings, owner.client_id, 2, clock(), 5)
    seen = await visitor.get(f"{owner.home}/keys")
    assert steps_of(seen) == [True, True, True, False]
    assert f"{owner.home}/keys/1#deactivate" in seen.links
    page = await visitor.get(f"{owner.home}/keys/1")
    assert "still in use" not in page.text
    seen = await visitor.send(page, f"{owner.home}/keys/1/deactivate")
    assert "keyVersion 1 is deactivated" in seen.text
    assert await state_of(portal, owner.client_id, 1) is KeyState.RETIRED


async def test_a_key_in_use_is_deactivated_only_when_that_is_meant(portal, settings, clock):
    owner = await portal.owner()
    for _ in range(2):
        await add_active(portal, owner.client_id)
    await use(settings, owner.client_id, 1, clock(), 340)
    visitor = await owner.browser()
    page = await visitor.get(f"{owner.home}/keys/1")
    assert "It is still in use: 340 requests in the last hour" in page.text
    seen = await visitor.send(page, f"{owner.home}/keys/1/deactivate")
    assert seen.status == 422
    assert "Say that you mean it" in seen.text
    assert await state_of(portal, owner.client_id, 1) is KeyState.ACTIVE
    await visitor.send(seen, f"{owner.home}/keys/1/deactivate", sure="yes")
    assert await state_of(portal, owner.client_id, 1) is KeyState.RETIRED


async def test_the_last_key_is_deactivated_only_when_that_is_meant(portal):
    owner = await portal.owner()
    await add_active(portal, owner.client_id)
    visitor = await owner.browser()
    page = await visitor.get(f"{owner.home}/keys/1")
    assert "It is your only active key." in page.text
    assert (await visitor.send(page, f"{owner.home}/keys/1/deactivate")).status == 422
    await visitor.send(page, f"{owner.home}/keys/1/deactivate", sure="yes")
    assert await state_of(portal, owner.client_id, 1) is KeyState.RETIRED
    seen = await visitor.post(
        f"{owner.home}/keys/1/deactivate", {"csrf": page.forms[-1].fields["csrf"], "sure": "yes"}
    )
    assert "That key is not active." in seen.text


# Who may


async def test_viewers_see_keys_and_change_nothing(portal, private):
    owner = await portal.owner()
    await add_active(portal, owner.client_id)
    await upload(await owner.browser(), owner.home, pem_of(private))
    viewer = await (await portal.colleague(owner, Role.VIEWER)).browser()
    seen = await viewer.get(f"{owner.home}/keys")
    assert "keyVersion 1" in seen.text
    assert f"{owner.home}/keys/new" not in seen.links
    for version in (1, 2):
        seen = await viewer.get(f"{owner.home}/keys/{version}")
        assert [form for form in seen.forms if "/keys/" in form.action] == []
    assert "payaccept key proof" not in seen.html


async def test_another_merchants_key_is_not_there(portal):
    owner, other = await portal.owner(), await portal.owner()
    await add_active(portal, owner.client_id)
    visitor = await other.browser()
    token = (await visitor.get("/account")).forms[0].fields["csrf"]
    assert (await visitor.get(f"{other.home}/keys/1")).status == 404
    for what in ("proof", "discard", "deactivate"):
        seen = await visitor.post(f"{other.home}/keys/1/{what}", {"csrf": token, "sure": "yes"})
        assert seen.status == 404
    assert await state_of(portal, owner.client_id, 1) is KeyState.ACTIVE


@pytest.mark.parametrize("version", ["0", "-1", "x", "1e3", "99999999999999999999", "٣"])
async def test_what_is_no_version_is_not_there(portal, version):
    owner = await portal.owner()
    assert (await (await owner.browser()).get(f"{owner.home}/keys/{version}")).status == 404


async def test_every_change_of_a_key_tells_who_made_it(portal, settings, private):
    owner = await portal.owner()
    developer = await portal.colleague(owner, Role.DEVELOPER)
    visitor = await developer.browser()
    seen = await upload(visitor, owner.home, pem_of(private))
    seen = await visitor.send(seen, f"{owner.home}/keys/1/proof", signature=signed(private, seen))
    await visitor.send(await visitor.get(seen.path), f"{owner.home}/keys/1/deactivate", sure="yes")
    await upload(visitor, owner.home, pem_of(private_key(next(fresh))))
    await visitor.send(await visitor.get(f"{owner.home}/keys/2"), f"{owner.home}/keys/2/discard")
    rows = fetch_all(
        settings.database_url,
        "SELECT action, actor FROM audit_log WHERE client_id = %s AND action LIKE 'key.%%' ORDER BY entry_id",
        owner.client_id,
    )
    assert sorted(action for action, _ in rows) == [
        *("key.activated", "key.added", "key.added", "key.discarded", "key.retired"),
    ]
    assert {actor for _, actor in rows} == {developer.email}


async def test_without_a_key_the_page_says_what_to_do(portal):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/keys")
    assert "No key yet" in seen.text
    assert "Add your first key" in seen.text
    home = await (await owner.browser()).get(owner.home)
    assert f"{owner.home}/keys/new" in home.links


async def test_the_pages_stay_small_with_a_busy_hour(portal, settings, clock):
    owner = await portal.owner()
    for _ in range(4):
        await add_active(portal, owner.client_id)
    values = ", ".join(
        f"('{owner.client_id}', timestamptz '{clock().replace(second=0) - timedelta(minutes=m)}', {v}, 1000, 0, 0)"
        for m in range(60)
        for v in range(1, 5)
    )
    uses = ", ".join(f"('{owner.client_id}', {v}, 60000, now(), now())" for v in range(1, 5))
    run_sql(
        settings.database_url,
        f"INSERT INTO key_minutes VALUES {values}",  # noqa: S608
        f"INSERT INTO key_uses VALUES {uses}",  # noqa: S608
    )
    seen = await (await owner.browser()).get(f"{owner.home}/keys")
    assert "25 %" in seen.text
    assert len(seen.response.content) < 60 * 1024
