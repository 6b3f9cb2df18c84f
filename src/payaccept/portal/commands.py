"""Commands to copy: what somebody runs at a terminal of their own, with nothing but openssl and curl."""

from typing import Final

from payaccept.wire.messages import PATH_PREFIX

_QUOTE: Final = "'"
_QUOTED_QUOTE: Final = "'\\''"


def signed_request(api_base_url: str, client_id: str, key_version: int, operation: str, body: str) -> str:
    """Return the commands that sign a body with `private-key.pem`, the private half of this key, and send it."""
    path = PATH_PREFIX + operation
    return f"""CLIENT={client_id}
TIME=$(date -u +%Y-%m-%dT%H:%M:%SZ)
BODY={_quoted(body)}
SIGNATURE=$(printf 'POST {path}\\n%s.%s.%s' "$CLIENT" "$TIME" "$BODY" \\
  | openssl dgst -sha256 -sign private-key.pem | openssl base64 -A | tr '+/' '-_' | tr -d '=')
curl -s {api_base_url}{path} \\
  -H "Content-Type: application/json" -H "Client-Id: $CLIENT" -H "Request-Time: $TIME" \\
  -H "Signature: algorithm=SHA256withRSA, keyVersion={key_version}, signature=$SIGNATURE" \\
  -d "$BODY"
"""


def _quoted(text: str) -> str:
    """Write a text so that a shell takes it byte for byte."""
    return _QUOTE + text.replace(_QUOTE, _QUOTED_QUOTE) + _QUOTE
