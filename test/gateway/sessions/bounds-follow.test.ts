import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startRecorder } from '../../fixtures/start-recorder.ts';
import { sendRaw } from '../../journeys/http-exchange.ts';
import { connectHandshake, readAnswer, readToolText, sendModern } from '../../journeys/raw-mcp-client.ts';
import { taggedProcesses } from '../../sandbox/tagged-processes.ts';
import { defineServer, eras, openBoundedGateway } from '../bounded-gateway.ts';

const on = openBoundedGateway();

function shakeHandsAgain(url: string, token: string) {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  return sendRaw(url, { headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }) });
}

describe.each(eras)('in the %s era', (era) => {
  test('P7: a reload that takes a server out of a workspace lets calls finish and takes no further ones', async () => {
    const workspaces = (servers: 'all' | string[]) => ({
      w: { path: join(on.folder, 'w'), create: true, capabilities: { servers } },
    });
    await on.start(era, { workspaces: workspaces('all') });
    const { id } = await on.gateway.createSession({ workspaceId: 'w' });
    const [one, all] = [await on.connect(id, era, 'drop'), await on.connect(id, era)];
    const slow = [one.call('slow', { ms: 300 }), all.call('drop__slow', { ms: 300 })];
    await Promise.all([one.call('mark'), all.call('drop__mark')]);
    const servers = { keep: defineServer(era), drop: defineServer(era) };
    await on.gateway.reload({ version: 1, servers, workspaces: workspaces(['keep']) });
    expect(await one.call('mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await all.call('drop__mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await Promise.all(slow)).toEqual(['done', 'done']);
    expect(await all.tools()).toEqual(['keep__mark', 'keep__slow', 'keep__crash']);
  });
});

test('over HTTP the streams of a server that goes end, and the same token works on for the rest', async () => {
  await on.start('handshake');
  const { id, token } = await on.gateway.createSession();
  const { url } = await on.gateway.listen({ host: '127.0.0.1', port: 0 });
  const [drop, keep] = [
    await connectHandshake(`${url}/mcp/drop`, token),
    await connectHandshake(`${url}/mcp/keep`, token),
  ];
  const [stream, other] = [await drop.listen(), await keep.listen()];
  expect([stream.status, other.status]).toEqual([200, 200]);
  const listening = await sendModern(`${url}/mcp/drop`, token, {
    method: 'subscriptions/listen',
    params: '"notifications":{"toolsListChanged":true}',
  });
  expect(await listening.next()).toContain('acknowledged');
  await on.gateway.restrictSession(id, { servers: ['keep'] });
  expect(await stream.rest()).toEqual([]);
  // One last message, and no more: the stream has ended.
  expect(await listening.rest()).toHaveLength(1);
  expect(await readToolText(drop.call('mark', '{}'))).toContain('SERVER_NOT_AVAILABLE');
  expect((await readAnswer(shakeHandsAgain(`${url}/mcp/drop`, token))).error?.message).toContain(
    'SERVER_NOT_AVAILABLE',
  );
  expect(await readToolText(keep.call('mark', '{}'))).toBe('done');
  other.close();
});

test('P6: what a server over HTTP was told as direct is not used by a sandboxed session any more', async () => {
  const recorder = await startRecorder();
  try {
    const far = { url: recorder.url, trust: ['direct' as const, 'sandboxed' as const], era: 'handshake' as const };
    await on.start('modern', { servers: { far } });
    const { id } = await on.gateway.createSession();
    const client = await on.connect(id, 'handshake', 'far');
    const handshakes = async () =>
      (JSON.parse(await client.call('recorded')) as string[]).filter((line) => line.includes('"initialize"')).length;
    expect(await handshakes()).toBe(1);
    await on.gateway.restrictSession(id, { trustLevel: 'sandboxed' });
    expect(await handshakes()).toBe(2);
  } finally {
    await recorder.stop();
  }
});

test('P7: a reload that gives a workspace other variables reaches the next call', async () => {
  const workspaces = (mark: string) => ({
    w: { path: join(on.folder, 'w'), create: true, env: { keep: { MARK: mark } } },
  });
  await on.start('modern', { workspaces: workspaces('one') });
  const inside = await on.connect((await on.gateway.createSession({ workspaceId: 'w' })).id, 'modern', 'keep');
  const outside = await on.connect((await on.gateway.createSession()).id, 'modern', 'keep');
  expect([await inside.call('mark'), await outside.call('mark')]).toEqual(['one', 'done']);
  const before = taggedProcesses(on.dataDir);
  const servers = { keep: defineServer('modern'), drop: defineServer('modern') };
  await on.gateway.reload({ version: 1, servers, workspaces: workspaces('two') });
  expect([await inside.call('mark'), await outside.call('mark')]).toEqual(['two', 'done']);
  // Who is not in that workspace keeps its process.
  expect(taggedProcesses(on.dataDir).filter((pid) => before.includes(pid)).length).toBeGreaterThan(0);
});

test('the journal says what was restricted and by which rule a call was refused; the caller is not told', async () => {
  await on.start('modern', {
    workspaces: { w: { path: join(on.folder, 'w'), create: true, capabilities: { servers: ['keep'] } } },
  });
  const { id } = await on.gateway.createSession({ workspaceId: 'w' });
  const answers: unknown[] = [];
  const tryOut = async (server: string) => {
    const { result } = await (await on.connect(id, 'modern', server)).request('tools/call', {
      name: 'x',
      arguments: {},
    });
    answers.push(JSON.stringify(result).replaceAll(server, 'NAME'));
  };
  await tryOut('drop');
  await on.gateway.restrictSession(id, { servers: [], ttlSeconds: 60 });
  await tryOut('keep');
  await tryOut('nobody');
  expect(new Set(answers).size).toBe(1);
  expect(answers[0]).toContain('SERVER_NOT_AVAILABLE');
  expect(answers[0]).not.toContain('workspaces');
  await on.close();
  const rules = on.journal(id).filter(({ kind }) => kind === 'call');
  expect(rules.map(({ server, rule }) => [server, rule])).toEqual([
    ['drop', 'workspaces.w.capabilities.servers'],
    ['keep', 'session.servers'],
    ['nobody', undefined],
  ]);
  expect(on.journal(id).filter(({ event }) => event === 'restricted')).toMatchObject([
    { kind: 'session', sessionId: id, servers: '', ttlSeconds: 60 },
  ]);
});
