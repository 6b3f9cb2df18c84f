"""A merchant of the portal that signs requests, and requests of it that were refused."""

import itertools
from typing import Any

from deployment import recorder_of
from draft import PATH
from merchant import Merchant, private_key, public_pem
from payaccept.domain.traffic import RefusedRequest
from portals import Portal, Somebody

fresh = itertools.count(8000)


async def shop_of(portal: Portal, owner: Somebody) -> Merchant:
    """An owner's merchant, ready to sign, without a rate limit."""
    key = private_key(next(fresh))
    services = portal.services
    stored = await services.merchants.add_key(owner.client_id, public_pem(key), portal.clock())
    merchant = Merchant(owner.client_id)
    merchant.use_key(stored.key_version, key)
    return merchant


def refused(client_id: str, number: int, **changes: Any) -> RefusedRequest:
    values: dict[str, Any] = {
        "client_id": client_id,
        "request_id": f"req_{number:028x}",
        "method": "POST",
        "target": PATH,
        "status": 400,
        "result_code": "PARAM_ILLEGAL",
        "message": "paymentAmount is required",
        "skew_ms": None,
        "address": "192.0.2.1",
        "host": "api.test",
        "user_agent": "shop/1",
        "content_type": "application/json",
        "request_time": "2026-03-01T12:00:00Z",
        "signature_header": "algorithm=SHA256withRSA, keyVersion=1, signature=AA",
        "body": b"{}",
        "body_bytes": 2,
        "body_is_whole": True,
    }
    return RefusedRequest(**values | changes)


async def record(portal: Portal, requests: list[RefusedRequest]) -> None:
    recorder = recorder_of(portal.settings.database_url, lambda _: True)
    for number, request in enumerate(requests, start=1):
        recorder.refused(request)
        if number % 10 == 0:
            await recorder.flush()
    await recorder.close()
