"""The portal's cookies: over HTTPS with the `__Host-` prefix, which binds them to this very host and to TLS.

Without TLS, which only a local sandbox goes without, browsers refuse the prefix, and the names are plain.
"""

from typing import Final, Literal

from litestar.datastructures import Cookie

from payaccept.portal.services import Site

SESSION: Final = "session"
FORM: Final = "form"  # binds the forms of somebody who is not signed in to the browser
NOTICE: Final = "notice"  # what the next page says once
DEVICE: Final = "device"  # proof that this browser has signed in before
SECOND_FACTOR: Final = "second-factor"  # the password was right; the code is still to come


def name(site: Site, cookie: str) -> str:
    """Return a cookie's name in this deployment."""
    return f"__Host-{cookie}" if site.is_https else cookie


def make(
    site: Site,
    cookie: str,
    value: str,
    *,
    max_age_s: int | None = None,
    same_site: Literal["lax", "strict"] = "lax",
) -> Cookie:
    """Make a cookie; without `max_age_s` it ends with the browser."""
    return Cookie(
        key=name(site, cookie),
        value=value,
        path="/",
        httponly=True,
        secure=site.is_https,
        samesite=same_site,
        max_age=max_age_s,
    )


def drop(site: Site, cookie: str) -> Cookie:
    """Make the cookie that takes one back."""
    return make(site, cookie, "", max_age_s=0)
