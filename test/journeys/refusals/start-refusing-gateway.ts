import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { vi } from 'vitest';
import type { EmbeddedGateway } from '../../../src/index.ts';
import { embedGateway } from '../../../src/public/create-gateway.ts';
import { audience, type KeyServer, keyServer, tokenOf } from '../../identity/jwt/key-server.ts';
import { createProject, type Project } from '../../upstreams/pins/project.ts';
import { repository } from '../start-ambit.ts';
import { type ChangingUpstream, startChangingUpstream } from './changing-upstream.ts';
import { checkRefusals, type RequestStages } from './check-refusals.ts';

/** Bodies of more bytes are too large for it. */
export const maxBody = 100_000;
/** Calls that one session may make. */
export const maxCalls = 4;
/** Calls that one session may have under way at one server. */
const maxPending = 2;
/** Sessions with this time to live have expired once the gateway has turned. */
export const shortTtl = 60;

/** A gateway whose servers, rules and sessions refuse calls in every way, once it has turned. */
export interface RefusingGateway {
  readonly url: string;
  readonly gateway: EmbeddedGateway;
  readonly upstream: ChangingUpstream;
  /** Refusals that a stage has made and does not declare. */
  readonly undeclared: readonly string[];
  /** An access token of that subject, without the scopes that permissions need. Its user is called `people|<subject>`. */
  accessToken(subject: string): Promise<string>;
  /** Before this, every server answers, so that clients of both eras can open their transports. */
  turn(): Promise<void>;
  /** Closes the gateway and returns every line of its journal. */
  finish(): Promise<Record<string, unknown>[]>;
  remove(): Promise<void>;
}

type Servers = Record<string, Record<string, unknown>>;

const trust = ['direct', 'sandboxed'];
const rules = [
  { id: 'no-denied', deny: '*__denied*' },
  { id: 'direct-only', deny: 'good__direct', when: `session.trustLevel != 'direct'` },
  { id: 'small-only', allow: 'good__small', when: 'args.n < 10' },
  { id: 'unreadable', deny: 'good__typed', when: 'args.n > 10' },
  { id: 'no-own', deny: 'session_read_file' },
];
const tools = {
  deny: ['listed'],
  permissions: { write: 'good:write' },
  instead: { replaced: 'session_edit_file' },
  hideReplaced: true,
};

/** Servers that the operator configures, as they are at first. */
function firstServers(url: (name: string) => string): Servers {
  const names = ['gone', 'walled', 'unlisted', 'stillborn', 'missing', 'crashing', 'guarded', 'dying', 'down'];
  return {
    good: { url: url('good'), era: 'modern', trust, tools, cache: { write: { ttlSeconds: 3600, per: 'session' } } },
    few: { url: url('few'), era: 'modern', tools: { allow: ['echo'] } },
    direct: { url: url('direct'), era: 'modern' },
    boxless: { url: url('boxless'), era: 'modern', trust },
    ...Object.fromEntries(names.map((name) => [name, { url: url(name), era: 'modern' }])),
  };
}

/** The same servers once the gateway has turned. */
function laterServers(url: (name: string) => string, link: string): Servers {
  const { gone: _, ...kept } = firstServers(url);
  const script = join(repository, 'test/fixtures/reloaded/server.js');
  return {
    ...kept,
    stillborn: { command: 'false', era: 'modern' },
    missing: { command: join(repository, 'no-such-program'), era: 'modern' },
    crashing: { command: process.execPath, args: [script], env: { ERA: 'modern' }, era: 'modern' },
    // A sandbox that shows a path through a link in a workspace is refused on every machine.
    boxless: { command: 'false', era: 'modern', sandbox: { readable: [link] } },
    down: { url: 'http://127.0.0.1:9/mcp', era: 'modern' },
  };
}

/** Servers of the project file. Those that are strangers later are not as they were approved. */
function projectServers(url: (name: string) => string, hasTurned: boolean): Servers {
  return {
    turncoat: { url: url('turncoat') },
    stranger: { url: url(hasTurned ? 'stranger-elsewhere' : 'stranger') },
    ...(hasTurned ? { newcomer: { url: url('newcomer') } } : {}),
    'stranger-process': hasTurned ? { command: 'false' } : { url: url('stranger-process') },
  };
}

interface Parts {
  readonly project: Project;
  readonly keys: KeyServer;
  /** A link in the workspace `shed`. */
  readonly link: string;
}

function writeConfig({ project, keys, link }: Parts, servers: Servers, capabilities: object): void {
  const { issuer, jwksUri } = keys;
  const permissions = { 'good:write': 'good.write' };
  const config = {
    version: 1,
    include: ['../project/.mcp.json'],
    // Unlike the others, this store goes by the clock that the test has stopped.
    store: { kind: 'memory' },
    auth: { jwt: [{ issuer, jwksUri, audience: [audience], userPrefix: 'people', permissions }] },
    sessions: { defaultTrust: 'direct', allowDirect: 'always', maxPerUser: 50 },
    quotas: { session: { totalCalls: maxCalls } },
    limits: { bodyBytes: maxBody, messageBytes: maxBody, pendingPerUpstream: maxPending },
    servers,
    rules,
    workspaces: { shed: { path: join(link, '..'), capabilities } },
  };
  writeFileSync(project.configFile, JSON.stringify(config));
}

export async function startRefusingGateway(): Promise<RefusingGateway> {
  const project = createProject();
  const upstream = await startChangingUpstream();
  const shed = join(project.configFile, '../../shed');
  mkdirSync(shed);
  const link = join(shed, 'link');
  symlinkSync(project.folder, link);
  const keys = await keyServer();
  const parts = { project, keys, link };
  // The clock stands still, so that no session expires and no token ages unless the matrix says so.
  const openedAt = Date.now();
  vi.useFakeTimers({ toFake: ['Date'], now: openedAt });
  writeConfig(parts, firstServers(upstream.url), { servers: 'all' });
  for (const server of (await project.declare(projectServers(upstream.url, false))).values())
    if (server.source !== 'operator') await project.approvals.approve(server);
  const log = { info() {}, warn() {} };
  const undeclared: string[] = [];
  const arrangeStages = (list: RequestStages) => checkRefusals(list, (refusal) => undeclared.push(refusal));
  const gateway = await embedGateway({ config: project.configFile, dataDir: project.dataDir, log, arrangeStages });
  const { url } = await gateway.listen({ port: 0 });

  return {
    url,
    gateway,
    upstream,
    undeclared,
    accessToken: (sub) => tokenOf(keys, { claims: { sub } }),
    async turn() {
      upstream.turn();
      writeConfig(parts, laterServers(upstream.url, link), { servers: ['good'] });
      project.write('.mcp.json', JSON.stringify({ mcpServers: projectServers(upstream.url, true) }));
      await gateway.reload(project.configFile);
      vi.setSystemTime(openedAt + (shortTtl + 1) * 1000);
    },
    async finish() {
      await gateway.close();
      return readFileSync(join(project.dataDir, 'journal/journal.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    async remove() {
      await upstream.close();
      keys.close();
      project.remove();
    },
  };
}
