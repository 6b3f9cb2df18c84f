"""Time-based one-time passwords (RFC 6238), as every authenticator app makes them: 6 digits every 30 seconds."""

import hmac
import secrets
from datetime import datetime
from typing import Final

import pyotp

STEP_S: Final = 30
DIGITS: Final = 6
_TOLERATED_STEPS: Final = 1  # RFC 6238, 5.2: a clock that is a little off, or a slow typist

RECOVERY_CODES: Final = 10
# No 0, 1, I, L, O: what is read from paper is not to be guessed at. Ten of these 31 signs are 49 bits.
_RECOVERY_ALPHABET: Final = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
_RECOVERY_LENGTH: Final = 10


def new_secret() -> str:
    """Make a secret of 160 bits in base32."""
    return pyotp.random_base32()


def provisioning_uri(secret: str, account: str, issuer: str) -> str:
    """Return what an authenticator app reads from a QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=account, issuer_name=issuer)


def code_at(secret: str, at: datetime) -> str:
    """Return the code of an instant."""
    return pyotp.TOTP(secret).generate_otp(int(at.timestamp()) // STEP_S)


def matching_step(secret: str, code: str, now: datetime, last_step: int) -> int | None:
    """Return the step whose code this is, if it is a recent one and later than the last one used."""
    code = code.replace(" ", "")
    if len(code) != DIGITS or not (code.isascii() and code.isdigit()):
        return None
    made = pyotp.TOTP(secret)
    present = int(now.timestamp()) // STEP_S
    found = None
    for step in range(present - _TOLERATED_STEPS, present + _TOLERATED_STEPS + 1):
        if hmac.compare_digest(made.generate_otp(step), code) and step > last_step:
            found = step
    return found


def new_recovery_codes() -> list[str]:
    """Make a set of codes that each replace a code of the app once."""
    return [
        "".join(secrets.choice(_RECOVERY_ALPHABET) for _ in range(_RECOVERY_LENGTH))
        for _ in range(RECOVERY_CODES)
    ]


def recovery_code(typed: str) -> str | None:
    """Return a recovery code as it was made, however it was typed; None when it cannot be one."""
    code = "".join(sign for sign in typed.upper() if sign not in " -")
    return code if len(code) == _RECOVERY_LENGTH and set(code) <= set(_RECOVERY_ALPHABET) else None


def shown(code: str) -> str:
    """Write a recovery code in two halves, for people."""
    return f"{code[:5]}-{code[5:]}"
