// Signs and verifies every vector with Node's own crypto; prints one JSON object: name -> its verdict.
//   node tests/vectors/check_vectors.mjs
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';

const read = (name) => readFileSync(new URL(name, import.meta.url), 'utf8');
const vectors = JSON.parse(read('./vectors.json'));
const privateKey = createPrivateKey(read('./' + vectors.privateKeyFile));
const publicKey = createPublicKey(read('./' + vectors.publicKeyFile));

function signingString(vector) {
  const identity = vector.clientId === undefined ? '' : vector.clientId + '.';
  const head = `${vector.method} ${vector.path}\n${identity}${vector.requestTime}.`;
  return Buffer.concat([Buffer.from(head, 'utf8'), Buffer.from(vector.bodyBase64, 'base64')]);
}

const verdicts = {};
for (const kind of ['requests', 'notifications']) {
  for (const vector of vectors[kind]) {
    const signed = signingString(vector);
    const golden = /signature=([A-Za-z0-9_-]{342})$/.exec(vector.signatureHeader)[1];
    verdicts[`${kind}: ${vector.name}`] = {
      signingStringBase64: signed.toString('base64'),
      signature: sign('RSA-SHA256', signed, privateKey).toString('base64url'),
      verified: verify('RSA-SHA256', signed, publicKey, Buffer.from(golden, 'base64url')),
    };
  }
}
console.log(JSON.stringify(verdicts));
