// node bench/verification.js: what readContext of ambit-mcp/sdk takes for one call. Needs a build.
import {
  createHash,
  createHmac,
  createSecretKey,
  generateKeyPairSync,
  randomBytes,
  randomUUID,
  sign,
} from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readContext } from '../dist/public/sdk/index.js';

const goalUs = 20;
const args = { path: 'notes/2026/plan.md', text: 'the quick brown fox jumps over the lazy dog', line: 12 };
const canonical = JSON.stringify({ line: args.line, path: args.path, text: args.text });
const argsSha256 = createHash('sha256').update(canonical).digest('hex');

// Processor time, because other work on the machine does not change it.
export async function measureVerification({ calls = 300, rounds = 40 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-bench-verification-'));
  try {
    const [hs256, ed25519] = [createProcessSigner(folder), createPublicSigner()];
    return {
      hs256Us: await measureSigner(hs256, calls, rounds),
      ed25519Us: await measureSigner(ed25519, 50, rounds),
      goalUs,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureSigner({ env, signToken }, calls, rounds) {
  const samples = [];
  // The first rounds warm up.
  for (let round = -20; round < rounds; round++) {
    // Parsed, as a server gets them.
    const requests = Array.from({ length: calls }, () => JSON.parse(JSON.stringify(createRequest(signToken))));
    const before = process.cpuUsage();
    for (const request of requests) {
      const { status, reason } = await readContext(request, { env });
      if (status !== 'verified') throw new Error(`a valid context was refused: ${reason}`);
    }
    const { user, system } = process.cpuUsage(before);
    if (round >= 0) samples.push((user + system) / calls);
  }
  return samples.toSorted((a, b) => a - b)[Math.floor(rounds / 2)];
}

// A call with the claims that a gateway writes.
function createRequest(signToken) {
  const correlationId = randomUUID();
  const now = Math.floor(Date.now() / 1000);
  const facts = {
    sessionId: 'ses_0123456789abcdef',
    workspaceId: 'my-project',
    trustLevel: 'direct',
    permissions: ['notes:read'],
  };
  const token = signToken({
    iss: 'ambit:gateway:0123456789abcdef',
    aud: 'ambit:server:notes',
    iat: now,
    exp: now + 60,
    txn: correlationId,
    jti: randomUUID(),
    req_wl: 'ambit:process:0123456789abcdef',
    sub: 'ada',
    act: { sub: 'coder' },
    scope: 'tool:write_note',
    tctx: { ...facts, correlationId, method: 'tools/call', name: 'write_note', argsSha256 },
  });
  const plain = { ...facts, userId: 'ada', agentId: 'coder', workspacePath: '/srv/projects/my-project', correlationId };
  const times = { issuedAt: new Date(now * 1000).toISOString(), expiresAt: new Date((now + 60) * 1000).toISOString() };
  return { meta: { 'ambit/context': { ...plain, ...times, token } }, name: 'write_note', arguments: { ...args } };
}

function createProcessSigner(folder) {
  const secret = randomBytes(32);
  const key = createSecretKey(secret);
  const kid = `process-${randomBytes(12).toString('base64url')}`;
  const file = join(folder, 'key.json');
  const jwk = { kty: 'oct', k: secret.toString('base64url'), alg: 'HS256', kid, use: 'sig' };
  writeFileSync(file, JSON.stringify(jwk), { mode: 0o600 });
  return {
    env: { AMBIT_CONTEXT_KEY_FILE: file },
    signToken: (claims) =>
      compactToken({ alg: 'HS256', kid }, claims, (text) => createHmac('sha256', key).update(text).digest('base64url')),
  };
}

function createPublicSigner() {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const kid = 'bench';
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'EdDSA' };
  return {
    env: { AMBIT_JWKS: JSON.stringify({ keys: [jwk] }) },
    signToken: (claims) =>
      compactToken({ alg: 'EdDSA', kid }, claims, (text) =>
        sign(null, Buffer.from(text), privateKey).toString('base64url'),
      ),
  };
}

function compactToken({ alg, kid }, claims, signText) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode({ alg, typ: 'txntoken+jwt', kid })}.${encode(claims)}`;
  return `${signed}.${signText(signed)}`;
}

export function verificationLine({ hs256Us, ed25519Us, goalUs: goal }) {
  const verdict = hs256Us <= goal ? 'reached' : 'not reached';
  const [hs256, ed25519] = [hs256Us, ed25519Us].map((us) => `${us.toFixed(1)} µs`);
  return `Verification by the SDK: HS256 ${hs256}, Ed25519 ${ed25519} of processor time per call; goal for HS256 ≤ ${goal} µs: ${verdict}`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) console.log(verificationLine(await measureVerification()));
