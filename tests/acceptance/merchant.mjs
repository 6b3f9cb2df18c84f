// A merchant's backend made of Node alone: takes all three kinds of payment, inquires, and verifies webhooks.
//
//   node merchant.mjs DEMO_MERCHANT_JSON
//
// The file is the one that `payaccept sandbox` writes. Prints a line for each thing that is shown to work.
import assert from 'node:assert/strict';
import { createPrivateKey, randomUUID, sign, verify } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const demo = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const privateKey = createPrivateKey(readFileSync(demo.privateKeyFile));
const TEN_MINUTES_MS = 10 * 60 * 1000;

/** Sign a request, send it, and return the answer. What is signed is exactly what is sent. */
async function call(operation, request) {
  const path = `/v1/payments/${operation}`;
  const body = Buffer.from(JSON.stringify(request), 'utf8');
  const requestTime = new Date().toISOString();
  const signed = Buffer.concat([Buffer.from(`POST ${path}\n${demo.clientId}.${requestTime}.`, 'utf8'), body]);
  const signature = sign('RSA-SHA256', signed, privateKey).toString('base64url');
  const answer = await fetch(demo.baseUrl + path, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'Client-Id': demo.clientId,
      'Request-Time': requestTime,
      Signature: `algorithm=SHA256withRSA, keyVersion=${demo.keyVersion}, signature=${signature}`,
    },
    body,
    signal: AbortSignal.timeout(20_000),
  });
  return answer.json();
}

async function awaitSuccess(paymentRequestId) {
  for (let tries = 0; tries < 100; tries += 1) {
    const answer = await call('inquiryPayment', { paymentRequestId });
    assert.equal(answer.result.resultStatus, 'S', JSON.stringify(answer));
    if (answer.paymentStatus !== 'PROCESSING') {
      assert.equal(answer.paymentStatus, 'SUCCESS');
      return answer;
    }
    await sleep(200);
  }
  throw new Error(`${paymentRequestId} is still PROCESSING`);
}

/** Verify a webhook, in five steps. Throws when it is not to be believed. */
async function verifyWebhook({ path, headers, body }) {
  const members = /^algorithm=SHA256withRSA, keyVersion=([1-9]\d{0,8}), signature=([A-Za-z0-9_-]{342})$/.exec(headers.signature);
  assert(members, `malformed Signature: ${headers.signature}`);
  const keys = await (await fetch(demo.webhookKeysUrl)).json();
  const key = keys.find(({ keyVersion }) => keyVersion === Number(members[1]));
  assert(key, `unknown keyVersion ${members[1]}`);
  const requestTime = headers['request-time'];
  const signed = Buffer.concat([Buffer.from(`POST ${path}\n${requestTime}.`, 'utf8'), body]);
  assert(Math.abs(Date.now() - Date.parse(requestTime)) <= TEN_MINUTES_MS, `Request-Time ${requestTime} is too far away`);
  assert(verify('RSA-SHA256', signed, key.publicKeyPem, Buffer.from(members[2], 'base64url')), 'the signature does not verify');
}

const webhooks = [];
const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  webhooks.push({ path: request.url, headers: request.headers, body: Buffer.concat(parts) });
  response.end(JSON.stringify({ result: { resultStatus: 'S' } }));
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');

const productCode = '51051000101000100031';
const paymentAmount = { currency: 'EUR', value: 1999 };
const paymentNotifyUrl = `http://127.0.0.1:${server.address().port}/hook`;
const ids = { qr: randomUUID(), retail: randomUUID(), link: randomUUID() };

const qr = await call('createQROrder', {
  bizType: 'ORDER_CODE', productCode, codeType: 'CGCP', paymentRequestId: ids.qr, paymentAmount, paymentNotifyUrl,
});
assert.equal(qr.result.resultStatus, 'A', JSON.stringify(qr));
assert.match(qr.qrCode, /^https:\/\//);
assert.equal((await awaitSuccess(ids.qr)).paymentId, qr.paymentId);
console.log(`paid by QR code: ${qr.paymentId}`);

const retail = await call('retailPay', {
  productCode, paymentRequestId: ids.retail, paymentAuthCode: '281012020262467128', paymentAmount, paymentNotifyUrl,
});
assert.equal(retail.result.resultStatus, 'S', JSON.stringify(retail));
assert.equal((await awaitSuccess(ids.retail)).paymentTime, retail.paymentTime);
console.log(`paid at the till: ${retail.paymentId}`);

const link = await call('linkPayCreate', {
  productCode, paymentRequestId: ids.link, paymentAmount, paymentNotifyUrl,
  order: { orderDescription: 'Zwei Brötchen, 咖啡 ☕️' },
});
assert.equal(link.result.resultStatus, 'A', JSON.stringify(link));
assert.equal(link.merchantTransId, ids.link);
await awaitSuccess(ids.link);
console.log(`paid by link: ${link.acquirementId}`);

for (let tries = 0; webhooks.length < 3 && tries < 100; tries += 1) await sleep(100);
assert.equal(webhooks.length, 3);
for (const webhook of webhooks) {
  await verifyWebhook(webhook);
  const event = JSON.parse(webhook.body);
  const kind = Object.keys(ids).find((name) => ids[name] === event.paymentRequestId);
  console.log(`webhook verified: ${event.eventType} ${kind}`);
}
await assert.rejects(verifyWebhook({ ...webhooks[0], body: Buffer.concat([webhooks[0].body, Buffer.from(' ')]) }));
console.log('an altered webhook is rejected');
server.close();
server.closeAllConnections();
