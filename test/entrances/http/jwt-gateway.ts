import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConfigInput, createGateway } from '../../../src/index.ts';
import { startEchoUpstream } from '../../gateway/echoing-upstream.ts';
import { audience, type KeyServer, keyServer, tokenOf } from '../../identity/jwt/key-server.ts';

const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const tool = (name: string) => ({ name, inputSchema: { type: 'object' } });

type Issuer = NonNullable<NonNullable<ConfigInput['auth']>['jwt']>[number];

export const challengeOf = ({ status, headers }: { status: number; headers: Record<string, unknown> }) =>
  [status, headers['www-authenticate']] as const;

/** A gateway that takes the tokens of these issuers, before a server whose tools say what they are told. */
export async function openJwtGateway<Name extends string>(
  issuers: Readonly<Record<Name, Partial<Issuer>>>,
  more: Partial<ConfigInput> = {},
  port = 0,
) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-jwt-'));
  const names = Object.keys(issuers) as Name[];
  const servers = new Map<Name, KeyServer>();
  for (const name of names) servers.set(name, await keyServer());
  const keys = (name: Name) => servers.get(name) as KeyServer;
  const jwt = names.map((name) => {
    const { issuer, jwksUri } = keys(name);
    return { issuer, audience: [audience], jwksUri, userPrefix: name, ...issuers[name] };
  });
  const upstream = await startEchoUpstream((method, params) => {
    if (method === 'tools/list') return { ...hints, tools: ['read', 'write'].map(tool) };
    if (method !== 'tools/call') return undefined;
    const meta = params['_meta'] as Record<string, Record<string, unknown>>;
    const { userId, sessionId, permissions, trustLevel } = meta['ambit/context'] ?? {};
    const text = JSON.stringify({ userId, sessionId, permissions, trustLevel });
    return { resultType: 'complete', content: [{ type: 'text', text }] };
  });
  const notes = {
    url: upstream.url,
    era: 'modern',
    context: 'full',
    trust: ['direct', 'sandboxed'],
    tools: { permissions: { write: 'notes:write' } },
  } as const;
  const lines: string[] = [];
  const note = (event: string, fields: object = {}) => void lines.push(`${event} ${JSON.stringify(fields)}`);
  const gateway = await createGateway({
    config: { version: 1, store: { kind: 'memory' }, auth: { jwt }, servers: { notes } as never, ...more },
    dataDir: join(folder, 'data'),
    log: { info: note, warn: note, debug: note },
  });
  const { origin } = new URL((await gateway.listen({ port })).url);
  return {
    origin,
    url: `${origin}/mcp/notes`,
    keys,
    upstream,
    gateway,
    lines,
    token: (name: Name, claims: Readonly<Record<string, unknown>> = {}) => tokenOf(keys(name), { claims }),
    journal: () => readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8'),
    async close() {
      await gateway.close();
      await upstream.close();
      for (const server of servers.values()) server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
