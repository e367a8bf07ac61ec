import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts, proof } from '../../proof.ts';
import {
  type Era,
  ended,
  eras,
  recorder,
  type ScopedGateway,
  scopedGateway,
  type Whoami,
  whoami,
} from '../../upstreams/links/scoped-gateway.ts';
import type { RawClient, RawMessage } from '../raw-client.ts';

let on: ScopedGateway;
let url: string;
/** Put into no workspace, and used by nearly all tests: what one client announces says nothing about the next. */
let roaming: { readonly id: string; readonly token: string };

beforeAll(async () => {
  const servers = { modern: recorder('session', 'modern'), handshake: recorder('session', 'handshake') };
  on = await scopedGateway({ servers, context: { announceKeys: ['ambit', 'orbit'] } });
  ({ url } = await on.gateway.listen({ port: 0 }));
  roaming = await on.open();
});
afterAll(() => on?.close());

const object = (workspace: unknown, key = 'ambit') => ({ [key]: { workspace } });
const dotted = (workspace: unknown, key = 'ambit') => ({ [`${key}.workspace`]: workspace });
const unavailable =
  'The client announced the workspace NAME, which is not available to this session. The client can announce one of these in _meta.ambit.workspace, before MCP 2026-07-28 in that of "initialize": "one", "two".';
const told = async (client: RawClient, name = 'whoami') =>
  (JSON.parse(await client.call(name)) as Whoami).told['AMBIT_WORKSPACE_ID'];

