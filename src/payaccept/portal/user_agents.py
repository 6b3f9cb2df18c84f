"""What a browser calls itself, in the words people use; only good enough to tell one's own sessions apart."""

import re
from typing import Final

# The first that matches: most browsers also name those they descend from.
_BROWSERS: Final = (
    ("Edge", r"Edg(e|A|iOS)?/"),
    ("Opera", r"OPR/"),
    ("Samsung Internet", r"SamsungBrowser/"),
    ("Firefox", r"(Firefox|FxiOS)/"),
    ("Chrome", r"(Chrome|CriOS|Chromium)/"),
    ("Safari", r"Version/[\d.]+.* Safari/"),
)
_SYSTEMS: Final = (
    ("iPhone", r"iPhone"),
    ("iPad", r"iPad"),
    ("Android", r"Android"),
    ("Windows", r"Windows"),
    ("ChromeOS", r"CrOS"),
    ("macOS", r"Mac OS X|Macintosh"),
    ("Linux", r"Linux"),
)


def name(user_agent: str) -> str:
    """Return `Firefox on Linux`, or the beginning of what was sent."""
    browser = next((label for label, pattern in _BROWSERS if re.search(pattern, user_agent)), None)
    system = next((label for label, pattern in _SYSTEMS if re.search(pattern, user_agent)), None)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or user_agent[:40] or "an unknown browser"
