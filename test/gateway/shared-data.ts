import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import type { ConfigInput } from '../../src/config/schema/schema.ts';
import { listenHttp } from '../../src/entrances/http/listen-http.ts';
import { openGateway } from '../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';
import type { SessionStore } from '../../src/stores/store.ts';

export interface ServedGateway {
  readonly gateway: Gateway;
  readonly url: string;
  mcp(server?: string): string;
  open(draft?: Parameters<Gateway['openSession']>[0]): Promise<{ readonly id: string; readonly token: string }>;
  close(): Promise<void>;
}

/** Gateways on one data directory, with doors of their own, as several processes would be. */
export interface SharedData {
  readonly folder: string;
  readonly dataDir: string;
  serve(
    config: Partial<ConfigInput>,
    more?: { readonly host?: string; readonly store?: SessionStore },
  ): Promise<ServedGateway>;
  journal(): Record<string, unknown>[];
  /** What the gateways have warned of. */
  warnings(): string[];
}

export function createSharedData(): SharedData {
  let folder: string | undefined;
  const served = new Set<ServedGateway>();
  const warnings: string[] = [];
  const quiet = {
    info() {},
    warn: (event: string, fields = {}) => void warnings.push(`${event} ${JSON.stringify(fields)}`),
  };
  const places = () => {
    folder ??= mkdtempSync(join(tmpdir(), 'ambit-shared-'));
    return { folder, configFile: join(folder, 'etc', 'ambit.yaml'), dataDir: join(folder, 'data') };
  };

  afterEach(async () => {
    for (const each of served) await each.close();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
    folder = undefined;
    warnings.length = 0;
  });

  return {
    get folder() {
      return places().folder;
    },
    get dataDir() {
      return places().dataDir;
    },
    async serve(input, { host = '127.0.0.1', store } = {}) {
      const { configFile, dataDir } = places();
      mkdirSync(join(dataDir, '..', 'etc'), { recursive: true });
      const sessions = { defaultTrust: 'direct', ...input.sessions };
      const text = JSON.stringify({ version: 1, ...input, sessions });
      const { config } = await loadConfig({ text, file: configFile });
      const given = store === undefined ? {} : { store };
      const gateway = await openGateway({ config, configFile, dataDir, log: quiet, ...given });
      const http = await listenHttp(gateway, { host, port: 0 }, quiet);
      const one: ServedGateway = {
        gateway,
        url: http.url,
        mcp: (server) => (server === undefined ? `${http.url}/mcp` : `${http.url}/mcp/${server}`),
        async open(draft = {}) {
          const { session, token } = await gateway.openSession(draft);
          return { id: session.id, token };
        },
        async close() {
          if (!served.delete(one)) return;
          await http.close(0);
          await gateway.close();
        },
      };
      served.add(one);
      return one;
    },
    warnings: () => warnings,
    journal: () => readJournal(places().dataDir),
  };
}

export function readJournal(dataDir: string): Record<string, unknown>[] {
  const lines = readFileSync(join(dataDir, 'journal', 'journal.jsonl'), 'utf8').split('\n');
  // What is behind the last line break is still being written, or nothing.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Record<string, unknown>);
}