describe.each(eras)('O1: announced by a client of the %s era', (era) => {
  test.each([
    ['a slug', () => object('one'), 'one'],
    ['a slug in the other form', () => dotted('two'), 'two'],
    ['under another name', () => object('one', 'orbit'), 'one'],
    ['under another name, in the other form', () => dotted('two', 'orbit'), 'two'],
    ['a path', () => object(join(on.folder, 'one')), 'one'],
    ['a path that is written otherwise', () => dotted(`${on.folder}/two/../one//./`), 'one'],
    ['the same in both forms', () => ({ ...object('one'), ...dotted('one') }), 'one'],
    ['nothing', () => ({}), ''],
    ['an empty string', () => object(''), ''],
    ['a number', () => dotted(1), ''],
    ['nothing in particular', () => ({ ambit: null, 'ambit.workspace': ['one'], orbit: 'one' }), ''],
    ['a name that is not ours', () => ({ ambient: { workspace: 'one' }, Ambit: { workspace: 'two' } }), ''],
  ] as const)('%s', async (_name, meta, expected) => {
    const client = await on.connect(roaming, 'modern', era, { meta: meta() });
    expect(await told(client)).toBe(expected);
  });

  test('at the address of all servers, and for servers of either era', async () => {
    const all = await on.connect(roaming, '*', era, { meta: object('two') });
    expect(await told(all, 'modern__whoami')).toBe('two');
    expect(await told(all, 'handshake__whoami')).toBe('two');
    const bridged = await on.connect(roaming, 'handshake', era, { meta: object('one') });
    expect(await told(bridged)).toBe('one');
  });

  test('O3: what is unknown and what does not admit the session: the client works in none, and is told the same', async () => {
    const names = [
      'nowhere',
      'low',
      'ONE',
      'one/',
      'one\u0000',
      './one',
      '..',
      '__proto__',
      'constructor',
      '/',
      on.folder,
    ];
    const paths = [join(on.folder, 'low'), join(on.folder, 'data'), join(on.folder, 'one', 'x'), '/etc'];
    for (const name of [...names, ...paths]) {
      const client = await on.connect(roaming, '*', era, { meta: object(name) });
      const { cwd, told: env } = JSON.parse(await client.call('modern__whoami')) as Whoami;
      expect([cwd, env['AMBIT_WORKSPACE_ID'], env['AMBIT_WORKSPACE_PATH'], env['AMBIT_TRUST_LEVEL']]).toEqual([
        join(on.folder, 'data/run', roaming.id),
        '',
        '',
        'direct',
      ]);
      expect(await client.call('session_info', { session: 'current' })).toContain('"workspaceId":null');
      const said = (await client.call('session_read_file', { path: 'x' })).replace(JSON.stringify(name), 'NAME');
      expect(said.replace(' Pass another session as "session": session_list shows yours.', '')).toBe(
        `WORKSPACE_NOT_FOUND: ${unavailable}`,
      );
      const opened = era === 'modern' ? await client.request('server/discover') : client.opened;
      expect(String(opened?.result?.['instructions']).replace(JSON.stringify(name), 'NAME')).toContain(unavailable);
    }
    const silent = await on.connect(roaming, 'ambit', era);
    expect(await silent.call('session_read_file', { path: 'x' })).toMatch(/^WORKSPACE_REQUIRED: .*: "one", "two"\.$/);
  });

  test('O3: a server that needs a workspace does not know which ones there are, so that its error is completed', async () => {
    const answers = [
      ['WORKSPACE_REQUIRED: the session has none.', true, 2],
      ['WORKSPACE_NOT_FOUND: there is none.', true, 2],
      ['Not WORKSPACE_REQUIRED: this.', true, 1],
      ['WORKSPACE_REQUIRED: said by a result that is no error', false, 1],
    ] as const;
    for (const server of eras) {
      const lost = await on.connect(roaming, server, era, { meta: object('nowhere') });
      const silent = await on.connect(roaming, server, era);
      for (const [text, isError, expected] of answers) {
        const kind = server === 'modern' ? '"resultType":"complete",' : '';
        const content = JSON.stringify([{ type: 'text', text }]);
        const lines = [`{"jsonrpc":"2.0","id":$ID,"result":{${kind}"content":${content},"isError":${isError}}}`];
        const say = async (client: RawClient) =>
          (await client.request('tools/call', { name: 'say', arguments: { lines } })).result?.['content'] as object[];
        const blocks = await say(lost);
        expect(blocks).toHaveLength(expected);
        expect(blocks[0]).toEqual({ type: 'text', text });
        const added = `WORKSPACE_NOT_FOUND: ${unavailable.replace('NAME', '"nowhere"')}`;
        if (expected === 2) expect(blocks[1]).toEqual({ type: 'text', text: added });
        expect(await say(silent)).toHaveLength(1);
      }
    }
  });

  test.skipIf(!hasBwrap())('a sandboxed session may select what admits only sandboxed ones', async () => {
    const client = await on.connect(await on.open({ trustLevel: 'sandboxed' }), 'modern', era, { meta: object('low') });
    expect(client.opened?.error).toBeUndefined();
    expect(JSON.parse(await client.call('whoami'))).toMatchObject({
      cwd: expect.stringMatching(/low$/),
      told: { AMBIT_WORKSPACE_ID: 'low', AMBIT_TRUST_LEVEL: 'sandboxed' },
    });
  });

  test('two workspaces at once are a contradiction', async () => {
    const client = await on.connect(roaming, 'modern', era, {
      meta: { ...object('one'), ...dotted('two', 'orbit') },
    });
    const said = era === 'modern' ? await client.request('tools/list') : client.opened;
    expect(said?.error?.message).toContain('REQUEST_INVALID: The request announces more than one workspace.');
  });

  test('P4: a session that was put into a workspace stays there; it is logged once and in the journal', async () => {
    const session = await on.open({ workspaceId: 'one' });
    for (const name of ['two', 'nowhere', '/etc']) {
      const client = await on.connect(session, 'modern', era, { meta: object(name) });
      expect([await told(client), await told(client)]).toEqual(['one', 'one']);
    }
    const lines = on.lines.filter((line) => line.includes(session.id.slice(0, 8)));
    expect(lines).toEqual(
      ['two', 'nowhere', '/etc'].map(
        (name) => `announced workspace ignored: session=${session.id.slice(0, 8)} announced=${name} workspace=one`,
      ),
    );
    const noted = () => {
      const own = on.journal().filter(({ sessionId }) => sessionId === session.id);
      return own.map((entry) => entry['ignoredWorkspace']);
    };
    await expect.poll(noted).toEqual(expect.arrayContaining(['two', 'nowhere', '/etc']));
    const same = await on.connect(session, 'modern', era, { meta: object(join(on.folder, 'one')) });
    expect(await told(same)).toBe('one');
  });
});

