import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createGateway } from '../../../src/index.ts';
import { repository } from '../../structure/source-files.ts';

/**
 * What a task server asks for whose clients say once in which folder they work, so that calls need no argument for it. Its
 * design in its order, for the example on stdio, and for the example behind a gateway whose clients come over HTTP.
 */
type Meta = Record<string, unknown>;
type Era = 'handshake' | 'modern';

interface Answer {
  /** The error code, or undefined if the task was added. */
  readonly code: string | undefined;
  readonly text: string;
  /** What the handler worked with. */
  readonly found: { readonly workspace: string; readonly path: string; readonly from: string } | undefined;
  /** The tasks of that workspace. */
  readonly tasks: readonly string[];
}

interface Caller {
  readonly client: Client;
  /** Adds a task. `meta` belongs to this call. */
  add(args?: Record<string, string>, meta?: Meta): Promise<Answer>;
}

interface Subject {
  /** Connects a client. In the handshake era, `announced` is in the `_meta` of its `initialize`. */
  connect(era: Era, announced?: Meta): Promise<Caller>;
  close(): Promise<void>;
}

type ClientTransport = Parameters<Client['connect']>[0];

async function connectClient(transport: ClientTransport, era: Era, announced: Meta = {}): Promise<Caller> {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (!('method' in message) || message.method !== 'initialize') return send(message, options);
    return send({ ...message, params: { ...message.params, _meta: announced } }, options);
  };
  const mode = era === 'modern' ? 'auto' : 'legacy';
  const client = new Client({ name: 'orbit-client', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return {
    client,
    async add(args = {}, meta = {}) {
      const params = { name: 'task_add', arguments: { title: 'a task', ...args }, _meta: meta };
      const { content, isError } = await client.callTool(params);
      const text = (content as { text: string }[]).at(-1)?.text ?? '';
      if (isError) return { code: /^[A-Z_]+(?=: )/.exec(text)?.[0] ?? text, text, found: undefined, tasks: [] };
      const { tasks, ...found } = JSON.parse(text);
      return { code: undefined, text, found, tasks };
    },
  };
}

const script = join(repository, 'examples/announced-workspace/server.js');
/** What a server might mistake for the workspace of its client. */
const createEnvironment = (root: string) => ({
  ORBIT_ROOT: root,
  ORBIT_WORKSPACE: join(root, 'two'),
  PWD: join(root, 'two'),
});

/** A process for each client, which starts it in one of the workspaces. */
async function startLibrary(root: string, _dataDir: string, write: (text: string) => void): Promise<Subject> {
  const clients: Client[] = [];
  return {
    async connect(era, announced) {
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [script],
        cwd: join(root, 'two'),
        env: { PATH: process.env.PATH ?? '', ...createEnvironment(root) },
        stderr: 'pipe',
      });
      transport.stderr?.on('data', (chunk: Buffer) => write(String(chunk)));
      const caller = await connectClient(transport, era, announced);
      clients.push(caller.client);
      return caller;
    },
    close: async () => void (await Promise.all(clients.map((client) => client.close()))),
  };
}

