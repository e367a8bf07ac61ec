import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { scopedGateway } from './scoped-gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-foreign-'));
const script = join(import.meta.dirname, '../../fixtures/eras/foreign-eras.js');
const kinds = ['go-sdk', 'typescript-v1', 'silent', 'rmcp'] as const;
const startsOf = (kind: string) => readFileSync(join(folder, kind), 'utf8').trim().split('\n').length;
const servers = Object.fromEntries(
  kinds.map((kind) => [kind, { command: process.execPath, args: [script, kind, join(folder, kind)] }]),
);
const own = await scopedGateway({ servers, processes: { startSeconds: 1 } });
afterAll(async () => {
  await own.close();
  rmSync(folder, { recursive: true });
});

test.each([
  ['go-sdk', 1],
  ['typescript-v1', 1],
  ['silent', 1],
  ['rmcp', 2],
] as const)('a modern client calls a server like %s, which is started %i times', async (kind, starts) => {
  const client = await own.connect(await own.open(), kind, 'modern');
  expect(await client.call('echo')).toBe('called');
  expect(await client.call('echo')).toBe('called');
  expect(startsOf(kind)).toBe(starts);
  const ends = own.journal().filter(({ server, event }) => server === kind && event === 'ended');
  const reason = 'it ended while Ambit detected its protocol era';
  expect(ends.map(({ detail }) => detail)).toEqual(kind === 'rmcp' ? [reason] : []);
});
