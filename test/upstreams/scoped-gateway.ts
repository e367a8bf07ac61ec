import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../src/index.ts';
import { textLine } from '../../src/logging/line.ts';
import type { SessionDraft } from '../../src/sessions/session.ts';
import { type RawClient, rawClient } from '../gateway/raw-client.ts';
import { until } from '../runners/tagged-processes.ts';

const script = join(import.meta.dirname, '..', 'fixtures', 'recorder', 'stdio.js');

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
    log: { info: (event, fields) => void lines.push(textLine(event, fields)), warn() {} },
  });
  const clients: RawClient[] = [];
  return {
    folder,
    gateway,
    lines,
    async connect(session, server, era, more) {
      const client = await rawClient(gateway.connect(session.id, server), era, more);
      clients.push(client);
      return client;
    },
    open: (draft = {}) => gateway.createSession(draft),
    journal: () =>
      readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
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

export async function whoami(client: RawClient): Promise<Whoami> {
  return JSON.parse(await client.call('whoami')) as Whoami;
}

/** Two users on one process, each with a client. */
export async function twoSharing(start: ReturnType<typeof freshGateway>, era: Era, speaks: Era) {
  const on = await start({ servers: { it: recorder('shared', era) } });
  const [ann, bob] = [
    await on.open({ userId: 'ann', workspaceId: 'one' }),
    await on.open({ userId: 'bob', workspaceId: 'two' }),
  ];
  const more = { capabilities: { elicitation: {} } };
  const [a, b] = [await on.connect(ann, 'it', speaks, more), await on.connect(bob, 'it', speaks, more)];
  return { on, ann, bob, a, b };
}

/** Resolves when the gateway itself knows that the process is gone. */
export async function ended(on: ScopedGateway, pid: number): Promise<void> {
  const noticed = () => on.journal().some((entry) => entry['event'] === 'ended' && entry['pid'] === pid);
  await until(noticed, 5000, () => 'the process lives on');
}