/** One process for all sessions. Each client has a session of its own, which was opened in no workspace. */
async function startGateway(root: string, dataDir: string, write: (text: string) => void): Promise<Subject> {
  const server = { command: process.execPath, args: [script], env: createEnvironment(root) };
  const gateway = await createGateway({
    config: {
      version: 1,
      store: { kind: 'memory' },
      sessions: { defaultTrust: 'direct' },
      context: { announceKeys: ['orbit'] },
      workspaces: Object.fromEntries(['one', 'two', 'three'].map((name) => [name, { path: join(root, name) }])),
      servers: { orbit: { ...server, scope: 'shared', contextAware: true } },
    },
    dataDir,
    log: { info: write, warn: write },
  });
  const { url } = await gateway.listen({ port: 0 });
  const clients: Client[] = [];
  return {
    async connect(era, announced) {
      const { token } = await gateway.createSession();
      const requestInit = { headers: { authorization: `Bearer ${token}` } };
      const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp/orbit`), { requestInit });
      const caller = await connectClient(transport, era, announced);
      clients.push(caller.client);
      return caller;
    },
    async close() {
      for (const client of clients) await client.close();
      await gateway.close();
    },
  };
}

const inObject = (workspace: unknown) => ({ orbit: { workspace } });
const dotted = (workspace: unknown) => ({ 'orbit.workspace': workspace });

/** A client of the modern era announces in each request, so that one connection can stand for several clients. */
const announceEach = ({ client, add }: Caller, announced: Meta): Caller => ({
  client,
  add: (args, meta) => add(args, { ...announced, ...meta }),
});

describe.each([
  ['library', startLibrary],
  ['gateway', startGateway],
] as const)('a workspace announced to the %s', (kind, start) => {
  let folder: string;
  let root: string;
  let on: Subject;
  let log = '';
  let callers: Record<Era, Record<'one' | 'three' | 'silent', Caller>>;
  const at = (...names: string[]) => join(root, ...names);
  const foundIn = (name: string, from = 'session') => ({ workspace: name, path: at(name), from });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-orbit-'));
    root = join(folder, 'root');
    for (const name of ['root/one', 'root/two', 'root/three', 'outside'])
      mkdirSync(join(folder, name), { recursive: true });
    symlinkSync(join(folder, 'outside'), at('link'));
    on = await start(root, join(folder, 'data'), (text) => {
      log += text;
    });
    const [one, three, silent, modern] = await Promise.all([
      on.connect('handshake', inObject(at('one'))),
      on.connect('handshake', dotted(at('three'))),
      on.connect('handshake', inObject('')),
      on.connect('modern'),
    ]);
    callers = {
      handshake: { one, three, silent },
      modern: {
        one: announceEach(modern, inObject(at('one'))),
        three: announceEach(modern, dotted(at('three'))),
        silent: announceEach(modern, dotted('')),
      },
    };
  });
  afterAll(async () => {
    await on?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  describe.each(['handshake', 'modern'] as const)('by a client of the %s era', (era) => {
    test('O1: under either key, and the handler gets it as a workspace and a path', async () => {
      const { one, three } = callers[era];
      expect((await one.add({ title: `for one, ${era}` })).found).toEqual(foundIn('one'));
      const { found, tasks } = await three.add({ title: `for three, ${era}` });
      expect(found).toEqual(foundIn('three'));
      expect(tasks).toContain(`for three, ${era}`);
      expect(tasks).not.toContain(`for one, ${era}`);
    });

    test('O3, O5: an empty one is none: a clear error, and no guess from the working directory or environment', async () => {
      const { code, text } = await callers[era].silent.add();
      expect(code).toBe('WORKSPACE_REQUIRED');
      expect(text).toContain('argument "workspace"');
      if (kind === 'library') expect(text).toContain('"one", "three", "two"');
    });

    test('O3: an argument comes first, also if it is the same; an empty one is none', async () => {
      const { one } = callers[era];
      expect((await one.add({ workspace: '' })).found).toEqual(foundIn('one'));
      for (const workspace of ['one', at('one'), `${at('two')}/../one/`]) {
        expect((await one.add({ workspace })).found).toEqual(foundIn('one', 'argument'));
      }
    });

    test('O3: an argument that differs', async () => {
      const { one } = callers[era];
      const answers = await Promise.all(['two', at('two')].map((workspace) => one.add({ workspace })));
      if (kind === 'library') {
        expect(answers.map(({ found }) => found)).toEqual([foundIn('two', 'argument'), foundIn('two', 'argument')]);
        await expect.poll(() => log).toMatch(/another workspace was given: session=\w{8} chosen=two workspace=one/);
        expect((await one.add()).found).toEqual(foundIn('one'));
      } else {
        // Behind a gateway, the session decides. A server that wants the way out has to give `allowed` to resolveWorkspace().
        expect(answers.map(({ code }) => code)).toEqual(['WORKSPACE_NOT_FOUND', 'WORKSPACE_NOT_FOUND']);
        expect(answers[0]?.text).toContain('Leave "workspace" out to use "one".');
      }
    });

    test('O3, O4: clients that always give the argument, and announce nothing, still work', async () => {
      const answers = await Promise.all(['two', at('two')].map((workspace) => callers[era].silent.add({ workspace })));
      if (kind === 'library') {
        expect(answers.map(({ found }) => found)).toEqual([foundIn('two', 'argument'), foundIn('two', 'argument')]);
      } else {
        // By design too, but the document promises that they work. The two errors lead in a circle: without the argument,
        // 'Pass one as the argument "workspace"'; with any, 'Use a workspace that this server offers', which it never names.
        expect(answers.map(({ code }) => code)).toEqual(['WORKSPACE_NOT_FOUND', 'WORKSPACE_NOT_FOUND']);
      }
    });

    test('O4: the schema shows the argument, and does not require it', async () => {
      const { tools } = await callers[era].one.client.listTools();
      const schema = tools.find(({ name }) => name === 'task_add')?.inputSchema;
      expect(schema?.properties).toHaveProperty('workspace');
      expect(schema?.required).toEqual(['title']);
    });

    test.each([
      ['one that is not available', inObject('/srv/elsewhere'), 'WORKSPACE_NOT_FOUND'],
      ['two at once', { ...inObject('one'), ...dotted('two') }, 'REQUEST_INVALID'],
    ])('O1, O3: %s: the call is refused and does not run somewhere else', async (_what, announced, code) => {
      const isUnavailable = code === 'WORKSPACE_NOT_FOUND';
      if (era === 'handshake' && kind === 'gateway' && !isUnavailable) {
        // A gateway refuses a handshake that contradicts itself.
        await expect(on.connect(era, announced)).rejects.toThrow(code);
        return;
      }
      // The client connects, and a tool that needs a workspace says what is wrong, and which workspaces there are.
      const caller =
        era === 'modern' ? announceEach(callers.modern.silent, announced) : await on.connect(era, announced);
      const answer = await caller.add();
      expect(answer).toMatchObject({ code });
      if (isUnavailable) expect(answer.text).toMatch(/: "one", "three", "two"\.$/);
      // In the library an argument still leads on, except from a contradiction.
      if (kind === 'library')
        expect((await caller.add({ workspace: 'two' })).code).toBe(isUnavailable ? undefined : code);
    });

    test('O1: no announcement and no argument leads anywhere else', async () => {
      const { one, silent } = callers[era];
      const wrong = ['/', '/etc', root, folder, join(folder, 'outside'), at('link'), at('one/sub'), '..', '../outside'];
      const odd = ['ONE', 'one/', './one', '~', '*', 'link', 'one\u0000', '__proto__', 'x'.repeat(5000)];
      for (const workspace of [...wrong, ...odd]) {
        const announced = era === 'modern' ? [silent.add({}, inObject(workspace))] : [];
        for (const { code, text } of await Promise.all([one.add({ workspace }), ...announced])) {
          expect(code, `${workspace.slice(0, 80)}: ${text}`).toBe('WORKSPACE_NOT_FOUND');
        }
      }
    });
  });

  test('O2: it holds for the session of a client, and many at once never meet', async () => {
    const all = Object.values(callers).flatMap((each) => Object.entries(each));
    const calls = Array.from({ length: 48 }, (_, i) => all[i % all.length] as [string, Caller]);
    const answers = await Promise.all(calls.map(([, caller]) => caller.add()));
    expect(answers.map(({ found }) => found?.workspace ?? 'silent')).toEqual(calls.map(([name]) => name));
  });

  test('O2: after the handshake, a call cannot change it', async () => {
    const { one, silent } = callers.handshake;
    expect((await one.add({}, inObject('three'))).found).toEqual(foundIn('one'));
    expect(await silent.add({}, dotted('three'))).toMatchObject({ code: 'WORKSPACE_REQUIRED' });
  });

  test('O1: other keys announce nothing', async () => {
    const other = {
      ambit: { workspace: 'one' },
      'ambit.workspace': 'one',
      Orbit: { workspace: 'one' },
      workspace: 'one',
    };
    expect(await callers.modern.silent.add({}, other)).toMatchObject({ code: 'WORKSPACE_REQUIRED' });
  });
});
