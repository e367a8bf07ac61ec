import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readSecret } from '../../../src/cli/commands/credential.ts';
import { ambitInProcess, openControlledGateway } from '../in-process.ts';

const secret = 'planted-secret-value-4711';
const stdin = Object.getOwnPropertyDescriptor(process, 'stdin') as PropertyDescriptor;
let folder: string;
let places: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-credential-'));
  const file = join(folder, 'ambit.yaml');
  writeFileSync(file, 'version: 1\nservers: { notes: { command: x }, search: { url: "http://127.0.0.1:9/" } }\n');
  places = ['--config', file, '--data-dir', join(folder, 'data')];
});
afterEach(() => {
  Object.defineProperty(process, 'stdin', stdin);
  rmSync(folder, { recursive: true, force: true });
});

async function credential(words: readonly string[], value?: string) {
  if (value !== undefined) {
    Object.defineProperty(process, 'stdin', { value: Readable.from([Buffer.from(value)]), configurable: true });
  }
  const exited = await ambitInProcess(['credential', ...words, '--json', ...places]);
  expect(JSON.stringify(exited)).not.toContain(secret);
  return { ...exited, data: exited.stdout === '' ? undefined : (JSON.parse(exited.stdout) as unknown) };
}
const named = ['--user', 'ada', '--server', 'notes', '--env', 'NOTES_TOKEN'];

async function setListRemove(): Promise<void> {
  expect(await credential(['set', ...named], `${secret}\n`)).toMatchObject({ code: 0 });
  const header = ['--user', 'ada', '--server', 'search', '--header', 'Authorization'];
  expect(await credential(['set', ...header], `Bearer ${secret}`)).toMatchObject({ code: 0 });
  const listed = await credential(['list', '--user', 'ada']);
  expect(listed.data).toMatchObject({
    credentials: [
      { userId: 'ada', server: 'notes', env: 'NOTES_TOKEN', usable: true },
      { userId: 'ada', server: 'search', header: 'authorization', usable: true },
    ],
  });
  expect((await credential(['list', '--user', 'eve'])).data).toEqual({ credentials: [], logins: [] });
  expect(await credential(['remove', ...header])).toMatchObject({ code: 0 });
  expect(await credential(['remove', ...header])).toMatchObject({ code: 1 });
  expect(await credential(['remove', ...named])).toMatchObject({ code: 0 });
}

test('without a gateway they work on the store itself', async () => {
  await setListRemove();
  expect(readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8')).toContain('credential-removed');
});

test('with a gateway they ask it', async () => {
  // Its store is in its memory: without asking it, nothing would be there.
  const gateway = await openControlledGateway(places[1] as string, places[3] as string, { store: { kind: 'memory' } });
  await setListRemove().finally(gateway.close);
});

test.each([
  [['--server', 'notes', '--env', 'X'], 'v', 2, '--user'],
  [['--user', 'ada', '--env', 'X'], 'v', 2, '--server'],
  [['--user', 'ada', '--server', 'notes'], 'v', 2, '--env NAME or --header NAME'],
  [['--user', 'ada', '--server', 'notes', '--env', 'X', '--header', 'Y'], 'v', 2, 'either'],
  [named, '', 2, 'value is empty'],
  [named, 'x'.repeat(70_000), 2, 'longer'],
  [['--user', 'ada', '--server', 'nobody', '--env', 'X'], 'v', 1, 'SERVER_NOT_AVAILABLE'],
  [['--user', 'ada', '--server', 'notes', '--env', 'LD_PRELOAD'], 'v', 1, 'REQUEST_INVALID'],
  [['--user', 'ada', '--server', 'notes', '--env', 'AMBIT_USER_ID'], 'v', 1, 'REQUEST_INVALID'],
  [['--user', 'ada', '--server', 'notes', '--header', 'X-Key'], 'v', 1, 'has no headers'],
  [['--user', 'ada', '--server', 'search', '--header', 'X-Key'], 'a\r\nb: c', 1, 'line break'],
  [['--user', 'anonymous', '--server', 'notes', '--env', 'X'], 'v', 1, 'Anonymous'],
])('set %j is refused', async (words, value, code, says) => {
  const exited = await credential(['set', ...words], value);
  expect(exited).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(says) });
  expect((await credential(['list'])).data).toEqual({ credentials: [], logins: [] });
});

test('at a terminal nothing typed is shown', async () => {
  const [input, terminal] = [new PassThrough(), new PassThrough()];
  const shown: string[] = [];
  terminal.on('data', (chunk: Buffer) => shown.push(chunk.toString()));
  const reading = readSecret(input, terminal);
  for (const key of `${secret}\r`) input.write(key);
  expect(await reading).toBe(secret);
  expect(shown.join('')).toBe('Value (not shown): \n');
});
