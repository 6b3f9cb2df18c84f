"""Settings: read from the environment, written to a child's, and nothing lost on the way."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from payaccept.config import VARIABLES, SettingInvalid, Settings, from_environ, read_setting
from payaccept.domain.delivery import RETRY_SCHEDULE_S
from payaccept.domain.merchant import Environment

seconds = st.integers(0, 10_000_000).map(float) | st.sampled_from([0.05, 0.5, 2.5])


def test_the_defaults_are_the_documented_ones():
    settings = from_environ({})
    assert settings == Settings()
    assert (settings.settle_delay_s, settings.order_expiry_s, settings.webhook_timeout_s) == (2, 900, 10)
    assert settings.retry_schedule_s == RETRY_SCHEDULE_S
    assert (settings.allow_http, settings.allow_private) == (False, False)
    assert settings.environment is Environment.SANDBOX


def test_every_setting_has_its_variable():
    assert len(VARIABLES) == len(fields(Settings))
    assert all(name.startswith("PAYACCEPT_") for name in VARIABLES)


@given(
    environment=st.sampled_from(Environment),
    settle_delay_s=seconds,
    order_expiry_s=seconds,
    retry_schedule_s=st.lists(seconds, min_size=1, max_size=5).map(tuple),
    webhook_concurrency=st.integers(1, 1000),
    allow_http=st.booleans(),
    allow_private=st.booleans(),
    failure_limit=st.none() | st.integers(1, 1000),
    bucket_lanes=st.booleans(),
    master_key_file=st.none() | st.just(Path("/var/lib/payaccept/master.key")),
)
def test_what_is_written_for_a_child_is_read_by_it(**values):
    settings = replace(
        Settings(database_url="postgresql://u@/d?host=%2Frun", web_base_url="https://pay.example"), **values
    )
    assert from_environ(settings.to_environ()) == settings


def test_an_empty_variable_leaves_the_default_and_blanks_are_no_matter():
    assert from_environ({"PAYACCEPT_SETTLE_DELAY_S": "", "PAYACCEPT_ORDER_EXPIRY_S": "  "}) == Settings()
    assert from_environ({"PAYACCEPT_SETTLE_DELAY_S": " 3 "}).settle_delay_s == 3
    assert from_environ({"PAYACCEPT_SETTLE_DELAY_S": "3"}, Settings(order_expiry_s=1)).order_expiry_s == 1


def test_a_base_address_loses_its_last_slash():
    assert read_setting("PAYACCEPT_WEB_BASE_URL", "https://pay.example/") == "https://pay.example"


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("PAYACCEPT_ENVIRONMENT", ["Sandbox", "live", "test"]),
        ("PAYACCEPT_WEB_BASE_URL", ["pay.example", "ftp://pay.example"]),
        ("PAYACCEPT_SETTLE_DELAY_S", ["-1", "two", "nan", "inf", "1e99", "2s"]),
        ("PAYACCEPT_ORDER_EXPIRY_S", ["-0.1", "15m"]),
        ("PAYACCEPT_RETRY_SCHEDULE_S", [",", "5,x", "5;30", "5,-1"]),
        ("PAYACCEPT_WEBHOOK_TIMEOUT_S", ["-10", "x"]),
        ("PAYACCEPT_WEBHOOK_CONCURRENCY", ["0", "-1", "1.5", "many"]),
        ("PAYACCEPT_ALLOW_HTTP", ["true", "yes", "2"]),
        ("PAYACCEPT_ALLOW_PRIVATE", ["false", "no"]),
        ("PAYACCEPT_REQUEST_DEADLINE_S", ["-1", "soon"]),
        ("PAYACCEPT_FAILURE_LIMIT", ["0", "-5", "None", "unlimited"]),
        ("PAYACCEPT_BUCKET_LANES", ["on"]),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_its_name(name, texts):
    for text in texts:
        with pytest.raises(SettingInvalid, match=name):
            from_environ({name: text})
