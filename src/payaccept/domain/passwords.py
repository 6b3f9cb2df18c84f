"""Which passwords are taken: long ones that nobody guesses first (NIST SP 800-63B, 5.1.1.2; no rule on signs)."""

import re
import unicodedata
from typing import Final

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 128

# What people choose first. A password that is one of these with digits and marks around it is refused, too.
_WORDS: Final = """
access account admin administrator apple asdfghjkl august autumn banking baseball batman bitcoin bonjour
changeit changeme charlie cheese chocolate company computer correcthorsebatterystaple december default developer
diamond dragon efghijkl everything facebook february football forever freedom friends google guest hallo
hannover hello helloworld iloveyou internet january jennifer jessica jesus jordan letmein liverpool login london
lovely loveme manchester master matrix merchant michael michelle money monkey mustang mypassword naruto
newpassword nothing november october office pass passphrase passw password passwordpassword passwort payment
payments pokemon portal princess qazwsx qazwsxedc qwert qwerty qwertyuiop qwertzuiop root samsung sandbox secret
secretpassword security september service shadow sommer spring starwars summer sunshine superman superuser
system temp temporary test testing testtest thisismypassword trustno user username wallet welcome whatever
winter yankees zaq zxcvbnm
"""
_COMMON: Final = frozenset(_WORDS.split())
_LOOKALIKES: Final = str.maketrans("013457@$!", "oleastasi")
_ROWS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "0123456789",
    "qwertyuiopasdfghjklzxcvbnm",
    "qwertzuiopasdfghjklyxcvbnm",
)
_FEWEST_SIGNS: Final = 5
_OF_OURS: Final = frozenset({"payaccept"})


def normalised(password: str) -> str:
    """Return a password as it is hashed: the same whichever keyboard composed its letters."""
    return unicodedata.normalize("NFKC", password)


def problem(password: str, email: str, name: str = "") -> str | None:
    """Say why a password is not taken; None when it is."""
    plain = normalised(password)
    if not plain:
        return "Enter a password."
    if len(plain) < MIN_LENGTH:
        return f"Too short: use at least {MIN_LENGTH} characters. A few words in a row are easy to remember."
    if len(plain) > MAX_LENGTH:
        return f"Too long: use at most {MAX_LENGTH} characters."
    folded = plain.casefold()
    reasons = {
        "it is a row or a repetition of characters": _is_plain_pattern(folded),
        "it is a common password, or nearly one": _is_common(folded),
        "it is your address or your name": _is_about(folded, email.casefold(), name.casefold()),
    }
    return next((f"Too easy to guess: {reason}." for reason, holds in reasons.items() if holds), None)


def _is_about(folded: str, email: str, name: str) -> bool:
    words = {word for word in re.split(r"[\W_]+", f"{email} {name}") if len(word) > 3}  # noqa: PLR2004
    return folded == email or _core(folded) in words | _OF_OURS


def _core(folded: str) -> str:
    """Return what is left of a password without the digits and marks that people put around a word."""
    return re.sub(r"^[\W\d_]+|[\W\d_]+$", "", folded)


def _is_common(folded: str) -> bool:
    core = _core(folded)
    spelled = core.translate(_LOOKALIKES)
    joined = re.sub(r"[\W_]+", "", core)
    return bool({core, spelled, joined} & _COMMON)


def _is_plain_pattern(folded: str) -> bool:
    if len(set(folded)) < _FEWEST_SIGNS:
        return True
    return any(folded in row * 3 or folded in row[::-1] * 3 for row in _ROWS) or _repeats(folded)


def _repeats(folded: str) -> bool:
    """Tell whether a text is a short piece several times over, as `abc1abc1abc1`."""
    return any(folded == (folded[:size] * len(folded))[: len(folded)] for size in range(1, 5))
