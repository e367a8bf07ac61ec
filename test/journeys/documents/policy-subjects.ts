import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Client } from '@modelcontextprotocol/client';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { type ConfigInput, createGateway } from '../../../src/index.ts';
import { repository } from '../../structure/source-files.ts';

export interface Texts {
  readonly policies: readonly { readonly name: string; readonly mode: 'prepend' | 'append'; readonly text: string }[];
  readonly objectives: readonly string[];
}

export interface Member extends Texts {
  readonly name: string;
  readonly team?: string;
}

/** Who there is, and what applies to them. A member inherits what applies to the team. */
export interface Directory {
  readonly teams: readonly (Texts & { readonly name: string })[];
  readonly users: readonly Member[];
}

export interface SubjectOptions {
  readonly ttlSeconds?: number;
}

/** Something that gives policies and objectives to the clients of `pcp-feature`, `pcp-fix` and `pcp-review`. */
export interface PolicySubject {
  readonly url: string;
  /** What clients call a tool or a prompt of the server. */
  nameOf(name: string): string;
  /** The user of the session of this client. */
  readUser(client: Client): Promise<string>;
  keyOf(user: string): Promise<string>;
  change(directory: Directory): Promise<void>;
  /** Resolves once a warning in the log contains this. */
  warned(part: string): Promise<void>;
  /** To be called while this user has a session: `ended` resolves once it has none. */
  watch(user: string): Promise<{ readonly ended: Promise<void> }>;
  stop(): Promise<void>;
}

/** Lines that somebody can wait for, also if they have been written before. */
function createLines() {
  const lines: string[] = [];
  const events = new EventEmitter().setMaxListeners(0);
  return {
    add(line: string) {
      lines.push(line);
      events.emit('line');
    },
    async has(part: string) {
      while (!lines.some((line) => line.includes(part))) await once(events, 'line');
    },
  };
}

/** The example, in a process of its own: the library without a gateway. */
export async function startLibrary(directory: Directory, options: SubjectOptions = {}): Promise<PolicySubject> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-policy-server-'));
  const file = join(folder, 'data.json');
  const keyOf = (user: string) => `pcp_${user}_1b7d`;
  const change = async ({ teams, users }: Directory) => {
    const keyHash = (user: string) => createHash('sha256').update(keyOf(user)).digest('hex');
    await writeFile(
      file,
      JSON.stringify({ teams, users: users.map((user) => ({ ...user, keyHash: keyHash(user.name) })) }),
    );
  };
  await change(directory);
  const { ttlSeconds } = options;
  const child = spawn(process.execPath, [join(repository, 'examples/policy-server/server.js')], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env.PATH,
      PORT: '0',
      PCP_DATA: file,
      ...(ttlSeconds && { AMBIT_SESSION_TTL_SECONDS: String(ttlSeconds) }),
    },
  });
  const exited = once(child, 'exit');
  const lines = createLines();
  const address = await new Promise<string>((resolve, reject) => {
    child.once('exit', () => reject(new Error('The example has ended.')));
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.add(line);
      const [, found] = /^listening on (.*)$/.exec(line) ?? [];
      if (found !== undefined) resolve(found);
    });
  });
  return {
    url: `http://${address}/mcp`,
    nameOf: (name) => name,
    async readUser(client) {
      const { content } = await client.callTool({ name: 'pcp-whoami' });
      return (content as { text: string }[]).map(({ text }) => text).join();
    },
    keyOf: async (user) => keyOf(user),
    change,
    warned: lines.has,
    watch: async (user) => ({ ended: lines.has(` of ${user}: `) }),
    async stop() {
      child.kill('SIGTERM');
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Ambit in front of a server that knows nothing of sessions and policies. */
export async function startGateway(directory: Directory, options: SubjectOptions = {}): Promise<PolicySubject> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-policy-gateway-'));
  const plain = await startPlainServer();
  const configOf = ({ teams, users }: Directory): ConfigInput => {
    const scoped = [
      ...teams.map((team) => ({ scope: `team:${team.name}`, ...team })),
      ...users.map((user) => ({ scope: `user:${user.name}`, ...user })),
    ];
    return {
      version: 1,
      store: { kind: 'memory' },
      auth: { anonymous: 'loopback', onInvalidKey: 'anonymous' },
      ...(options.ttlSeconds && { sessions: { ttlSeconds: options.ttlSeconds } }),
      servers: { pcp: { url: plain.url, trust: ['direct', 'sandboxed'], catalog: 'shared' } },
      governance: {
        teams: teams.map(({ name }) => name),
        users: users.map(({ name, team }) => ({ name, teams: team === undefined ? [] : [team] })),
        policies: scoped.flatMap(({ scope, policies }) => policies.map((policy) => ({ ...policy, scope }))),
        objectives: scoped.flatMap(({ scope, objectives }) => objectives.map((text) => ({ text, scope }))),
      },
    };
  };
  const [warnings, details] = [createLines(), createLines()];
  const gateway = await createGateway({
    config: configOf(directory),
    dataDir: join(folder, 'data'),
    log: {
      info() {},
      warn: (event) => warnings.add(event),
      debug: (event, fields = {}) => details.add(`${event} ${fields['session']}`),
    },
  });
  const { url } = await gateway.listen({ port: 0 });
  return {
    url: `${url}/mcp`,
    nameOf: (name) => `pcp__${name}`,
    async readUser(client) {
      const found = await client.callTool({ name: 'session_info', arguments: { session: 'current' } });
      return (found.structuredContent as { session: { userId: string } }).session.userId;
    },
    keyOf: async (user) => (await gateway.people.keys.create({ userId: user })).key,
    change: async (next) => void (await gateway.reload(configOf(next))),
    warned: warnings.has,
    async watch(user) {
      const found = (await gateway.listSessions()).find(({ userId }) => userId === user);
      return { ended: found ? details.has(`session ended ${found.id.slice(0, 8)}`) : Promise.resolve() };
    },
    async stop() {
      await gateway.close();
      await plain.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The tools and the prompt of the example, without Ambit. */
async function startPlainServer() {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'plain', version: '1.0.0' });
    const say = (text: string) => ({ content: [{ type: 'text' as const, text }] });
    const input = z.object({ task: z.string() });
    server.registerTool('pcp-feature', { inputSchema: input }, ({ task }) => say(`Plan and build: ${task}`));
    server.registerTool('pcp-fix', { inputSchema: input }, ({ task }) => say(`Reproduce and fix: ${task}`));
    server.registerPrompt('pcp-review', { argsSchema: input }, ({ task }) => ({
      messages: [{ role: 'user', content: { type: 'text', text: `Review: ${task}` } }],
    }));
    return server;
  });
  const serve = toNodeHandler(handler);
  const http = createServer((request, response) => void serve(request as Parameters<typeof serve>[0], response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    async close() {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}
