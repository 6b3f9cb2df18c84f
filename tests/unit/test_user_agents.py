"""Browsers by their names."""

import pytest

from payaccept.portal.user_agents import name

APPLE = "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5"
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "told"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
            "Edge on Windows",
        ),
        (
            f"Mozilla/5.0 (Linux; Android 15; Pixel 9) {WEBKIT} Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        (
            f"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) {APPLE} Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {APPLE} Safari/605.1.15",
            "Safari on macOS",
        ),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", "an unknown browser"),
        ("x" * 300, "x" * 40),
    ],
)
def test_a_browser_is_named_as_people_name_it(user_agent, told):
    assert name(user_agent) == told
