import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mintToken } from '../../../src/identity/token.ts';
import { findWithSecretlint } from '../../observability/log/find-with-secretlint.ts';
import { knownCredentials } from '../../observability/log/secrets.ts';
import { parseSamples } from '../../observability/metrics/read-samples.ts';
import { sendRaw } from '../http-exchange.ts';
import { bearerHeader, callModern, connectHandshake, readToolText, sendModern } from '../raw-mcp-client.ts';
import { type ObservedGateway, startObservedGateway } from './start-observed-gateway.ts';

const upstreamToken = knownCredentials['GitHub, personal']?.() ?? '';
const passphrase = 'correct horse battery staple';
const operatorHeader = knownCredentials['Anthropic']?.() ?? '';
const inAddress = knownCredentials['Postgres']?.() ?? '';
const inName = knownCredentials['SendGrid']?.() ?? '';
const stranger = mintToken('ambs', 'd41d8cd98f00b204e9800998ecf8427e').token;
const apiKey = stranger.replace('ambs_', 'ambk_');
const user = 'ada.lovelace@example.com';

let on: ObservedGateway;
let session: { readonly id: string; readonly token: string };
let journal = '';
let metrics = '';
/** The error texts that clients got. */
const refusals: string[] = [];

/** Every way to be refused or to fail, with something planted on each. */
beforeAll(async () => {
  const leaky = { command: process.execPath, args: [join(import.meta.dirname, 'leaky-server.js')] };
  on = await startObservedGateway({
    servers: {
      leaky: { ...leaky, env: { UPSTREAM_TOKEN: upstreamToken, PASSPHRASE: passphrase } },
      gone: { command: join(import.meta.dirname, 'not-there'), env: { UPSTREAM_TOKEN: upstreamToken } },
      shut: { url: 'http://127.0.0.1:9/mcp', headers: { Authorization: `Bearer ${operatorHeader}` } },
    },
  });
  session = await on.gateway.createSession({ userId: user, permissions: ['garden:dig'], name: 'dig' });
  const { token } = session;
  const note = async (answer: ReturnType<typeof sendRaw>) => void refusals.push((await (await answer).rest()).join());
  const to = (server: string) => `${on.url}/mcp/${server}`;
  await readToolText(callModern(to('leaky'), token, 'leak', '{}'));
  const client = await connectHandshake(`${on.url}/mcp`, token);
  await readToolText(client.call('leaky__leak', '{}'));
  await note(callModern(to('leaky'), token, 'leak', '{"crash":true}'));
  await readToolText(callModern(to('leaky'), token, 'leak', '{}'));
  await note(callModern(to('gone'), token, 'leak', '{}'));
  await note(callModern(to('shut'), token, 'leak', '{}'));
  for (const wrong of [stranger, apiKey, `${token.slice(0, -1)}${token.endsWith('x') ? 'y' : 'x'}`])
    await note(callModern(to('leaky'), wrong, 'leak', '{}'));
  await note(sendRaw(to('leaky'), { headers: { 'content-type': 'text/plain', ...bearerHeader(token) }, body: token }));
  await note(sendRaw(`${on.url}/nowhere?token=${token}`, { method: 'GET', headers: bearerHeader(token) }));
  await (await callModern(to('leaky'), token, inName, '{}')).rest();
  const read = { method: 'resources/read', params: `"uri":"${inAddress}"`, name: inAddress };
  await (await sendModern(to('leaky'), token, read)).rest();
  await on.gateway.restrictSession(session.id, { permissions: [] });
  metrics = await on.metrics();
  await on.gateway.endSession(session.id);
  await note(callModern(to('leaky'), token, 'leak', '{}'));
  journal = await on.closed();
});
afterAll(() => {
  on = undefined as unknown as ObservedGateway;
});

function scanned(): Record<string, string> {
  const log = on.lines.map(({ line }) => line).join('\n');
  return { log, journal, metrics, refusals: refusals.join('\n') };
}

test('every path was taken, so the scan can find something', () => {
  const { log, refusals: said } = scanned();
  for (const word of ['leaky authorization', 'leaky heard', 'start-failed', 'resources/read'])
    expect(journal).toContain(word);
  for (const event of ['context injected', 'server started', 'server lost', 'server not started', 'session ended'])
    expect(log).toContain(event);
  for (const code of ['UNAUTHENTICATED', 'SESSION_ENDED', 'UPSTREAM_FAILED']) expect(said).toContain(code);
  expect(readFileSync(join(import.meta.dirname, 'leaky-server.js'), 'utf8')).toContain('UPSTREAM_TOKEN');
});

