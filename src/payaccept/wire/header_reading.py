"""A Signature header read as leniently as can be, naming every rule of its grammar that it breaks.

Only for diagnosis: what is accepted is decided by `signing.parse_header` alone.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from payaccept.wire import signing

MAX_CHARACTERS: Final = 8192
"""What lies beyond is not read."""

_MEMBER: Final = re.compile(r"(algorithm|keyVersion|signature)[ \t]*[=:]", re.ASCII | re.IGNORECASE)
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}", re.ASCII)
_HEX: Final = re.compile(r"(?:0x)?([0-9A-Fa-f]{512})", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)
_VERSION: Final = re.compile(r"[vV]?0*([1-9][0-9]{0,8})", re.ASCII)
_URL_TO_STANDARD: Final = str.maketrans("-_", "+/")


class Fault(NamedTuple):
    """A broken rule and the sentence that tells how to mend it."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class HeaderReading:
    """What could be read: None for what could not; no faults when the header is right."""

    key_version: int | None
    signature: bytes | None
    faults: tuple[Fault, ...]


def read_leniently(value: str) -> HeaderReading:
    """Read whatever can be read of a Signature header."""
    try:
        header = signing.parse_header(value)
    except signing.SignatureHeaderMalformed as error:
        return _mended(value[:MAX_CHARACTERS], error)
    return HeaderReading(header.key_version, header.signature, ())


def _mended(value: str, error: signing.SignatureHeaderMalformed) -> HeaderReading:
    faults: list[Fault] = []
    text = value.strip()
    if not text:
        return HeaderReading(None, None, (Fault("missing-signature", "The Signature header is empty."),))
    if _ESCAPE.search(text):
        text = unquote(text, errors="replace")
        faults.append(Fault("percent-encoded", "The Signature header is percent-encoded: send it as it is."))
    if '"' in text or "'" in text:
        text = text.replace('"', "").replace("'", "")
        faults.append(Fault("quoted", "The Signature header holds quotes: send its members without any."))
    members = _members(text)
    if "signature" not in members and _BASE64.fullmatch(text):
        members["signature"] = text
        grammar = "algorithm=SHA256withRSA, keyVersion=<n>, signature=<base64url>"
        faults.append(Fault("header-grammar", f"The Signature header must read `{grammar}`."))
    signature, fault = _signature(members.get("signature", ""))
    if fault is not None:
        faults.append(fault)
    version = _VERSION.fullmatch(members.get("keyVersion", ""))
    faults += _of_members(members, faults)
    if not faults:
        faults.append(Fault("header-grammar", f"The Signature header is malformed: {error}."))
    return HeaderReading(int(version[1]) if version else None, signature, tuple(faults))


def _members(text: str) -> dict[str, str]:
    """Find the members by their right names, whatever stands between them."""
    names = {"algorithm": "algorithm", "keyversion": "keyVersion", "signature": "signature"}
    found: dict[str, str] = {}
    starts = list(_MEMBER.finditer(text))
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        content = re.split("[,;&]", text[start.end() : end], maxsplit=1)[0].strip()
        # `Signature:` pasted before the members is no member.
        if content:
            found.setdefault(names[start[1].lower()], content)
    return found


def _of_members(members: dict[str, str], known: list[Fault]) -> list[Fault]:
    if any(fault.rule == "header-grammar" for fault in known):
        return []
    faults = []
    if "signature" not in members:
        faults.append(Fault("missing-signature", "The Signature header lacks signature=."))
    if members.get("algorithm") != signing.ALGORITHM:
        text = f"The Signature header must say algorithm={signing.ALGORITHM}, spelt so."
        faults.append(Fault("other-algorithm-name", text))
    if re.fullmatch(r"[1-9][0-9]{0,8}", members.get("keyVersion", ""), re.ASCII) is None:
        text = "The Signature header must say keyVersion=<n>, the plain number the key was registered under."
        faults.append(Fault("missing-key-version", text))
    return faults


def _signature(text: str) -> tuple[bytes | None, Fault | None]:
    """Decode a signature that may be written in any way, and say what is wrong with it."""
    if not text:
        return None, None
    blanks = re.search(r"\s", text) is not None
    if blanks:
        # Either line breaks were inserted, or '+' was turned into a blank on the way.
        joined = re.sub(r"\s+", "", text)
        plus = re.sub(r"\s", "+", text)
        text = plus if len(plus.rstrip("=")) == signing.SIGNATURE_CHARACTERS else joined
    in_hex = _HEX.fullmatch(text)
    if in_hex is not None:
        fault = Fault(
            "hex-signature", "The signature is in hexadecimal: write it as base64url without padding."
        )
        return bytes.fromhex(in_hex[1]), fault
    signature = _lenient_base64(text)
    if signature is None:
        length = f"{signing.SIGNATURE_CHARACTERS} characters of A-Z a-z 0-9 - _ are needed, {len(text)} came"
        return None, Fault("header-grammar", f"The signature is not base64url: {length}.")
    if len(signature) != signing.SIGNATURE_BYTES:
        return _other_length(signature)
    return signature, _how_written(text, signature, blanks=blanks)


def _how_written(text: str, signature: bytes, *, blanks: bool) -> Fault | None:
    if blanks:
        return Fault(
            "blanks-in-signature", "The signature holds blanks or line breaks: write it in one piece."
        )
    if "+" in text or "/" in text:
        return Fault(
            "standard-base64",
            "The signature is standard base64: write base64url ('-' and '_' for '+' and '/'), without '='.",
        )
    if text.endswith("="):
        return Fault("padded-base64", "The signature is padded with '=': leave the padding away.")
    if text != signing.encode_signature(signature):
        return Fault(
            "non-canonical-base64", "The signature's last character carries bits that belong to nothing."
        )
    return None


def _other_length(data: bytes) -> tuple[bytes | None, Fault]:
    inner = data.decode("latin-1").strip()
    again = bytes.fromhex(inner) if _HEX.fullmatch(inner) and inner[1:2] != "x" else _lenient_base64(inner)
    if again is not None and len(again) == signing.SIGNATURE_BYTES:
        return again, Fault("encoded-twice", "The signature is encoded twice: base64url its 256 bytes once.")
    text = f"The signature has {len(data)} bytes; RSA-2048 makes 256"
    sizes = {128: "the key has 1024 bits", 384: "the key has 3072 bits", 512: "the key has 4096 bits"}
    reason = sizes.get(len(data), "it was cut, damaged or made in another way")
    return None, Fault("signature-length", f"{text}: {reason}.")


def _lenient_base64(text: str) -> bytes | None:
    if _BASE64.fullmatch(text) is None:
        return None
    plain = text.rstrip("=").translate(_URL_TO_STANDARD)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except binascii.Error:
        return None
