import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import { authorizationServer, browse } from './authorization-server.ts';
import { guardedUpstream } from './guarded-upstream.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

/** What a person at the terminal would do, once the command says where. */
async function personOpens(said: () => string): Promise<void> {
  let address: string | undefined;
  while (address === undefined) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    address = /^http:\/\/127\.0\.0\.1:\d+\/auth\S+$/m.exec(said())?.[0];
  }
  const back = await browse(address, (url) => url.includes('/callback'));
  const forged = new URL(back);
  forged.searchParams.set('state', 'another');
  expect((await fetch(forged)).status).toBe(404);
  expect((await fetch(back)).status).toBe(200);
}

test('P14: login in a browser, listed and removed, without a gateway', async () => {
  const as = await authorizationServer();
  const far = await guardedUpstream(as.issuer, as.jwksUri);
  const folder = mkdtempSync(join(tmpdir(), 'ambit-login-'));
  open.push(as, far, { close: async () => rmSync(folder, { recursive: true, force: true }) });
  const file = join(folder, 'ambit.yaml');
  writeFileSync(file, `version: 1\nservers: { notes: { url: "${far.url}" }, local: { command: x } }\n`);
  const places = ['--config', file, '--data-dir', join(folder, 'data')];
  const ambit = (...words: string[]) => ambitInProcess([...words, ...places]);

  let said = '';
  const write = process.stderr.write;
  const running = ambit('login', 'notes', '--user', 'ada', '--json');
  const captured = process.stderr.write;
  process.stderr.write = ((chunk: string) => {
    said += chunk;
    return captured(chunk);
  }) as typeof write;
  await personOpens(() => said);
  const { code, stdout, stderr } = await running;
  expect({ code, view: JSON.parse(stdout) as unknown }).toMatchObject({
    code: 0,
    view: { userId: 'ada', server: 'notes', issuer: as.issuer, state: 'active' },
  });
  const listed = await ambit('credential', 'list', '--json');
  expect(JSON.parse(listed.stdout)).toMatchObject({ credentials: [], logins: [{ userId: 'ada', server: 'notes' }] });
  const kept = readdirSync(join(folder, 'data')).filter((name) => name.includes('.db') || name.includes('sqlite'));
  const bytes = kept.map((name) => readFileSync(join(folder, 'data', name), 'latin1')).join('');
  expect(kept).not.toEqual([]);
  expect(bytes).toContain('"state":"active"');
  expect(bytes + stdout + stderr + listed.stdout).not.toMatch(/access_?token|eyJ[\w-]+\.eyJ/i);

  expect(await ambit('credential', 'remove', '--login', '--user', 'ada', '--server', 'notes')).toMatchObject({
    code: 0,
  });
  expect(as.asked.get('/token/revocation')).toBe(2);
  expect(await ambit('credential', 'remove', '--login', '--user', 'ada', '--server', 'notes')).toMatchObject({
    code: 1,
  });
  expect(await ambit('login', 'local', '--user', 'ada')).toMatchObject({ code: 1 });
  expect(await ambit('login', 'notes')).toMatchObject({ code: 2 });
});