test('O2: clients of two sessions stand in several workspaces at once, and nothing is swapped', async () => {
  const sessions = [await on.open({ userId: 'ann' }), await on.open({ userId: 'bob' })];
  const clients: { readonly told: object; readonly client: RawClient }[] = [];
  for (const session of sessions) {
    for (const era of eras) {
      for (const place of ['one', 'two', ''] as const) {
        const told = { AMBIT_SESSION_ID: session.id, AMBIT_WORKSPACE_ID: place };
        const more = { meta: place === '' ? {} : object(place) };
        clients.push({ told, client: await on.connect(session, 'modern', era, more) });
        // Such a server has a process for each kind of client: here one kind for each session.
        if (!proof && (era === 'modern') !== (session === sessions[0])) continue;
        clients.push({ told, client: await on.connect(session, 'handshake', era, more) });
      }
    }
  }
  const pids = new Map<number, object>();
  for (let round = 0; round < counts(3, 60); round++) {
    await Promise.all(
      clients.map(async ({ told, client }) => {
        const me = await whoami(client);
        expect(me.told).toMatchObject(told);
        expect(pids.get(me.pid) ?? told).toEqual(told);
        pids.set(me.pid, told);
      }),
    );
  }
  for (const { id } of sessions) await on.gateway.endSession(id);
  for (const pid of pids.keys()) await ended(on, pid);
});

test('O2: in the modern era each call says for itself', async () => {
  const client = await on.connect(roaming, 'modern', 'modern');
  const places = Array.from({ length: 30 }, (_, i) => ['one', 'two', ''][i % 3] as string);
  const answers = await Promise.all(
    places.map((place) => client.request('tools/call', { name: 'whoami', _meta: place === '' ? {} : object(place) })),
  );
  expect(answers.map(workspaceOf)).toEqual(places);
});

test('in the handshake era only the handshake announces', async () => {
  const client = await on.connect(roaming, 'modern', 'handshake', { meta: object('one') });
  const params = { name: 'whoami', _meta: { ...object('two'), ...dotted('nowhere') } };
  expect(workspaceOf(await client.request('tools/call', params))).toBe('one');
});

