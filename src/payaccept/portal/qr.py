"""QR codes as SVG inside a page, without a style of their own."""

from functools import lru_cache

import segno
from markupsafe import Markup


@lru_cache(maxsize=512)
def qr_svg(text: str) -> Markup:
    """Return the QR code of a text; black, so it belongs on white, with a quiet zone around it."""
    code = segno.make(text, error="m", micro=False)
    return Markup(code.svg_inline(border=0, omitsize=True, svgclass=None, lineclass=None))  # noqa: S704 - segno's own
