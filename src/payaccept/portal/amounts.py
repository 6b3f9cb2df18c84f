"""Amounts of money in the reader's way of writing them."""

import copy
import re
from functools import lru_cache
from typing import Final

from babel import Locale
from babel.numbers import NumberPattern, get_currency_name, get_currency_symbol

from payaccept.domain.money import in_major_units, minor_digits

# Those that are understood: each takes most of a megabyte once somebody has asked for it, and strangers choose.
_LOCALES: Final = """
    en ar bg bn ca cs da de de-AT de-CH el en-AU en-CA en-GB en-IE en-IN en-NZ en-ZA es es-AR es-CL es-CO es-MX es-US
    et fa fi fil fr fr-BE fr-CA fr-CH he hi hr hu id it it-CH ja kk ko lt lv ms nb nl nl-BE pl pt pt-PT ro ru sk sl sr
    sv th tr uk uz vi zh zh-HK zh-TW
"""
LOCALES: Final = tuple(_LOCALES.split())
_BY_TAG: Final = {locale.lower(): locale for locale in LOCALES}
_ALIASES: Final = {"in": "id", "iw": "he", "nn": "nb", "no": "nb", "tl": "fil"}
_LETTER_BY_DIGIT: Final = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_NO_BREAK_SPACE: Final = "\u00a0"
_MAX_HEADER: Final = 256
_MAX_TAGS: Final = 16


def preferred_locale(accept_language: str) -> str:
    """Return which of our locales a browser's Accept-Language likes best; `en` when none."""
    return _preferred(accept_language[:_MAX_HEADER])


def write_amount(currency: str, amount_minor: int, locale: str) -> str:
    """Write an amount as people of a locale do: `€19.99`, `19,99 €`, `JP¥1,999`; the minor digits are ISO 4217's."""
    pattern = _pattern(locale, minor_digits(currency))
    value = in_major_units(currency, amount_minor)
    written = pattern.apply(value, _parsed(locale), currency=currency, currency_digits=False)
    # CLDR parts letters from digits (`KWD 1.250`); Babel leaves that to its callers.
    return _LETTER_BY_DIGIT.sub(_NO_BREAK_SPACE, written)


def name_of_currency(currency: str, locale: str) -> str | None:
    """Return a currency's name, where its sign alone does not name its code."""
    if get_currency_symbol(currency, _parsed(locale)) == currency:
        return None
    return f"{currency}, {get_currency_name(currency, locale=_parsed(locale))}"


@lru_cache(maxsize=1024)
def _preferred(accept_language: str) -> str:
    weighted = []
    for place, item in enumerate(accept_language.split(",")[:_MAX_TAGS]):
        tag, _, parameters = item.partition(";")
        weighted.append((-_quality(parameters), place, tag.strip().lower()))
    for quality, _, tag in sorted(weighted):
        language = tag.partition("-")[0]
        for name in (tag, language, _ALIASES.get(language, "")):
            if quality < 0 and name in _BY_TAG:
                return _BY_TAG[name]
    return LOCALES[0]


def _quality(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    try:
        return float(value) if name.strip() == "q" else 1.0
    except ValueError:
        return 0.0


@lru_cache(maxsize=len(LOCALES))
def _parsed(locale: str) -> Locale:
    return Locale.parse(locale, sep="-")


@lru_cache(maxsize=256)
def _pattern(locale: str, digits: int) -> NumberPattern:
    pattern: NumberPattern = copy.copy(_parsed(locale).currency_formats["standard"])
    pattern.frac_prec = (digits, digits)
    return pattern
