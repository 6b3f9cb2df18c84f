"""The script of one sandbox payment: `extendInfo` = `{"sandbox": {"outcome": "FAIL", …}}`."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from payaccept.wire import fields, strict_json
from payaccept.wire.codes import PAYMENT_FAILURES, ResultCode

MAX_DELAY_MS: Final = 86_400_000


class Outcome(StrEnum):
    """What the simulated wallet does with the payment."""

    SUCCESS = "SUCCESS"
    FAIL = "FAIL"
    MANUAL = "MANUAL"
    UNKNOWN = "UNKNOWN"


WebhookFault = Literal["duplicate", "late", "tampered"]


class Scenario(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What the merchant wants to see happen. Unknown members are refused, so that a typo is noticed."""

    outcome: Outcome = Outcome.SUCCESS
    result_code: ResultCode | UnsetType = UNSET
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_DELAY_MS)] | UnsetType = UNSET
    webhook: Annotated[tuple[WebhookFault, ...], Meta(max_length=3)] = ()

    @property
    def failure(self) -> ResultCode | None:
        """The code the payment fails with, or None when it will be paid."""
        if self.outcome is Outcome.FAIL:
            return ResultCode.PROCESS_FAIL if self.result_code is UNSET else self.result_code
        if self.outcome is Outcome.UNKNOWN and self.result_code is not UNSET:
            return self.result_code
        return None


DEFAULT: Final = Scenario()


def read(extend_info: str | UnsetType) -> tuple[Scenario, str | None]:
    """Return the script in extendInfo, or the default, and what is wrong with it (None if nothing)."""
    if extend_info is UNSET or ('"sandbox"' not in extend_info and "\\u" not in extend_info):
        return DEFAULT, None
    members = strict_json.load_object(extend_info.encode())
    if "sandbox" not in members:
        return DEFAULT, None
    return _read_script(members["sandbox"])


def _read_script(script: Any) -> tuple[Scenario, str | None]:
    if not isinstance(script, dict):
        return DEFAULT, "sandbox must be an object"
    unknown = sorted(script.keys() - {"outcome", "resultCode", "delayMs", "webhook"})
    if unknown:
        return DEFAULT, f"sandbox has an unknown member {unknown[0][:64]!a}"
    try:
        scenario = msgspec.convert(script, Scenario)
    except msgspec.ValidationError as error:
        return DEFAULT, f"sandbox: {fields.in_our_words(str(error))}"
    problem = _contradiction(scenario)
    return (scenario, None) if problem is None else (DEFAULT, problem)


def _contradiction(scenario: Scenario) -> str | None:
    if scenario.result_code is not UNSET:
        if scenario.result_code not in PAYMENT_FAILURES:
            return "sandbox.resultCode is not a code that a payment can fail with"
        if scenario.outcome not in {Outcome.FAIL, Outcome.UNKNOWN}:
            return "sandbox.resultCode goes with outcome FAIL or UNKNOWN"
    return (
        "sandbox.webhook names a fault twice" if len(set(scenario.webhook)) != len(scenario.webhook) else None
    )


def asks_for_script(extend_info: str | UnsetType) -> bool:
    """Tell whether extendInfo has the member `sandbox`, which production refuses."""
    if extend_info is UNSET or ('"sandbox"' not in extend_info and "\\u" not in extend_info):
        return False
    return "sandbox" in strict_json.load_object(extend_info.encode())