describe.each(eras)('over HTTP, in the %s era', (era: Era) => {
  const version = era === 'modern' ? '2026-07-28' : '2025-11-25';

  async function post(token: string, path: string, body: string, more: Record<string, string> = {}) {
    const answer = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(body.includes('"initialize"') ? {} : { 'mcp-protocol-version': version }),
        ...more,
      },
      body,
    });
    return { transport: answer.headers.get('mcp-session-id') ?? '', message: (await answer.json()) as RawMessage };
  }

  async function called(token: string, path: string, tool: string, meta: string): Promise<RawMessage> {
    const self = `"io.modelcontextprotocol/protocolVersion":"${version}","io.modelcontextprotocol/clientCapabilities":{}`;
    const call = (own: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","_meta":{${own}}}}`;
    if (era === 'modern') {
      const headers = { 'mcp-method': 'tools/call', 'mcp-name': tool };
      return (await post(token, path, call(`${self},${meta}`), headers)).message;
    }
    const opening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"${version}","capabilities":{},"clientInfo":{"name":"c","version":"1"},"_meta":{${meta}}}}`;
    const { transport, message } = await post(token, path, opening);
    if (message.error !== undefined) return message;
    return (await post(token, path, call(''), { 'mcp-session-id': transport })).message;
  }

  test('O1: at the address of one server and of all', async () => {
    const { token } = roaming;
    expect(workspaceOf(await called(token, '/mcp/modern', 'whoami', '"ambit":{"workspace":"one"}'))).toBe('one');
    expect(workspaceOf(await called(token, '/mcp', 'handshake__whoami', '"ambit.workspace":"two"'))).toBe('two');
  });

  test.each([
    ['said twice inside', '"ambit":{"workspace":"one","workspace":"two"}', 'REQUEST_INVALID'],
    ['said twice inside, alike', '"ambit":{"workspace":"one","workspace":"one"}', 'REQUEST_INVALID'],
    ['said twice', '"ambit":{"workspace":"one"},"ambit":{"workspace":"two"}', 'occurs twice'],
    ['in two spellings', '"ambit":{"workspace":"one"},"AMBIT":{"workspace":"two"}', 'two spellings'],
  ])('%s, it does not select', async (_name, meta, words) => {
    const { token } = roaming;
    expect(JSON.stringify(await called(token, '/mcp/modern', 'whoami', meta))).toContain(words);
  });

  test('O3: one that is not available, also escaped: servers work without, and file tools say which there are', async () => {
    const { token } = roaming;
    const meta = '"\\u0061mbit":{"\\u0077orkspace":"\\u006eowhere"}';
    expect(workspaceOf(await called(token, '/mcp/modern', 'whoami', meta))).toBe('');
    for (const path of ['/mcp', '/mcp/ambit']) {
      const { result } = await called(token, path, 'session_list_dir', meta);
      expect(result).toMatchObject({ isError: true, _meta: { 'ambit/error': { code: 'WORKSPACE_NOT_FOUND' } } });
      expect(JSON.stringify(result)).toContain('\\"one\\", \\"two\\".');
    }
  });
});

describe.each(eras)('P4: what a client of the %s era announces goes no further', (era) => {
  test.each(eras)('to a %s server, nor does it come back', async (server) => {
    // No random token spells this mark: it has a letter that base64 does not.
    const ours = {
      ambit: { workspace: 'one', sessionId: 'forged!' },
      'Ambit.User': 'forged!',
      Orbit: 'forged!',
      'orbit.workspace': 'one',
    };
    const baggage = 'a=1 ;p,ambit.session=forged!, %41mbit-x=forged!,b=%20%2C';
    const mark = `from ${era} to ${server}`;
    const meta = { ...ours, baggage, 'com.example/k': mark, 'orbit.other': 2 };
    const client = await on.connect(roaming, server, era, { meta });
    const asked = { name: 'echo', _meta: meta };
    const echoed = JSON.stringify(await client.request('tools/call', asked));
    client.send({ method: 'notifications/acme', params: { _meta: meta } });
    const lines = (JSON.parse(await client.call('recorded')) as string[]).filter((line) =>
      line.includes(`"com.example/k":"${mark}"`),
    );
    expect(lines.length).toBeGreaterThanOrEqual(era === server ? 2 : 1);
    for (const text of [...lines, echoed]) {
      expect(text).not.toMatch(/forged!|"(?!ambit\/context)ambit|"orbit"|orbit\.workspace/i);
      expect(text).toMatch(/orbit\.other/);
    }
    for (const line of lines) expect(line).toContain('"baggage":"a=1 ;p,b=%20%2C"');
    const back = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[],"_meta":${JSON.stringify(meta)}}}`;
    const { result } = await client.request('tools/call', { name: 'say', arguments: { lines: [back] } });
    expect(result?.['_meta']).toEqual({ baggage: 'a=1 ;p,b=%20%2C', 'com.example/k': mark, 'orbit.other': 2 });
  });
});

function workspaceOf({ result }: RawMessage): string | undefined {
  const [block] = (result?.['content'] ?? []) as { readonly text: string }[];
  return block === undefined ? undefined : (JSON.parse(block.text) as Whoami).told['AMBIT_WORKSPACE_ID'];
}
