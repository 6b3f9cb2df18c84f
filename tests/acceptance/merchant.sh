#!/usr/bin/env bash
# A merchant's backend made of openssl and curl: takes all three kinds of payment, inquires, and verifies
# the webhooks. (A line of Python receives them: neither openssl nor curl listens for HTTP.)
#
#   merchant.sh DEMO_MERCHANT_JSON
#
# The file is the one that `payaccept sandbox` writes. Prints a line for each thing that is shown to work;
# ends with status 0 only if all of them do.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
inbox_process=
finish() {
  [ -z "$inbox_process" ] || kill "$inbox_process" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

die() { echo "merchant.sh: $*" >&2; exit 1; }

# member NAME: the first value of a string or number member in the JSON on standard input.
member() { sed -n "s/.*\"$1\" *: *\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }

base_url=$(member baseUrl <"$1")
client_id=$(member clientId <"$1")
key_version=$(member keyVersion <"$1")
private_key=$(member privateKeyFile <"$1")
webhook_keys_url=$(member webhookKeysUrl <"$1")

# base64url without padding and line breaks, and back again.
to_base64url() { openssl base64 -A | tr -- '+/' '-_' | tr -d '='; }
from_base64url() { printf '%s==' "$1" | tr -- '-_' '+/' | openssl base64 -d -A; }

# call OPERATION BODY: sign a request, send it, print the answer.
#
# What is signed is two lines: `POST <path>`, and `<Client-Id>.<Request-Time>.<body>`; no line feed at the end.
call() {
  local path="/v1/payments/$1" body="$2" request_time signature
  request_time=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  signature=$(printf 'POST %s\n%s.%s.%s' "$path" "$client_id" "$request_time" "$body" |
    openssl dgst -sha256 -sign "$private_key" | to_base64url)
  curl --silent --show-error --max-time 20 "$base_url$path" \
    --header 'Content-Type: application/json' \
    --header "Client-Id: $client_id" \
    --header "Request-Time: $request_time" \
    --header "Signature: algorithm=SHA256withRSA, keyVersion=$key_version, signature=$signature" \
    --data-binary "$body" # not --data, which drops line feeds
}

# expect STATUS ANSWER: the resultStatus must be this one.
expect() {
  [ "$(member resultStatus <<<"$2")" = "$1" ] || die "expected resultStatus $1: $2"
}

# await_success REQUEST_ID: inquire until the payment is no longer PROCESSING; it must be paid.
await_success() {
  local answer status
  for _ in $(seq 100); do
    answer=$(call inquiryPayment "{\"paymentRequestId\":\"$1\"}")
    expect S "$answer"
    status=$(member paymentStatus <<<"$answer")
    [ "$status" = PROCESSING ] || break
    sleep 0.2
  done
  [ "$status" = SUCCESS ] || die "payment $1 is $status: $answer"
}

# public_key VERSION: the provider's public key of a keyVersion as PEM; nothing when it is unknown.
public_key() {
  local entry
  entry=$(curl --silent --show-error --max-time 20 "$webhook_keys_url" | sed 's/},{/}\n{/g' |
    grep -E "\"keyVersion\":$1[,}]") || return 0
  printf '%b' "$(member publicKeyPem <<<"$entry")"
}

# verify_webhook HEADERS_FILE BODY_FILE PATH: the five steps.
verify_webhook() {
  local header request_time signature_header version sent now
  header() { grep -i "^$1: " "$2" | sed 's/^[^:]*: //'; }
  request_time=$(header Request-Time "$1")
  signature_header=$(header Signature "$1")
  # 1. The header's members; this algorithm and no other.
  grep -qE '^algorithm=SHA256withRSA, keyVersion=[0-9]+, signature=[A-Za-z0-9_-]{342}$' <<<"$signature_header" ||
    die "malformed Signature: $signature_header"
  # 2. The provider's key of that version.
  version=$(sed 's/.*keyVersion=\([0-9]*\).*/\1/' <<<"$signature_header")
  public_key "$version" >"$work/provider.pem"
  [ -s "$work/provider.pem" ] || die "unknown keyVersion $version"
  # 3. What was signed: two lines again, but without a Client-Id. The body is the file's bytes as they came.
  { printf 'POST %s\n%s.' "$3" "$request_time"; cat "$2"; } >"$work/signed"
  # 4. Not more than ten minutes old, or ahead.
  now=$(date -u +%s)
  sent=$(date -u -d "$request_time" +%s 2>/dev/null || date -u -j -f %Y-%m-%dT%H:%M:%SZ "$request_time" +%s)
  [ $((now - sent)) -le 600 ] && [ $((sent - now)) -le 600 ] || die "Request-Time $request_time is too far away"
  # 5. The signature.
  from_base64url "${signature_header##*signature=}" >"$work/signature"
  openssl dgst -sha256 -verify "$work/provider.pem" -signature "$work/signature" "$work/signed" >/dev/null
}

python3 "$here/inbox.py" "$work" &
inbox_process=$!
for _ in $(seq 100); do [ -f "$work/url" ] && break; sleep 0.1; done
notify_url="$(cat "$work/url")/hook"

run=$(openssl rand -hex 8)
amount='{"currency":"EUR","value":1999}'

answer=$(call createQROrder "{\"bizType\":\"ORDER_CODE\",\"productCode\":\"51051000101000100031\",\"codeType\":\"CGCP\",\"paymentRequestId\":\"$run-qr\",\"paymentAmount\":$amount,\"paymentNotifyUrl\":\"$notify_url\"}")
expect A "$answer"
grep -q '"qrCode":"https://' <<<"$answer" || die "no QR code: $answer"
await_success "$run-qr"
echo "paid by QR code: $(member paymentId <<<"$answer")"

answer=$(call retailPay "{\"productCode\":\"51051000101000100031\",\"paymentRequestId\":\"$run-retail\",\"paymentAuthCode\":\"281012020262467128\",\"paymentAmount\":$amount,\"paymentNotifyUrl\":\"$notify_url\"}")
expect S "$answer"
await_success "$run-retail"
echo "paid at the till: $(member paymentId <<<"$answer")"

# Not everything is ASCII: what is signed are bytes.
answer=$(call linkPayCreate "{\"productCode\":\"51051000101000100031\",\"paymentRequestId\":\"$run-link\",\"paymentAmount\":$amount,\"order\":{\"orderDescription\":\"Zwei Brötchen, 咖啡\"},\"paymentNotifyUrl\":\"$notify_url\"}")
expect A "$answer"
grep -q '"redirectUrl":"http' <<<"$answer" || die "no redirectUrl: $answer"
await_success "$run-link"
echo "paid by link: $(member acquirementId <<<"$answer")"

answer=$(call retailPay "{\"productCode\":\"51051000101000100031\",\"paymentRequestId\":\"$run-retail\",\"paymentAuthCode\":\"281012020262467128\",\"paymentAmount\":$amount}")
expect F "$answer"
[ "$(member resultCode <<<"$answer")" = REPEAT_REQUEST ] || die "a repeated request: $answer"
echo "a repeated request is refused"

for number in 1 2 3; do
  for _ in $(seq 100); do [ -f "$work/$number.headers" ] && break; sleep 0.1; done
  [ -f "$work/$number.headers" ] || die "only $((number - 1)) webhooks came"
  verify_webhook "$work/$number.headers" "$work/$number.body" /hook || die "webhook $number does not verify"
  echo "webhook verified: $(member eventType <"$work/$number.body") $(member paymentRequestId <"$work/$number.body" | sed 's/.*-//')"
done
printf ' ' >>"$work/1.body"
if (verify_webhook "$work/1.headers" "$work/1.body" /hook) 2>/dev/null; then die "an altered webhook verifies"; fi
echo "an altered webhook is rejected"
