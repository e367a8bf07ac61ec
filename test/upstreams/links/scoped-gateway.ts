import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { formatTextLine } from '../../../src/observability/log/stderr-log.ts';
import type { SessionDraft } from '../../../src/sessions/session.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { until } from '../../sandbox/tagged-processes.ts';

const script = join(import.meta.dirname, '../../fixtures/recorder/stdio.js');

export const eras = ['modern', 'handshake'] as const;
export type Era = (typeof eras)[number];
export type Scope = 'call' | 'session' | 'user' | 'workspace' | 'shared';

export interface Whoami {
  readonly pid: number;
  readonly cwd: string;
  readonly told: Readonly<Record<string, string>>;
}

/** A server that writes down what it gets and says what it is told to, of this scope and era. */
export function recorder(scope: Scope, era: Era): NonNullable<ConfigInput['servers']>[string] {
  return { command: process.execPath, args: [script], scope, contextAware: true, era };
}

export interface ScopedGateway {
  readonly folder: string;
  readonly gateway: EmbeddedGateway;
  readonly lines: readonly string[];
  connect(session: { readonly id: string }, server: string, era: Era, more?: Told): Promise<RawClient>;
  open(draft?: SessionDraft): Promise<{ readonly id: string; readonly token: string }>;
  journal(): Record<string, unknown>[];
  /** Ends the sessions that were opened here, and closes their clients. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

interface Told {
  readonly meta?: object;
  readonly capabilities?: object;
}

/** A gateway with the workspaces `one` and `two`, both direct, and `low`, which admits sandboxed sessions only. */
export async function scopedGateway(config: Omit<ConfigInput, 'version'>): Promise<ScopedGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-scopes-'));
  const workspaces = Object.fromEntries(
    ['one', 'two', 'low'].map((slug) => {
      mkdirSync(join(folder, slug));
      return [slug, { path: join(folder, slug), ...(slug === 'low' ? { trust: 'sandboxed' as const } : {}) }];
    }),
  );
  const lines: string[] = [];
  const gateway = await createGateway({
    config: { version: 1, sessions: { defaultTrust: 'direct' }, workspaces, ...config },
    dataDir: join(folder, 'data'),
    log: { info: (event, fields) => void lines.push(formatTextLine(event, fields)), warn() {} },
  });
  const clients: RawClient[] = [];
  const sessions: string[] = [];
  async function leave(): Promise<void> {
    for (const client of clients.splice(0)) await client.close();
    for (const id of sessions.splice(0)) await gateway.endSession(id);
  }
  return {
    folder,
    gateway,
    lines,
    async connect(session, server, era, more) {
      const client = await createRawClient(gateway.connect(session.id, server), era, more);
      clients.push(client);
      return client;
    },
    async open(draft = {}) {
      const session = await gateway.createSession(draft);
      sessions.push(session.id);
      return session;
    },
    journal: () =>
      readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    leave,
    async close() {
      for (const client of clients) await client.close();
      await gateway.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** One for each test, gone with it. */
export function freshGateway(): (config: Omit<ConfigInput, 'version'>) => Promise<ScopedGateway> {
  const open: ScopedGateway[] = [];
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });
  return async (config) => {
    const fresh = await scopedGateway(config);
    open.push(fresh);
    return fresh;
  };
}

/** One for all tests of a file; the sessions and clients of each leave with it. */
export function keptGateway(config: Omit<ConfigInput, 'version'>): () => ScopedGateway {
  let kept: ScopedGateway | undefined;
  beforeAll(async () => {
    kept = await scopedGateway(config);
  });
  afterEach(() => kept?.leave());
  afterAll(() => kept?.close());
  return () => kept as ScopedGateway;
}

export async function whoami(client: RawClient): Promise<Whoami> {
  return JSON.parse(await client.call('whoami')) as Whoami;
}

/** Two users on one process, each with a client. */
export async function twoSharing(on: ScopedGateway, server: string, eraOfAnn: Era, eraOfBob = eraOfAnn) {
  const [ann, bob] = [
    await on.open({ userId: 'ann', workspaceId: 'one' }),
    await on.open({ userId: 'bob', workspaceId: 'two' }),
  ];
  const [a, b] = [await on.connect(ann, server, eraOfAnn, asks), await on.connect(bob, server, eraOfBob, asks)];
  return { ann, bob, a, b };
}

const asks = { capabilities: { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } } };

/** Somebody who stays, so that the process that two share does as well: one more who must hear nothing of them. */
export async function staysWith(on: ScopedGateway, server: string): Promise<void> {
  const stays = await on.gateway.createSession({ userId: 'eve' });
  for (const era of eras) await whoami(await on.connect(stays, server, era, asks));
}

/** Resolves when the gateway itself knows that the process is gone. */
export async function ended(on: ScopedGateway, pid: number): Promise<void> {
  const noticed = () => on.journal().some((entry) => entry['event'] === 'ended' && entry['pid'] === pid);
  await until(noticed, 50_000, () => 'the process lives on');
}
