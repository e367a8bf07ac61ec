import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../src/index.ts';
import { taggedProcesses, until } from '../sandbox/tagged-processes.ts';
import { createRawClient, type RawClient } from './raw-client.ts';
import { readJournal } from './shared-data.ts';

const script = join(import.meta.dirname, '..', 'fixtures', 'reloaded', 'server.js');

export const eras = ['modern', 'handshake'] as const;
export const defineServer = (era: string) => ({
  command: process.execPath,
  args: [script],
  env: { MARK: 'done', ERA: era },
});

/**
 * A gateway with the servers `keep` and `drop`: one for the file, since a reload gives it what a test wants. Sessions and
 * clients leave with their test.
 */
export interface BoundedGateway {
  /** Of this test alone. */
  readonly folder: string;
  readonly dataDir: string;
  readonly gateway: EmbeddedGateway;
  start(era: string, more?: Partial<ConfigInput>): Promise<void>;
  connect(sessionId: string, era: (typeof eras)[number], server?: string): Promise<RawClient>;
  /** How many processes of servers there are. */
  processes(): number;
  /** Resolves when there are so many. */
  left(count: number): Promise<unknown>;
  /** What is written down of a session. */
  journal(sessionId: string): Record<string, unknown>[];
  /** When all is written; the next start opens another. */
  close(): Promise<void>;
}

export function openBoundedGateway(): BoundedGateway {
  let root = '';
  let tests = 0;
  let gateway: EmbeddedGateway | undefined;
  const clients: RawClient[] = [];
  const processes = () => taggedProcesses(root).length;
  const folder = () => join(root, `test-${tests}`);

  beforeAll(() => {
    root = mkdtempSync(join(tmpdir(), 'ambit-bounds-'));
  });
  beforeEach(() => {
    tests++;
    mkdirSync(folder());
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    for (const { id } of (await gateway?.listSessions()) ?? []) await gateway?.endSession(id);
  });
  async function close(): Promise<void> {
    const closing = gateway;
    gateway = undefined;
    await closing?.close();
  }
  afterAll(async () => {
    await close();
    rmSync(root, { recursive: true, force: true });
  });

  return {
    get folder() {
      return folder();
    },
    get dataDir() {
      return join(root, 'data');
    },
    get gateway() {
      if (gateway === undefined) throw new Error('it has not been started');
      return gateway;
    },
    async start(era, more = {}) {
      const servers = { keep: defineServer(era), drop: defineServer(era) };
      const config = { version: 1 as const, sessions: { defaultTrust: 'direct' as const }, servers, ...more };
      if (gateway !== undefined) return void (await gateway.reload(config));
      gateway = await createGateway({ config, dataDir: join(root, 'data'), log: { info() {}, warn() {} } });
    },
    async connect(sessionId, era, server) {
      if (gateway === undefined) throw new Error('it has not been started');
      const client = await createRawClient(gateway.connect(sessionId, server), era);
      clients.push(client);
      return client;
    },
    processes,
    left: (count) =>
      until(
        () => processes() === count,
        5000,
        () => `${processes()} processes, not ${count}`,
      ),
    journal: (sessionId) => readJournal(join(root, 'data')).filter((entry) => entry['sessionId'] === sessionId),
    close,
  };
}