test('L9: no planted secret is in logs, journal, metrics or what clients are told', () => {
  const planted = { upstreamToken, passphrase, operatorHeader, stranger, apiKey, token: session.token };
  const typed = { inName, password: /:([^:@]+)@/.exec(inAddress)?.[1] as string };
  for (const [where, text] of Object.entries(scanned())) {
    for (const [what, secret] of Object.entries(planted))
      expect(text.includes(secret), `${what} in ${where}`).toBe(false);
    // What a caller itself typed in a name may be said back to that caller, and to nobody else.
    if (where === 'refusals') continue;
    for (const [what, secret] of Object.entries(typed))
      expect(text.includes(secret), `${what} in ${where}`).toBe(false);
  }
});

test('L9: a public secret scanner finds no credential in them', async () => {
  for (const [where, text] of Object.entries(scanned())) expect(await findWithSecretlint(text), where).toEqual([]);
});

test('L9: no token, of ours or signed by us, and no digest of one', () => {
  for (const [where, text] of Object.entries(scanned())) {
    expect(text, where).not.toMatch(/amb[sk]_[a-z0-9-]+_[0-9A-Za-z]{8}/);
    expect(text, where).not.toMatch(/eyJ[A-Za-z0-9_-]{10,}\./);
    // The journal has digests of arguments, and no argument here is a token alone.
    expect(text.replaceAll(/"argsSha256":"[0-9a-f]{64}"/g, ''), where).not.toMatch(/[0-9a-f]{64}/);
  }
});

test('L8, L9: ids by 8 characters in logs, metrics and errors; whole in the journal', () => {
  const entries = journal
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const correlations = entries.flatMap(({ kind, id }) => (kind === 'call' && typeof id === 'string' ? [id] : []));
  expect(correlations.length).toBeGreaterThan(8);
  expect(journal).toContain(session.id);
  const { log, refusals: said } = scanned();
  for (const text of [log, metrics, said]) {
    for (const id of [session.id, ...correlations]) expect(text).not.toContain(id);
  }
  expect(log).toContain(`session=${session.id.slice(0, 8)}`);
  expect(log).toContain(`correlation=${correlations[0]?.slice(0, 8)}`);
});

test('L9: users are opaque, and permissions are told at debug alone', () => {
  const { log } = scanned();
  // Not the first name: the ids in the log are random hexadecimal digits, and these spell "ada" now and then.
  for (const text of [log, metrics]) expect(text).not.toMatch(/lovelace|example\.com/);
  expect(log).toMatch(/ user=u-[0-9a-f]{8} /);
  expect(on.lines.filter(({ line }) => line.includes('garden:dig')).map(({ level }) => level)).toEqual(['debug']);
});

test('P15: one debug line for each injection', () => {
  const told = on.lines.filter(({ line }) => line.startsWith('context injected: server=leaky'));
  const started = journal.split('\n').filter((line) => line.includes('"server":"leaky"') && line.includes('"started"'));
  expect(told).toEqual(
    started.map(() => ({
      level: 'debug',
      line: `context injected: server=leaky session=${session.id.slice(0, 8)} workspace=(none) trust=direct`,
    })),
  );
  expect(told.length).toBeGreaterThan(1);
});

test('P15, L8: what happened is counted, by server and outcome, and by nothing an agent can name', () => {
  const all = parseSamples(metrics);
  const find = (name: string, labels: Record<string, string>) =>
    all.find((each) => each.name === name && Object.entries(labels).every(([key, value]) => each.labels[key] === value))
      ?.value;
  const leaky = { server: 'leaky' };
  expect(find('ambit_sessions_live', {})).toBe(1);
  expect(find('ambit_process_starts_total', leaky)).toBeGreaterThan(1);
  expect(find('ambit_process_restarts_total', leaky)).toBe(1);
  expect(find('ambit_process_start_seconds_count', leaky)).toBeGreaterThan(1);
  expect(find('ambit_process_start_failures_total', { server: 'gone' })).toBeGreaterThan(0);
  expect(find('ambit_calls_total', { ...leaky, method: 'tools/call', outcome: 'ok' })).toBeGreaterThan(2);
  expect(find('ambit_calls_total', { ...leaky, method: 'tools/call', outcome: 'UPSTREAM_FAILED' })).toBe(1);
  // Whoever proves nothing has called nothing: what they sent is not read.
  expect(find('ambit_calls_total', { outcome: 'UNAUTHENTICATED' })).toBeUndefined();
  expect(find('ambit_http_refusals_total', { status: '401' })).toBe(3);
  expect(find('ambit_http_refusals_total', { status: '404' })).toBe(2);
  expect(find('ambit_http_refusals_total', { status: '415' })).toBe(1);
  const values = new Set(all.flatMap(({ labels }) => Object.values(labels)));
  expect([...values].filter((value) => value.length > 32)).toEqual([]);
});
