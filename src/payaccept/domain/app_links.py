"""The addresses of a payment: what its QR code says, and what opens it in the wallet app on each platform."""

from typing import Final
from urllib.parse import quote, urlsplit

from payaccept.wire import messages as m

WALLET_APP: Final = "org.payaccept.wallet"


def qr_prefix(web_base_url: str) -> str:
    """Return what the text of a QR code has before the payment's id: always https, in a local sandbox too."""
    return f"https://{web_base_url.partition('://')[2]}/q/"


def target_path(payment_id: str) -> str:
    """Return the path that the app and the web pages both know the payment by."""
    return f"/pay/{payment_id}"


def app_links(payment_id: str, web_base_url: str) -> m.AppLinks:
    """Return what a merchant's own app or page needs to open the wallet."""
    target, short = target_path(payment_id), f"{web_base_url}/s/{payment_id}"
    return m.AppLinks(
        android=m.AppLinkPlatform(application_id=WALLET_APP, target_path=target, short_url=short),
        ios=m.AppLinkPlatform(
            application_id=WALLET_APP, bundle_id=WALLET_APP, target_path=target, short_url=short
        ),
    )


def android_intent(payment_id: str, web_base_url: str, fallback: str) -> str:
    """Return the link that opens the app on Android; a browser without the app goes to `fallback` instead."""
    host = urlsplit(web_base_url).netloc
    return (
        f"intent://{host}{target_path(payment_id)}#Intent;scheme=https;package={WALLET_APP};"
        f"S.browser_fallback_url={quote(fallback, safe='')};end"
    )


def ios_link(payment_id: str) -> str:
    """Return the link that opens the app on iOS.

    By the app's own scheme: Safari follows a universal link only from another site's page.
    """
    return f"{WALLET_APP}:/{target_path(payment_id)}"
