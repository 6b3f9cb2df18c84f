"""The script of a sandbox payment."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from payaccept.domain import scenario
from payaccept.domain.scenario import DEFAULT, Outcome
from payaccept.wire.codes import PAYMENT_FAILURES, ResultCode


def read(script):
    return scenario.read(json.dumps({"sandbox": script}))


@pytest.mark.parametrize(
    "extend_info", [UNSET, "{}", '{"note":"sandbox"}', '{"a":{"sandbox":1}}', '{"a":"\\u00e4"}']
)
def test_without_a_script_a_payment_succeeds(extend_info):
    assert scenario.read(extend_info) == (DEFAULT, None)
    assert not scenario.asks_for_script(extend_info)
    assert (DEFAULT.outcome, DEFAULT.failure, DEFAULT.webhook) == (Outcome.SUCCESS, None, ())


@pytest.mark.parametrize("extend_info", ['{"sandbox":{}}', '{"\\u0073andbox":{}}', '{"sandbox":null}'])
def test_a_script_is_noticed_however_it_is_written(extend_info):
    assert scenario.asks_for_script(extend_info)


def test_a_failure_has_the_code_it_was_given_or_the_general_one():
    assert read({"outcome": "FAIL"})[0].failure is ResultCode.PROCESS_FAIL
    for code in PAYMENT_FAILURES:
        script, problem = read({"outcome": "FAIL", "resultCode": code})
        assert (script.failure, problem) == (code, None)


def test_an_unknown_outcome_ends_well_unless_it_was_given_a_code():
    assert read({"outcome": "UNKNOWN"})[0].failure is None
    assert read({"outcome": "UNKNOWN", "resultCode": "RISK_REJECT"})[0].failure is ResultCode.RISK_REJECT


@pytest.mark.parametrize("code", sorted(set(ResultCode) - PAYMENT_FAILURES))
def test_a_code_that_refuses_requests_is_none_a_payment_fails_with(code):
    script, problem = read({"outcome": "FAIL", "resultCode": code})
    assert script == DEFAULT
    assert problem == "sandbox.resultCode is not a code that a payment can fail with"


@pytest.mark.parametrize("delay", [0, 1, 5000, 86_400_000])
def test_a_delay_is_up_to_a_day_of_milliseconds(delay):
    assert read({"delayMs": delay})[0].delay_ms == delay


@pytest.mark.parametrize("delay", [-1, 86_400_001, 10**30, 1.5, "1", None, True, [1]])
def test_another_delay_is_refused(delay):
    script, problem = read({"delayMs": delay})
    assert script == DEFAULT
    assert problem is not None
    assert problem.startswith("sandbox: ")


@pytest.mark.parametrize("name", ["outcom", "OUTCOME", "result_code", "delay_ms", "", "x" * 500])
def test_a_mistyped_member_is_named(name):
    problem = read({name: 1})[1]
    assert problem is not None
    assert name[:64] in problem
    assert len(problem) < 120


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "outcome": st.sampled_from(Outcome),
            "delayMs": st.integers(0, 86_400_000),
            "webhook": st.lists(st.sampled_from(["duplicate", "late", "tampered"]), unique=True),
        },
    )
)
def test_what_is_understood_is_taken_as_written(script):
    read_script, problem = read(script)
    assert problem is None
    assert read_script.outcome == script.get("outcome", "SUCCESS")
    assert read_script.webhook == tuple(script.get("webhook", ()))
    assert read_script.delay_ms == script.get("delayMs", UNSET)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["outcome", "resultCode", "delayMs", "webhook", "x"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    )
)
def test_no_script_breaks_the_reader(script):
    read_script, problem = read(script)
    assert problem is None or read_script == DEFAULT
