"""A shop's payments, as its customers come to them."""

from typing import Any

import httpx

from merchant import Merchant
from payaccept.domain import identifiers

ANDROID = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/143.0 Mobile Safari/537.36"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1"
BACK = "https://shop.example/orders/4711?paid=yes&x=%20a+b&amp;=1#done"
MANUAL = {"outcome": "MANUAL"}


class Shop:
    """A merchant, and the API it creates its payments with."""

    def __init__(self, api: httpx.AsyncClient, merchant: Merchant) -> None:
        self.api = api
        self.merchant = merchant

    async def link(self, **changes: Any) -> str:
        """Create a payment by link that waits for its customer; returns its id."""
        usual = {"sandbox": MANUAL, "paymentRedirectUrl": BACK}
        answer = await self._create("linkPayCreate", **usual | changes)
        payment_id = identifiers.payment_of(answer["acquirementId"])
        assert payment_id is not None
        return payment_id

    async def order(self, **changes: Any) -> str:
        """Create a QR order that waits for its customer; returns its id."""
        return str((await self._create("createQROrder", **{"sandbox": MANUAL} | changes))["paymentId"])

    async def charge(self, code: str, **changes: Any) -> dict[str, Any]:
        """Charge a code at the till; returns the answer."""
        return await self._create("retailPay", paymentAuthCode=code, **changes)

    async def stands(self, payment_id: str) -> dict[str, Any]:
        """Ask how a payment stands."""
        answer = await self.merchant.inquire(self.api, paymentId=payment_id)
        return dict(answer.json())

    async def _create(self, operation: str, **changes: Any) -> dict[str, Any]:
        answer = await self.merchant.create(self.api, operation, **changes)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())
