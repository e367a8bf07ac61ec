import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { createRawClient } from '../raw-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-record-'));
let gateway: EmbeddedGateway;
beforeAll(async () => {
  const script = join(import.meta.dirname, '../../fixtures/governed/server.js');
  const server = (era: 'modern' | 'handshake') => ({
    command: process.execPath,
    args: [script],
    env: { ERA: era },
    era,
  });
  gateway = await createGateway({
    config: {
      version: 1,
      sessions: { defaultTrust: 'direct', includeMeta: true },
      servers: { modern: server('modern'), handshake: server('handshake') },
      rules: [{ id: 'no-waiting', deny: '*__wait' }],
    },
    dataDir: join(folder, 'data'),
    log: { info() {}, warn() {} },
  });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const text = (words: string) => [{ type: 'text', text: words }];
const calls: Readonly<Record<string, readonly [string, Record<string, unknown>]>> = {
  ok: ['say', {}],
  'false is no error': ['say', { result: { isError: false, content: text('"isError":true') } }],
  'tool-error': ['say', { result: { content: text('no'), isError: true } }],
  // The position of the mark is known from the first scan, so the size of the result does not matter.
  'large tool-error': ['say', { result: { content: text('x'.repeat(400_000)), isError: true } }],
  PERMISSION_DENIED: ['wait', {}],
};

test('L8: a failed tool, an error of the server and a refusal have different outcomes, in both eras', async () => {
  const { id } = await gateway.createSession({});
  for (const era of ['modern', 'handshake'] as const) {
    const client = await createRawClient(gateway.connect(id), era);
    for (const server of ['modern', 'handshake']) {
      for (const [name, args] of Object.values(calls)) {
        await client.request('tools/call', { name: `${server}__${name}`, arguments: args });
      }
      await client.request('completion/complete', {
        ref: { type: 'ref/prompt', name: `${server}__greet` },
        argument: { name: 'a', value: 'b' },
      });
    }
    await client.close();
  }
  await gateway.close();
  const lines = readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8').trimEnd().split('\n');
  const recorded = lines
    .map((line) => JSON.parse(line) as Record<string, string>)
    .filter(({ kind, method }) => kind === 'call' && /^(?:tools\/call|completion)/.test(method ?? ''))
    .map(({ era, server, outcome }) => `${era} ${server} ${outcome}`);
  const outcomes = ['ok', 'ok', 'tool-error', 'tool-error', 'PERMISSION_DENIED', 'server-error'];
  const eras = ['modern', 'handshake'];
  expect(recorded).toEqual(
    eras.flatMap((era) => eras.flatMap((server) => outcomes.map((outcome) => `${era} ${server} ${outcome}`))),
  );
});
