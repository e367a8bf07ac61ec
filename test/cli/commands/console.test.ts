import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { type ControlListener, listenControl } from '../../../src/entrances/control/listen-control.ts';
import { controlSocketPath } from '../../../src/entrances/control/socket-path.ts';
import { type HttpListener, listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import { ambitInProcess } from '../in-process.ts';

const log = { info() {}, warn() {} };
const folder = mkdtempSync(join(tmpdir(), 'ambit-console-'));
const configFile = join(folder, 'ambit.yaml');
const dataDir = join(folder, 'data');
let gateway: Gateway;
let http: HttpListener;
let control: ControlListener;

beforeAll(async () => {
  writeFileSync(configFile, 'version: 1\nstore: { kind: memory }\n');
  const { config } = await loadConfig({ file: configFile });
  gateway = await openGateway({ config, configFile, dataDir, log });
  http = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log);
  control = await listenControl(gateway, controlSocketPath(dataDir, process.env), () => http.url);
});
afterAll(async () => {
  await control?.close();
  await http?.close(0);
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

const ambit = (words: string, env: NodeJS.ProcessEnv = {}, data = dataDir) =>
  ambitInProcess([...words.split(' '), '--config', configFile, '--data-dir', data], {
    DISPLAY: undefined,
    WAYLAND_DISPLAY: undefined,
    ...env,
  });

async function signIn(link: string) {
  const body = JSON.stringify({ code: new URL(link).hash.replace('#code=', '') });
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${http.url}/api/v1/consoles`, { method: 'POST', headers, body });
  return (await response.json()) as { id: string; role: string };
}

test('S10: ambit open --print prints only the link to stdout, and the consoles are listed and signed out', async () => {
  const printed = await ambit('open --print --role viewer');
  expect(printed).toMatchObject({ code: 0, stderr: expect.stringContaining('signs in once, as viewer') });
  expect(printed.stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#code=ambo_[0-9A-Za-z_]+\n$/);
  const { id, role } = await signIn(printed.stdout);
  expect(role).toBe('viewer');
  const listed = JSON.parse((await ambit('console list --json')).stdout) as { consoles: object[] };
  expect(listed.consoles).toMatchObject([{ id, role: 'viewer', by: 'control-socket', isCurrent: false }]);
  expect((await ambit('console list')).stdout).toContain(id.slice(0, 8));
  expect((await ambit(`console revoke ${id.slice(0, 8)}`)).stdout).toBe(`Signed out the console ${id.slice(0, 8)}.\n`);
  expect((await ambit('console list')).stdout).toContain('No console is signed in');
  const link = JSON.parse((await ambit('open --json')).stdout) as { url: string; role: string };
  expect([link.role, new URL(link.url).origin]).toEqual(['admin', http.url]);
  const second = await signIn(link.url);
  const revoked = JSON.parse((await ambit(`console revoke ${second.id} --json`)).stdout) as object;
  expect(revoked).toEqual({ id: second.id, revoked: true });
  expect(await ambit(`console revoke ${id}`)).toMatchObject({ code: 1, stderr: expect.stringContaining('no such') });
});

test('without a screen the link is printed', async () => {
  const { code, stdout, stderr } = await ambit('open');
  expect([code, stderr.includes('No browser could be opened')]).toEqual([0, true]);
  expect(await signIn(stdout)).toMatchObject({ role: 'admin' });
});

test.runIf(process.platform === 'linux')(
  'S10: the browser gets the link, and the arguments of no program contain the code',
  async () => {
    const programs = join(folder, 'programs');
    mkdirSync(programs);
    const seen = join(folder, 'seen.json');
    // A page that knows the address fetches it or leads to it; then the browser opens it, and signs in.
    const visit = `
      const { request } = require('node:http');
      const [address, seen, port] = process.argv.slice(2);
      const ask = (url, headers, body) => new Promise((done) => {
        const sent = request(url, { method: body ? 'POST' : 'GET', headers }, (answer) => answer.resume().on('end', () =>
          done([answer.statusCode, answer.headers.location ?? null])));
        sent.end(body);
      });
      (async () => {
        const pages = [['no-cors', 'cross-site'], ['cors', 'none'], ['navigate', 'cross-site'], ['navigate', 'same-site']];
        const refused = [];
        for (const [mode, site] of pages)
          refused.push(await ask(address, { 'sec-fetch-mode': mode, 'sec-fetch-site': site }));
        const [, link] = await ask(address, { 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'none' });
        const { host, hash } = new URL(link);
        const body = JSON.stringify({ code: hash.replace('#code=', '') });
        const headers = { host, 'content-type': 'application/json', 'content-length': body.length };
        const opened = await ask('http://127.0.0.1:' + port + '/api/v1/consoles', headers, body);
        require('node:fs').writeFileSync(seen, JSON.stringify({ address, link, refused, opened }));
      })()`;
    writeFileSync(join(folder, 'visit.cjs'), visit);
    const { port } = new URL(http.url);
    const script = `#!/bin/sh\nexec '${process.execPath}' '${join(folder, 'visit.cjs')}' "$1" '${seen}' ${port}\n`;
    writeFileSync(join(programs, 'xdg-open'), script, { mode: 0o755 });
    const env = { DISPLAY: ':0', PATH: `${programs}${delimiter}${process.env['PATH']}` };
    const opened = await ambit('open', env);
    expect(opened).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('open in the browser') });
    await expect.poll(() => existsSync(seen) && readFileSync(seen, 'utf8')).toMatch(/\}$/);
    const told = JSON.parse(readFileSync(seen, 'utf8')) as Record<string, unknown>;
    expect(told['address']).not.toContain('ambo_');
    expect(told['refused']).toEqual(Array(4).fill([404, null]));
    expect(new URL(String(told['link'])).hostname).toBe(gateway.running.consoles.hostName);
    expect(told['opened']).toEqual([201, null]);
    writeFileSync(join(programs, 'xdg-open'), '#!/bin/sh\nexit 3\n', { mode: 0o755 });
    expect((await ambit('open', env)).stdout).toMatch(/#code=/);
  },
);

test('without a gateway there is nothing to sign in to', async () => {
  for (const words of ['open --print', 'console list', 'console revoke abcd']) {
    const answer = await ambit(words, {}, join(folder, 'other'));
    expect([words, answer.code]).toEqual([words, 1]);
    expect(answer.stderr).toContain('GATEWAY_UNREACHABLE');
  }
});
