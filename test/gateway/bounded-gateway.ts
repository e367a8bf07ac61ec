import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { type ConfigInput, createGateway, type EmbeddedGateway } from '../../src/index.ts';
import { taggedProcesses, until } from '../runners/tagged-processes.ts';
import { type RawClient, rawClient } from './raw-client.ts';

const script = join(import.meta.dirname, '..', 'fixtures', 'reloaded', 'server.js');

export const eras = ['modern', 'handshake'] as const;
export const serverOf = (era: string) => ({
  command: process.execPath,
  args: [script],
  env: { MARK: 'done', ERA: era },
});

/** A gateway with the servers `keep` and `drop` for each test, and clients that leave with it. */
export interface BoundedGateway {
  readonly folder: string;
  readonly gateway: EmbeddedGateway;
  start(era: string, more?: Partial<ConfigInput>): Promise<void>;
  connect(sessionId: string, era: (typeof eras)[number], server?: string): Promise<RawClient>;
  /** How many processes of servers there are. */
  processes(): number;
  /** Resolves when there are so many. */
  left(count: number): Promise<unknown>;
  journal(): Record<string, unknown>[];
}

export function boundedGateway(): BoundedGateway {
  let folder = '';
  let gateway: EmbeddedGateway | undefined;
  const clients: RawClient[] = [];
  const processes = () => taggedProcesses(folder).length;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-bounds-'));
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    await gateway?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  return {
    get folder() {
      return folder;
    },
    get gateway() {
      if (gateway === undefined) throw new Error('it has not been started');
      return gateway;
    },
    async start(era, more = {}) {
      const servers = { keep: serverOf(era), drop: serverOf(era) };
      gateway = await createGateway({
        config: { version: 1, sessions: { defaultTrust: 'direct' }, servers, ...more },
        dataDir: join(folder, 'data'),
        log: { info() {}, warn() {} },
      });
    },
    async connect(sessionId, era, server) {
      if (gateway === undefined) throw new Error('it has not been started');
      const client = await rawClient(gateway.connect(sessionId, server), era);
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
    journal: () =>
      readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8')
        .split('\n')
        // What is behind the last line break is still being written, or nothing.
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}
