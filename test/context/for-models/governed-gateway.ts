import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { ConfigInput } from '../../../src/config/schema/schema.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import { createInProcessTransport } from '../../../src/public/create-gateway.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { governedServers } from './governed-server.ts';

export const eras = ['modern', 'handshake'] as const;
export type Era = (typeof eras)[number];

export interface Content {
  readonly type: string;
  readonly text: string;
  readonly _meta?: Readonly<Record<string, { readonly kind: string; readonly token: string; readonly sha256: string }>>;
}

export const blockKey = 'ambit/context-block';

/** One policy of the organisation and one objective, as most tests need them. */
export const somePolicies = {
  policies: [{ name: 'require-tests', text: 'All code changes must include tests.' }],
  objectives: [{ text: 'Reduce deployment time to under 5 minutes' }],
} satisfies ConfigInput['governance'];

/** Gateways without doors, and a server in this process; those that are configured alike are one, and end with the file. */
export function governedGateway() {
  const clients: RawClient[] = [];
  const server = governedServers();
  const gateways = new Map<string, Promise<Gateway>>();
  const warnings: string[] = [];
  const folder = mkdtempSync(join(tmpdir(), 'ambit-governed-'));
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    warnings.splice(0);
  });
  afterAll(async () => {
    for (const gateway of gateways.values()) await (await gateway).close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function opened(era: Era, more: Partial<ConfigInput>): Promise<Gateway> {
    const own = join(folder, String(gateways.size));
    mkdirSync(join(own, 'etc'), { recursive: true });
    const configFile = join(own, 'etc', 'ambit.yaml');
    const servers = { it: { url: await server({ modern: era === 'modern' }) } };
    const input = { version: 1, store: { kind: 'memory' }, sessions: { defaultTrust: 'direct' }, servers, ...more };
    const { config } = await loadConfig({ text: JSON.stringify(input), file: configFile });
    const log = { info() {}, warn: (event: string) => void warnings.push(event) };
    return openGateway({ config, configFile, dataDir: join(own, 'data'), log });
  }

  function start(era: Era, more: Partial<ConfigInput> = { governance: somePolicies }): Promise<Gateway> {
    const key = JSON.stringify([era, more]);
    const gateway = gateways.get(key) ?? opened(era, more);
    gateways.set(key, gateway);
    return gateway;
  }

  const workspace = join(folder, 'workspace');
  mkdirSync(workspace);

  return {
    start,
    server,
    workspace,
    warnings,
    async open(gateway: Gateway, draft: Parameters<Gateway['openSession']>[0] = {}): Promise<string> {
      return (await gateway.openSession({ userId: 'ann', ...draft })).session.id;
    },
    async connect(gateway: Gateway, sessionId: string, era: Era, server = 'it', meta = {}): Promise<RawClient> {
      const client = await createRawClient(createInProcessTransport(gateway, sessionId, server), era, { meta });
      clients.push(client);
      return client;
    },
  };
}

export async function contentOf(client: RawClient, name = 'say', args: object = {}): Promise<Content[]> {
  const { result } = await client.request('tools/call', { name, arguments: args });
  return (result?.['content'] ?? []) as Content[];
}

/** What was given beside what the tool said. */
export async function givenWith(client: RawClient, name = 'say', args: object = {}): Promise<string[]> {
  const content = await contentOf(client, name, args);
  return content.filter(({ _meta }) => _meta?.[blockKey] !== undefined).map(({ text }) => text);
}
