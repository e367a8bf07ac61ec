import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { createControlApi } from '../../../src/entrances/control/control-api.ts';
import { type ControlCaller, localCaller } from '../../../src/entrances/control/route.ts';
import { AmbitError } from '../../../src/errors.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import type { Reader } from '../../../src/lib/async/reader-turns.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-api-'));
let gateway: Gateway;
beforeAll(async () => {
  const configFile = join(folder, 'ambit.yaml');
  const { config } = await loadConfig({ text: 'version: 1', file: configFile });
  gateway = await openGateway({ config, configFile, dataDir: join(folder, 'data'), log: { info() {}, warn() {} } });
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Serves the control API for one caller after the other. */
async function serve(of: Gateway, callerOf: (request: IncomingMessage) => ControlCaller = () => localCaller) {
  const api = createControlApi(of, () => undefined);
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    void api.answer(request, response, callerOf(request));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

test('S7: a search of the journal learns that its client has left, and the request behind it does not begin', async () => {
  const signals: AbortSignal[] = [];
  let begin = () => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const searchJournal: Gateway['searchJournal'] = (_filter, { signal }) => {
    signals.push(signal as AbortSignal);
    begin();
    return new Promise(() => {});
  };
  const port = await serve(Object.create(gateway, { searchJournal: { value: searchJournal } }) as Gateway);
  const socket = connect(port, '127.0.0.1');
  const request = 'GET /api/v1/journal?words=a HTTP/1.1\r\nHost: a\r\n\r\n';
  socket.write(request + request);
  await begun;
  const left = new Promise((resolve) => signals[0]?.addEventListener('abort', resolve));
  expect(signals[0]?.aborted).toBe(false);
  socket.destroy();
  await left;
  const other = await fetch(`http://127.0.0.1:${port}/api/v1/whoami`);
  expect([other.status, signals.length]).toEqual([200, 1]);
});

test('S7: requests behind answers that nobody reads wait, and are answered once somebody reads', async () => {
  const port = await serve(gateway);
  const ask = async (path: string) =>
    (await fetch(`http://127.0.0.1:${port}${path}`)).json() as Promise<Record<string, unknown>>;
  const body = JSON.stringify({ name: 'behind', trustLevel: 'sandboxed' });
  const create = `POST /api/v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const socket = connect(port, '127.0.0.1').pause();
  onTestFinished(() => void socket.destroy());
  // More than the buffers of the system hold.
  const size = JSON.stringify(await ask('/api/v1/openapi.json')).length;
  const count = Math.ceil((32 * 1024 * 1024) / size);
  socket.write('GET /api/v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count) + create);
  const names = async () => ((await ask('/api/v1/sessions'))['sessions'] as { name: string }[]).map(({ name }) => name);
  for (let round = 0; round < 20; round++) expect(await names()).not.toContain('behind');
  socket.resume();
  await expect.poll(names).toContain('behind');
});

test('S7: a viewer cannot fill the journal with refused requests', async () => {
  const port = await serve(gateway, () => ({ role: 'viewer', by: 'ada', consoleId: 'flood' }));
  const path = `/api/v1/servers/${'x'.repeat(7800)}/approve`;
  for (let sent = 0; sent < 40; sent++) {
    const { status } = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: '{}' });
    expect(status).toBe(403);
  }
  const { entries } = await gateway.searchJournal({ words: ['flood'] }, { limit: 200 });
  expect(entries.length).toBeGreaterThan(0);
  expect(entries.length).toBeLessThan(15);
  expect(JSON.stringify(entries).length / entries.length).toBeLessThan(1000);
});

test('S10: a refusal names the console, and no console uses up the lines of another', async () => {
  const callers = ['one', 'two', undefined].map(
    (consoleId): ControlCaller => ({ role: 'viewer', by: 'admin-token', consoleId }),
  );
  let caller = localCaller;
  const port = await serve(gateway, () => caller);
  for (const each of callers) {
    caller = each;
    for (let sent = 0; sent < 12; sent++) {
      const { status } = await fetch(`http://127.0.0.1:${port}/api/v1/consoles`);
      expect(status).toBe(403);
    }
  }
  const { entries } = await gateway.searchJournal({ kind: 'refusal', event: 'control' }, { limit: 100 });
  for (const { by, consoleId } of callers) {
    const lines = entries.filter((entry) => entry['consoleId'] === consoleId);
    expect(lines.length).toBeGreaterThanOrEqual(10);
    expect(new Set(lines.map((entry) => entry['by']))).toEqual(new Set([by]));
  }
});

test('S7: viewers leave places among the readers of events for admins', async () => {
  let caller: ControlCaller = localCaller;
  const port = await serve(gateway, () => caller);
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const countOpened = async (role: ControlCaller['role'], by: string, wanted: number, consoleId?: string) => {
    caller = { role, by, consoleId };
    let opened = 0;
    for (let asked = 0; asked < wanted; asked++) {
      const { status } = await fetch(`http://127.0.0.1:${port}/api/v1/events`, { signal: end.signal });
      if (status === 200) opened++;
      else expect(status).toBe(503);
    }
    return opened;
  };
  // One console has 16 places, one credential half of all places, and viewers together three quarters.
  expect(await countOpened('viewer', 'ada', 20, 'console-of-ada')).toBe(16);
  expect([await countOpened('viewer', 'ada', 50), await countOpened('viewer', 'bob', 70)]).toEqual([48, 32]);
  expect(await countOpened('admin', 'eve', 33)).toBe(32);
});

test('S7: a refused request looks up no session, and a person is one reader with all consoles', async () => {
  const asked: object[] = [];
  const refuse = (_query: unknown, asReader: object) => {
    const { reader, console } = asReader as Reader;
    asked.push({ reader, console });
    return Promise.reject(new AmbitError('OVERLOADED'));
  };
  const lookUp = () => {
    throw new Error('a look-up for a refused request');
  };
  const sessions = { find: lookUp, list: lookUp, whyGone: async () => 'ended' };
  const refusing = Object.create(gateway, {
    searchJournal: { value: refuse },
    readStatistics: { value: refuse },
    sessions: { value: sessions },
    endedSessions: { value: { list: lookUp, listInTurn: refuse } },
    openServers: {
      value: async () => ({ describe: (_name: string, _role: string, asReader: object) => refuse('', asReader) }),
    },
  }) as Gateway;
  const caller: ControlCaller = { role: 'viewer', by: 'ada', consoleId: 'one' };
  const callers = [
    caller,
    { ...caller, consoleId: 'two' },
    { ...caller, role: 'admin' as const, consoleId: undefined },
  ];
  let current = caller;
  const port = await serve(refusing, () => current);
  for (const path of ['journal?session=shift', 'stats?session=shift', 'sessions/ended?name=shift', 'servers/notes']) {
    for (const each of callers) {
      current = each;
      const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
      expect([path, response.status]).toEqual([path, 503]);
    }
    expect(asked.splice(0)).toEqual([
      { reader: 'viewer ada', console: 'one' },
      { reader: 'viewer ada', console: 'two' },
      { reader: 'admin ada', console: undefined },
    ]);
  }
});
